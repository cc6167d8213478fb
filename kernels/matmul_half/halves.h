// What the kernels of half precision alike need: the types, their name in PTX, and how sums become elements.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#define TYPE TEXT_OF(PTX_TYPE)

// Two sums as two elements, the first in the lower half.
__device__ __forceinline__ unsigned rounded(float low, float high)
{
    unsigned both;
    asm("cvt.rn." TYPE "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
