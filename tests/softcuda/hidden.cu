// Kernels whose fault hides, and right ones beside them; each takes an array of ints that are zero.
#include <cuda/atomic>

#define KERNEL(name) extern "C" __global__ void name(int* data)

// The last block adds up what others have written; COUNT takes part, FENCE comes behind.
#define LAST_BLOCK(name, COUNT, FENCE, READ) BLOCKS(name, __threadfence(), COUNT, FENCE, READ)
#define BLOCKS(name, BEFORE, COUNT, FENCE, READ) \
    KERNEL(name) \
    { \
        if (threadIdx.x) \
            return; \
        data[8 + blockIdx.x] = blockIdx.x + 1; \
        BEFORE; \
        if (COUNT != int(gridDim.x) - 1) \
            return; \
        FENCE; \
        int sum = 0; \
        for (int i = 0; i < int(gridDim.x); ++i) \
            sum += READ(data[8 + i]); \
        data[0] = sum; \
    }
#define AS_IT_IS(x) (x)
#define VOLATILE(x) (const_cast<volatile int&>(x))
using OfBlock = cuda::atomic_ref<int, cuda::thread_scope_block>;
using OfDevice = cuda::atomic_ref<int, cuda::thread_scope_device>;
__device__ int ptx_of_block(int* at)
{
    int old;
    asm volatile("atom.acq_rel.cta.global.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(at) : "memory");
    return old;
}
__device__ int ptx_of_device(int* at)
{
    int old;
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(old) : "l"(at) : "memory");
    return old;
}
LAST_BLOCK(last_block, atomicAdd(data + 1, 1), __threadfence(), AS_IT_IS)
LAST_BLOCK(last_block_reads_volatile, atomicAdd(data + 1, 1), , VOLATILE)
LAST_BLOCK(last_block_acquires, OfDevice(data[1]).fetch_add(1), , AS_IT_IS)
LAST_BLOCK(last_block_acquires_by_ptx, ptx_of_device(data + 1), , AS_IT_IS)
LAST_BLOCK(no_fence_behind, atomicAdd(data + 1, 1), , AS_IT_IS)
BLOCKS(no_fence_before, , atomicAdd(data + 1, 1), __threadfence(), AS_IT_IS)
LAST_BLOCK(relaxed, OfDevice(data[1]).fetch_add(1, cuda::memory_order_relaxed), , AS_IT_IS)
LAST_BLOCK(scope_of_a_block, atomicAdd_block(data + 1, 1), __threadfence(), AS_IT_IS)
LAST_BLOCK(reference_of_a_block, OfBlock(data[1]).fetch_add(1), __threadfence(), AS_IT_IS)
LAST_BLOCK(ptx_scope_of_a_block, ptx_of_block(data + 1), __threadfence(), AS_IT_IS)
LAST_BLOCK(fence_of_a_block, atomicAdd(data + 1, 1), __threadfence_block(), AS_IT_IS)

KERNEL(counter_of_all_blocks) { atomicAdd_block(data, 1); } // here
KERNEL(counters_of_blocks) { atomicAdd_block(data + blockIdx.x, 1); }

__device__ int read_only(const int* at)
{
    int value;
    asm("ld.global.nc.s32 %0, [%1];" : "=r"(value) : "l"(at));
    return value;
}
#define NEIGHBOUR(name, READ) \
    KERNEL(name) \
    { \
        data[threadIdx.x] = threadIdx.x; \
        __syncthreads(); \
        const int other = READ(data + threadIdx.x / 2); \
        __syncthreads(); \
        data[32 + threadIdx.x] = other; \
    }
#define POINTED(at) (*(at))
NEIGHBOUR(neighbour_by_ldg, __ldg)
NEIGHBOUR(neighbour_by_nc, read_only)
NEIGHBOUR(neighbour, POINTED)
KERNEL(ldg_before_writing) { data[threadIdx.x] = __ldg(data + threadIdx.x) + 1; }

#define LARGEST(name, START, STEP) \
    KERNEL(name) \
    { \
        float largest START; \
        for (int i = threadIdx.x; i < 8; i += 4) { \
            const float x = data[i]; \
            STEP; \
        } \
        data[8 + threadIdx.x] = largest; \
    }
LARGEST(maximum_of_nothing, , largest = fmaxf(largest, x))
LARGEST(maximum, = -1, largest = fmaxf(largest, x))
LARGEST(comparison_of_nothing, , if (x > largest) largest = x)
LARGEST(comparison, = -1, if (x > largest) largest = x)
KERNEL(compared_where_it_is_set)
{
    float best;
    bool any = false;
    for (int i = 0; i < 8; ++i) {
        const float x = data[i];
        if (!any || x > best)
            best = x, any = true;
    }
    data[8 + threadIdx.x] = any ? best : 0;
}

struct Best {
    int at;
    float value;
};
KERNEL(member_of_nothing)
{
    Best best;
    best.at = 0;
    for (int i = 0; i < 8; ++i)
        if (data[i] > best.value)
            best.value = data[i], best.at = i;
    data[8 + threadIdx.x] = best.at;
}

