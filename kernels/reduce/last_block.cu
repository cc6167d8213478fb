// Sum of n elements in one launch: vectorised.cu, and the block that is last to leave its sum adds them all up.
// Blocks take tickets when their sum is in memory. The ticket counts round, and so is ready for the next launch; the sums
// are added in the same order whichever block is last.
// Costs: as vectorised.cu; a fence and an atomic operation a block in place of a second launch.

#include "sums.h"

extern "C" __global__ void __launch_bounds__(BLOCK_X, 1024 / BLOCK_X)
reduce_last_block(const scalar_t* x, scalar_t* parts, unsigned* ticket, scalar_t* sum, int n)
{
    __shared__ bool is_last;
    __shared__ scalar_t of_warps[warps];
    scalar_t own = sum_block(sum_share(x, n));
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = own;
        __threadfence(); // the sum is in memory before the ticket says so
        is_last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last)
        return;
    __threadfence();
    own = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += BLOCK_X)
        own += __ldcg(parts + i); // from L2, where the others' sums are
    own = sum_warp(own);
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < warps; ++warp)
            own += of_warps[warp];
        *sum = own;
    }
}
