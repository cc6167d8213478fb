// Adds to each column its right neighbour's, block by block, by way of shared memory. n is a multiple of BLOCK_X.
#include "planted.h"

extern "C" __global__ void barriers_neighbours(const float* __restrict__ x, float* y, int m, int n)
{
    __shared__ float line[BLOCK_X];
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < m; ++i) {
        line[threadIdx.x] = x[size_t(i % 4) * n + at];
        __syncthreads();
        sum += line[(threadIdx.x + 1) % BLOCK_X];
        __syncthreads();
#ifdef PLANTED
        __syncthreads();
        __syncthreads();
#endif
    }
    y[at] = sum;
}