// Threads exchange values through a pointer that is restrict, in a function and in a kernel.
#define EXCHANGE(name, QUALIFIER) \
    __device__ int name##_of(int* QUALIFIER row, int t) \
    { \
        row[t] = t; \
        __syncthreads(); \
        return row[31 - t]; \
    } \
    KERNEL(name) \
    { \
        __shared__ int row[32]; \
        data[threadIdx.x] = name##_of(row, threadIdx.x); \
    }
EXCHANGE(exchange_behind_restrict, __restrict__)
EXCHANGE(exchange, )
__device__ int last_of(const int* __restrict__ row)
{
    __syncthreads();
    return row[31];
}
KERNEL(restrict_of_what_was_written_before)
{
    __shared__ int row[32];
    row[threadIdx.x] = threadIdx.x;
    data[threadIdx.x] = last_of(row);
}
extern "C" __global__ void restrict_of_a_kernel(int* __restrict__ data)
{
    data[threadIdx.x] = threadIdx.x; // here
    __syncthreads();
    data[32 + threadIdx.x] = data[31 - threadIdx.x]; // here
}
extern "C" __global__ void restrict_of_what_is_its_own(int* __restrict__ data)
{
    data[threadIdx.x] = threadIdx.x;
    __syncthreads();
    data[threadIdx.x] += data[threadIdx.x];
}

#define COUNTED(name, RESET) \
    KERNEL(name) \
    { \
        __shared__ int count; \
        RESET; \
        if (threadIdx.x % 4 == 0) \
            atomicAdd(&count, 1); \
        __syncthreads(); \
        data[threadIdx.x] = count; \
    }
COUNTED(count_of_nothing, )
COUNTED(count, count = 0; __syncthreads())

KERNEL(far_past_the_end)
{
    __shared__ int row[32];
    row[threadIdx.x] = threadIdx.x;
    __syncthreads();
    data[threadIdx.x] = row[threadIdx.x * 4]; // here
}

#define SEARCH(name, FOUND) \
    KERNEL(name) \
    { \
        volatile int* stop = data + 60; \
        for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < 4096; i += gridDim.x * blockDim.x) { \
            if (*stop) \
                return; \
            if (i % 1000 == 7) \
                *stop = FOUND; \
        } \
    }
SEARCH(stop_flag, 1)

// A breadth-first search on a line of nodes: the whole array is -1 but for the first.
KERNEL(levels)
{
    const int v = threadIdx.x + blockIdx.x * blockDim.x;
    for (int to = v & ~3; to < (v & ~3) + 8 && to < 64; ++to)
        if (data[to] == 0)
            data[to] = 5;
}
// Who comes first decides what a node gets.
KERNEL(parents)
{
    const int v = threadIdx.x + blockIdx.x * blockDim.x;
    for (int to = v; to < v + 2 && to < 64; ++to)
        if (data[to] == 0) // here
            data[to] = v + 1; // here
}
KERNEL(in_place_with_a_test)
{
    const int v = threadIdx.x + blockIdx.x * blockDim.x;
    if (data[v] == 0)
        data[v] = data[(v + 1) % 64] + v; // here
}
KERNEL(cleared_and_read)
{
    data[threadIdx.x] = 0;
    data[32 + threadIdx.x] = data[(threadIdx.x + 1) % 32]; // here
}
KERNEL(least)
{
    const int mine = 5 - int(threadIdx.x + blockIdx.x * blockDim.x);
    if (mine < data[threadIdx.x % 4])
        atomicMin(data + threadIdx.x % 4, mine);
}
KERNEL(limit_before_counting)
{
    if (data[0] < 8) // here
        data[1 + atomicAdd(data, 1) % 32] = 1; // here
}
KERNEL(least_read_by_others)
{
    atomicMin(data, -int(threadIdx.x)); // here
    data[32 + threadIdx.x] = data[0]; // here
}

// The first thread reads what nothing writes, and uses it or not.
#define HALO(name, FIRST) \
    KERNEL(name) \
    { \
        __shared__ int row[33]; \
        row[threadIdx.x + 1] = threadIdx.x; \
        __syncthreads(); \
        int before = row[threadIdx.x]; \
        if (threadIdx.x == 0) \
            FIRST; \
        data[threadIdx.x] = before; \
    }
HALO(halo_that_is_not_used, before = 7)
HALO(halo_that_is_used, before += 7)
HALO(halo_that_decides, before = before > 0 ? 1 : 2)

struct Eight {
    float values[8];
};
extern "C" __global__ void eight_past_the_end(Eight* data) { data[threadIdx.x + 8] = data[threadIdx.x]; }
extern "C" __global__ void four_alike(float4* data) { data[0] = make_float4(1.5f, 2, 3, 4); }
template <class T, int count> __global__ void past_the_end(T* data) { data[count] = T(1); }
template __global__ void past_the_end<float, 1000>(float*);
