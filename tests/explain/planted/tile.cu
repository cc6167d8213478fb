// Multiplies matrices by tiles of 16 x 16 results that are DEPTH deep. All sizes are multiples of 64.
#include "planted.h"

#ifdef PLANTED
constexpr int depth = 16;
#else
constexpr int depth = 64;
#endif

extern "C" __global__ void tile_product(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float of_a[16][depth], of_b[depth][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int start = 0; start < n; start += depth) {
#pragma unroll
        for (int i = 0; i < depth; i += 16) {
            of_a[y][i + x] = a[size_t(row) * n + start + i + x];
            of_b[i + y][x] = b[size_t(start + i + y) * k + col];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < depth; ++i)
            sum += of_a[y][i] * of_b[i][x];
        __syncthreads();
    }
    c[size_t(row) * k + col] = sum;
}
