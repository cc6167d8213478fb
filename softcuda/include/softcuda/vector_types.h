// CUDA's vector types: structs with the alignment that a GPU's vector loads ask for.
#pragma once

#include <cstddef>

// Guards of CUDA's own headers, which nvcc includes first: some sources bring copies of these behind them.
#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
#define __DRIVER_TYPES_H__
#define __CUDA_RUNTIME_H__

#define SOFTCUDA_VECTORS(name, type, align2, align4) \
    struct name##1 { type x; }; \
    struct alignas(align2) name##2 { type x, y; }; \
    struct name##3 { type x, y, z; }; \
    struct alignas(align4) name##4 { type x, y, z, w; }; \
    static inline name##1 make_##name##1(type x) { return {x}; } \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

SOFTCUDA_VECTORS(char, signed char, 2, 4)
SOFTCUDA_VECTORS(uchar, unsigned char, 2, 4)
SOFTCUDA_VECTORS(short, short, 4, 8)
SOFTCUDA_VECTORS(ushort, unsigned short, 4, 8)
SOFTCUDA_VECTORS(int, int, 8, 16)
SOFTCUDA_VECTORS(uint, unsigned, 8, 16)
SOFTCUDA_VECTORS(long, long, 16, 16)
SOFTCUDA_VECTORS(ulong, unsigned long, 16, 16)
SOFTCUDA_VECTORS(longlong, long long, 16, 16)
SOFTCUDA_VECTORS(ulonglong, unsigned long long, 16, 16)
SOFTCUDA_VECTORS(float, float, 8, 16)
SOFTCUDA_VECTORS(double, double, 16, 16)
#undef SOFTCUDA_VECTORS

// Four words of 8 bytes with the alignment in their names, since CUDA 13.
#define SOFTCUDA_ALIGNED(name, type, align) \
    struct alignas(align) name##4_##align##a { type x, y, z, w; }; \
    static inline name##4_##align##a make_##name##4_##align##a(type x, type y, type z, type w) { return {x, y, z, w}; }
#define SOFTCUDA_BOTH(name, type) SOFTCUDA_ALIGNED(name, type, 16) SOFTCUDA_ALIGNED(name, type, 32)
SOFTCUDA_BOTH(long, long)
SOFTCUDA_BOTH(ulong, unsigned long)
SOFTCUDA_BOTH(longlong, long long)
SOFTCUDA_BOTH(ulonglong, unsigned long long)
SOFTCUDA_BOTH(double, double)
#undef SOFTCUDA_BOTH
#undef SOFTCUDA_ALIGNED

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) { }
    dim3(uint3 v) : x(v.x), y(v.y), z(v.z) { }
    operator uint3() const { return {x, y, z}; }
};

using std::size_t;
