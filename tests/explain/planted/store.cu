// Doubles a matrix by way of shared memory. m and n are multiples of 32.
#include "planted.h"

extern "C" __global__ void store_tile(const float* x, float* y, int m, int n)
{
    __shared__ float tile[32][33];
    const int row = blockIdx.y * 32, col = blockIdx.x * 32;
    for (int i = threadIdx.y; i < 32; i += 8)
        tile[i][threadIdx.x] = 2 * x[size_t(row + i) * n + col + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8)
#ifdef PLANTED
        y[size_t(row + threadIdx.x) * n + col + i] = tile[threadIdx.x][i];
#else
        y[size_t(row + i) * n + col + threadIdx.x] = tile[i][threadIdx.x];
#endif
}
