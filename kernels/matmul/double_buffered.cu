// Matrix product as vectorised.cu, with two tiles in shared memory: one is multiplied while the next is on its way.
// The next tile's loads start before the multiplication and wait in registers; they are put into the other tile after
// it. One barrier a step in place of two.
// Costs: as vectorised.cu, with twice its shared memory, and registers for a tile's loads.
// Share on an H200, predicted: 0.79; reached: 0.78 of cuBLAS at 4096^3 (float32); in float64 it does not pay: 0.32, as
// without.

#include "microtile.h"

extern "C" __global__ void __launch_bounds__(threads)
matmul_double_buffered(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    __shared__ Tiles tiles[2];
    const Matrices from = matrices(a, b, m, n, k);
    scalar_t sums[side][side] = {};
    Held held;
    fetch(held, from, 0);
    put(tiles[0], held);
    __syncthreads();
    int now = 0;
    for (int next = depth; next < n; next += depth) {
        fetch(held, from, next);
        multiply(sums, tiles[now]);
        now ^= 1;
        put(tiles[now], held);
        __syncthreads();
    }
    multiply(sums, tiles[now]);
    store(sums, c, from);
}
