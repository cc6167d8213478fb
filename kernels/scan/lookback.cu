// Inclusive scan in one pass: a block scans a tile, publishes its sum, and looks back at the words of earlier tiles until
// one has the sum of all up to it (lookback.h). One thread looks at one word at a time.
// Costs: 8 bytes an element; loads of one element, EACH of them in flight a thread; a ticket and a word a tile, and a
// wait for L2 for each word that is looked at. Float sums depend on which words were there, in their last bits.

#include "lookback.h"

extern "C" __global__ void __launch_bounds__(BLOCK_X)
scan_lookback(const scalar_t* x, scalar_t* y, Word* words, Word* ticket, int n)
{
    __shared__ scalar_t before_tile;
    const Tile tile = next_tile(ticket);
    const size_t first = size_t(tile.number) * BLOCK_X * EACH + threadIdx.x / 32 * (32 * EACH) + threadIdx.x % 32;

    scalar_t values[EACH];
#pragma unroll
    for (int j = 0; j < EACH; ++j)
        values[j] = first + j * 32 < n ? x[first + j * 32] : scalar_t(0);
    scalar_t sum = 0; // of the warp, so far
#pragma unroll
    for (int j = 0; j < EACH; ++j) {
        values[j] = scan_warp(values[j]) + sum;
        sum = __shfl_sync(0xffffffffu, values[j], 31);
    }
    scalar_t all;
    scalar_t before = before_warp(sum, all);

    if (threadIdx.x == 0) {
        scalar_t earlier = 0;
        if (tile.number > 0) {
            publish(words, tile.number, tile.own, all);
            Seen seen;
            int number = tile.number;
            do
                earlier += (seen = wait_for(words, --number, tile)).sum;
            while (seen.state != tile.all);
        }
        publish(words, tile.number, tile.all, earlier + all);
        before_tile = earlier;
    }
    __syncthreads();
    before += before_tile;
#pragma unroll
    for (int j = 0; j < EACH; ++j)
        if (first + j * 32 < n)
            y[first + j * 32] = values[j] + before;
}
