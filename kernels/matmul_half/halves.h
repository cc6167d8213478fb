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

// Row and column of a tile, in the order in which blocks take tiles: down a group of rows first, then on to the next
// column, so that what is computed at a time shares rows of A and columns of B.
__device__ __forceinline__ void find_tile(int number, int down, int across, int& row, int& col)
{
    const int first = number / (GROUP * across) * GROUP, height = min(down - first, GROUP);
    const int inside = number - first * across;
    row = first + inside % height, col = inside / height;
}
