// Softmax, a warp a row, in two passes over it: maximum and sum in one, the result in another.
// A sum is scaled when a larger element comes. The lanes' pairs are merged by shuffles, without a barrier.
// Costs: a row read twice, from L2 or L1 the second time, by loads of one element; three exponentials an element.
// BLOCK_X rows a block.

#include "pair.h"

extern "C" __global__ void __launch_bounds__(BLOCK_X * 32)
softmax_online(const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m)
        return; // a whole warp
    const scalar_t* const from = x + size_t(row) * n;
    scalar_t* const to = y + size_t(row) * n;
    Pair pair = { lowest, 0 };
#pragma unroll 4
    for (int col = lane; col < n; col += 32)
        add(pair, { from[col] });
    pair = merge_lanes<32>(pair, merge);
    const scalar_t factor = 1 / pair.sum;
#pragma unroll 4
    for (int col = lane; col < n; col += 32)
        to[col] = exp(from[col] - pair.largest) * factor;
}
