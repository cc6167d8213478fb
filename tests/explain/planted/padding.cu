// Transposes tiles through shared memory. m and n are multiples of 32.
#include "planted.h"

#ifdef PLANTED
constexpr int spare = 0;
#else
constexpr int spare = 1;
#endif

extern "C" __global__ void padding_tile(const float* x, float* y, int m, int n)
{
    __shared__ float tile[32][32 + spare];
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    for (int i = 0; i < 32; i += 8)
        tile[threadIdx.y + i][threadIdx.x] = x[size_t(row + i) * n + col];
    __syncthreads();
    const int to = blockIdx.x * 32 + threadIdx.y, from = blockIdx.y * 32 + threadIdx.x;
    for (int i = 0; i < 32; i += 8)
        y[size_t(to + i) * m + from] = tile[threadIdx.x][threadIdx.y + i];
}
