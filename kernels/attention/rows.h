// What the kernels of attention share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr bool causal = CAUSAL;

// What scores are multiplied by, so that a power of two is the weight: log2(e) / sqrt(d).
template <int d> constexpr float scale = d == 64 ? 0.180336880f : 0.127517432f;

// Weights are powers of two, of numbers of at most zero; minus infinity has none.
__device__ __forceinline__ float power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Rows of o that a block computes: those of a head from `first` on. The last ones come first, which see most keys where
// attention is causal.
__device__ __forceinline__ void find_rows(int n, int& head, int& first)
{
    const int count = (n - 1) / BLOCK_X + 1;
    head = blockIdx.x / count, first = (count - 1 - int(blockIdx.x) % count) * BLOCK_X;
}
