// Matrix product as register_tile.cu, with loads of 16 bytes from global and from shared memory.
// Rows that do not start at a multiple of 16 bytes (n or k no multiple of that, or an odd array) are loaded element by
// element; the inner loop (microtile.h) is the same.
// Costs: as register_tile.cu, with a quarter of its load instructions (half for float64).
// Share on an H200, predicted: 0.64 to 0.70; reached: 0.75 of cuBLAS at 4096^3 (float32); 0.32 in float64.

#include "microtile.h"

extern "C" __global__ void __launch_bounds__(threads)
matmul_vectorised(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    __shared__ Tiles tiles;
    const Matrices from = matrices(a, b, m, n, k);
    scalar_t sums[side][side] = {};
    for (int start = 0; start < n; start += depth) {
        Held held;
        fetch(held, from, start);
        put(tiles, held);
        __syncthreads();
        multiply(sums, tiles);
        __syncthreads();
    }
    store(sums, c, from);
}
