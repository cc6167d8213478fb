// What the kernels of resident blocks do alike: the sum of a block's values, the sum of a block's share of an array by
// pieces of 16 bytes, and the kernel that adds the sums of blocks up.

#pragma once

constexpr int warps = BLOCK_X / 32, in_flight = 8, pack = 16 / sizeof(scalar_t), line = 128 / 16;
static_assert(BLOCK_X % 32 == 0 && warps <= 32, "a block is made of whole warps, whose sums one warp adds up");
struct alignas(16) Pack {
    scalar_t values[pack];
};

__device__ __forceinline__ scalar_t sum_warp(scalar_t value)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_down_sync(0xffffffffu, value, distance);
    return value;
}

// Returns the sum to thread 0. Every thread of the block calls it, once.
__device__ __forceinline__ scalar_t sum_block(scalar_t value)
{
    __shared__ scalar_t of_warps[warps];
    value = sum_warp(value);
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    return threadIdx.x < 32 ? sum_warp(threadIdx.x < warps ? of_warps[threadIdx.x] : scalar_t(0)) : scalar_t(0);
}

// Returns a thread's part of its block's share of x. Shares are whole cache lines where x starts at one; elements before
// and after the whole pieces are the first block's.
__device__ __forceinline__ scalar_t sum_share(const scalar_t* x, int n)
{
    const int head = min(n, int((16 - size_t(x) % 16) % 16 / sizeof(scalar_t))), packs = (n - head) / pack;
    const Pack* const body = reinterpret_cast<const Pack*>(x + head);
    const int share = ((packs - 1) / int(gridDim.x) / line + 1) * line;
    const int first = min(packs, share * int(blockIdx.x)), end = min(packs, first + share);

    scalar_t sums[pack] = {};
    for (int i = first + threadIdx.x; i < end; i += in_flight * BLOCK_X) {
        Pack held[in_flight];
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
            held[j] = i + j * BLOCK_X < end ? body[i + j * BLOCK_X] : Pack {};
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
#pragma unroll
            for (int k = 0; k < pack; ++k)
                sums[k] += held[j].values[k];
    }
    const int edge = threadIdx.x < head ? threadIdx.x : threadIdx.x + packs * pack;
    scalar_t sum = blockIdx.x == 0 && edge < n ? x[edge] : scalar_t(0);
#pragma unroll
    for (int k = 0; k < pack; ++k)
        sum += sums[k];
    return sum;
}

#define REDUCE_PARTS \
    extern "C" __global__ void __launch_bounds__(BLOCK_X) reduce_parts(const scalar_t* parts, scalar_t* sum, int n) \
    { \
        scalar_t own = 0; \
        for (int i = threadIdx.x; i < n; i += BLOCK_X) \
            own += parts[i]; \
        own = sum_block(own); \
        if (threadIdx.x == 0) \
            *sum = own; \
    }
