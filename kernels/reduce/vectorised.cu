// Sum of n elements by as many blocks as run at a time, each with an equal share of x, by loads of 16 bytes.
// Eight of them are in flight a thread, also at the end of a share, where they are predicated. Arrays that start off 16
// bytes are read by whole pieces too.
// Costs: as shuffle.cu, with a quarter of its loads.

#include "sums.h"

extern "C" __global__ void __launch_bounds__(BLOCK_X, 1024 / BLOCK_X)
reduce_vectorised(const scalar_t* x, scalar_t* parts, int n)
{
    const scalar_t sum = sum_block(sum_share(x, n));
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

REDUCE_PARTS
