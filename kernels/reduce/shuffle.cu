// Sum of n elements by as many blocks as run at a time: each thread adds up elements a whole grid apart, in a register.
// Warps add by shuffles, one barrier a block; a second launch of one block adds the sums of blocks up, always in the
// same order.
// Costs: x once, by loads of one element; PARTS sums to memory and back; a second launch.

#include "sums.h"

extern "C" __global__ void __launch_bounds__(BLOCK_X)
reduce_shuffle(const scalar_t* x, scalar_t* parts, int n)
{
    scalar_t sum = 0;
    for (size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x; i < n; i += size_t(gridDim.x) * BLOCK_X)
        sum += x[i];
    sum = sum_block(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

REDUCE_PARTS
