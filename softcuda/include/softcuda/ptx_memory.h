// What instructions of ptx_table.py do with memory, barriers and the lanes of a warp.
#pragma once

namespace softcuda_ptx {

SOFTCUDA_RAW char* at(unsigned shared) { return static_cast<char*>(__cvta_shared_to_generic(shared)); }
static __forceinline__ unsigned thread_number() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
// The lowest lane of a warp that waits here, and whether it is this one.
static __forceinline__ uint32_t elected(uint32_t mask) { return uint32_t(__builtin_ctz(__ballot_sync(mask, 1))); }
static __forceinline__ bool is_elected(uint32_t mask) { return __builtin_ctz(mask) == int(thread_number() % 32); }
static __forceinline__ bool is_in_global(uint64_t address) { return __isGlobal(reinterpret_cast<void*>(address)); }
static __forceinline__ bool is_in_shared(uint64_t address) { return __isShared(reinterpret_cast<void*>(address)); }
static __forceinline__ bool is_in_const(uint64_t address) { return __isConstant(reinterpret_cast<void*>(address)); }
static __forceinline__ bool is_in_local(uint64_t address) { return __isLocal(reinterpret_cast<void*>(address)); }

// Fences, and what comes before an operation that hands on: a fence orders what lies before it.
static __forceinline__ void fence_cta() { softcuda_fence(0); }
static __forceinline__ void fence_cluster() { softcuda_fence(1); }
static __forceinline__ void fence_gpu() { softcuda_fence(1); }
static __forceinline__ void fence_gl() { softcuda_fence(1); }
static __forceinline__ void fence_sys() { softcuda_fence(1); }
static __forceinline__ void wait_for_grid() { softcuda_waits_for_grid(); }
enum { order_weak = 0, order_relaxed = 0, order_acquire = 1, order_release = 2, order_acq_rel = 3, order_volatile = 0 };
enum { scope_cta = softcuda::atomic_of_block, scope_cluster = 0, scope_gpu = 0, scope_sys = 0 };

// Vectors are loaded and stored as one, so that their alignment is seen. The checker takes volatile accesses for such as
// order others; a vector has none.
template <class T, unsigned count> struct alignas(count * sizeof(T)) Vector {
    T values[count];
};
template <class T, unsigned count> __forceinline__ Vector<T, count> load_weak(const void* from)
{
    return *static_cast<const Vector<T, count>*>(from);
}
template <class T, unsigned count> __forceinline__ Vector<T, count> load_read_only(const void* from)
{
    return __ldg(static_cast<const Vector<T, count>*>(from));
}
template <class T, unsigned count> __forceinline__ Vector<T, count> load_volatile(const void* from)
{
    if constexpr (count == 1)
        return {{*static_cast<const volatile T*>(from)}};
    else
        return load_weak<T, count>(from);
}
template <class T, unsigned count> __forceinline__ Vector<T, count> load_relaxed(const void* from) { return load_volatile<T, count>(from); }
template <class T, unsigned count> __forceinline__ Vector<T, count> load_acquire(const void* from) { return load_volatile<T, count>(from); }
template <class T, class... Values> __forceinline__ void store_weak(void* to, Values... values)
{
    *static_cast<Vector<T, sizeof...(Values)>*>(to) = Vector<T, sizeof...(Values)> {{values...}};
}
template <class T> __forceinline__ void store_volatile(void* to, T value) { *static_cast<volatile T*>(to) = value; }
template <class T, class... Values> __forceinline__ void store_volatile(void* to, T first, T second, Values... values)
{
    store_weak<T>(to, first, second, values...);
}
template <class T, class... Values> __forceinline__ void store_relaxed(void* to, Values... values) { store_volatile<T>(to, values...); }
template <class T, class... Values> __forceinline__ void store_release(void* to, Values... values)
{
    softcuda_fence(1);
    store_volatile<T>(to, values...);
}

// Before an operation that hands on comes a fence, which orders what lies before it, and one behind that takes.
#define SOFTCUDA_ORDERED(operation) \
    if (order & order_release) \
        softcuda_fence(scope != scope_cta); \
    const T old = scope == scope_cta ? operation; \
    if (order & order_acquire) \
        softcuda_fence(scope != scope_cta); \
    return old;
#define SOFTCUDA_ATOM(name, function) \
    template <int order, int scope, class T> __forceinline__ T atom_##name(T* address, T value) \
    { \
        SOFTCUDA_ORDERED(function##_block(address, value) : function(address, value)) \
    }
SOFTCUDA_ATOM(add, atomicAdd)
SOFTCUDA_ATOM(min, atomicMin)
SOFTCUDA_ATOM(max, atomicMax)
SOFTCUDA_ATOM(inc, atomicInc)
SOFTCUDA_ATOM(dec, atomicDec)
SOFTCUDA_ATOM(and, atomicAnd)
SOFTCUDA_ATOM(or, atomicOr)
SOFTCUDA_ATOM(xor, atomicXor)
SOFTCUDA_ATOM(exch, atomicExch)
#undef SOFTCUDA_ATOM
template <int order, int scope, class T> __forceinline__ T atom_cas(T* address, T expected, T desired)
{
    SOFTCUDA_ORDERED(atomicCAS_block(address, expected, desired) : atomicCAS(address, expected, desired))
}
#undef SOFTCUDA_ORDERED

static __forceinline__ void stop(const char* instruction) { softcuda_trap(instruction); }

// Of the sixteen barriers of a block number 0 is __syncthreads where all threads come.
static __forceinline__ void bar_sync(unsigned number, unsigned threads)
{
    if (number || threads != blockDim.x * blockDim.y * blockDim.z)
        softcuda_numbered_barrier(number, threads, 1);
    else
        softcuda_syncthreads();
}
static __forceinline__ void bar_sync(unsigned number) { bar_sync(number, number ? 0 : blockDim.x * blockDim.y * blockDim.z); }
static __forceinline__ void bar_arrive(unsigned number, unsigned threads) { softcuda_numbered_barrier(number, threads, 0); }
__attribute__((error("softcuda does not support a reduction at a barrier other than 0"))) void no_such_barrier();
template <int kind> __forceinline__ unsigned bar_red(unsigned number, bool predicate)
{
    if (!__builtin_constant_p(number) || number != 0)
        no_such_barrier();
    return unsigned(softcuda_syncthreads_reduce(kind, predicate));
}

// The third operand holds the last lane that may be asked, and above bit 8 the bits that a segment's lanes share.
static __forceinline__ int width_of(uint32_t c) { return int(32 - (c >> 8 & 31)); }
#define SOFTCUDA_SHUFFLE(name, function, source, is_inside) \
    static __forceinline__ uint32_t shfl_##name(uint32_t value, uint32_t b, uint32_t c, uint32_t mask) { return function(mask, value, int(b), width_of(c)); } \
    static __forceinline__ bool shfl_##name##_is_inside(uint32_t b, uint32_t c) \
    { \
        const int lane = int(thread_number() % 32), first = lane & int(c >> 8), last = first | (31 & ~int(c >> 8)), from = source; \
        (void)first, (void)last, (void)from, (void)b; \
        return is_inside; \
    }
SOFTCUDA_SHUFFLE(idx, __shfl_sync, first | (int(b) & ~int(c >> 8) & 31), from <= last)
SOFTCUDA_SHUFFLE(up, __shfl_up_sync, lane - int(b), from >= first)
SOFTCUDA_SHUFFLE(down, __shfl_down_sync, lane + int(b), from <= last)
SOFTCUDA_SHUFFLE(bfly, __shfl_xor_sync, lane ^ int(b), from <= last)
#undef SOFTCUDA_SHUFFLE

} // namespace softcuda_ptx

static __forceinline__ void __barrier_sync(unsigned number) { softcuda_ptx::bar_sync(number); }
static __forceinline__ void __barrier_sync_count(unsigned number, unsigned threads) { softcuda_ptx::bar_sync(number, threads); }
