// The two halves of a float64, and where memory lies. CUDA math API, "Type Casting Intrinsics"; CUDA C++ Programming
// Guide, "Address Space Predicate Functions" and "Address Space Conversion Functions".
#pragma once

extern "C" {
extern SOFTCUDA_HIDDEN char softcuda_shared_first[], softcuda_shared_last[];
int softcuda_space(const void* address); // 0 none known, 1 global, 2 shared, 3 constant, 4 local
}

static inline int __double2hiint(double x) { return int(softcuda::to_bits(x) >> 32); }
static inline int __double2loint(double x) { return int(softcuda::to_bits(x)); }
static inline double __hiloint2double(int high, int low)
{
    return softcuda::from_bits<double>((unsigned long)unsigned(high) << 32 | unsigned(low));
}

static inline unsigned __isGlobal(const void* pointer) { return softcuda_space(pointer) == 1; }
static inline unsigned __isShared(const void* pointer) { return softcuda_space(pointer) == 2; }
static inline unsigned __isConstant(const void* pointer) { return softcuda_space(pointer) == 3; }
static inline unsigned __isLocal(const void* pointer) { return softcuda_space(pointer) == 4; }

// An address in shared memory is 32 bits wide: from 0 in what a kernel declares, from 2^31 in what the launch adds.
static constexpr unsigned softcuda_dynamic_first = 1u << 31;
SOFTCUDA_RAW size_t __cvta_generic_to_shared(const void* pointer)
{
    const auto to = static_cast<const char*>(pointer);
    if (to >= softcuda_shared_first && to < softcuda_shared_last)
        return size_t(to - softcuda_shared_first);
    return softcuda_dynamic_first + unsigned(to - softcuda_dynamic_shared());
}
SOFTCUDA_RAW void* __cvta_shared_to_generic(size_t shared)
{
    return shared < softcuda_dynamic_first ? softcuda_shared_first + shared
                                           : softcuda_dynamic_shared() + (shared - softcuda_dynamic_first);
}
#define SOFTCUDA_SPACE(space) \
    static inline size_t __cvta_generic_to_##space(const void* pointer) { return size_t(pointer); } \
    static inline void* __cvta_##space##_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
SOFTCUDA_SPACE(global)
SOFTCUDA_SPACE(constant)
SOFTCUDA_SPACE(local)
SOFTCUDA_SPACE(grid_constant)
#undef SOFTCUDA_SPACE
