// Sums columns; unrolling keeps several loads in flight.
#include "planted.h"

extern "C" __global__ void unrolling_column(const float* __restrict__ x, float* y, int m, int n)
{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n)
        return;
    float sum = 0;
#ifdef PLANTED
#pragma unroll 2
#else
#pragma unroll 8
#endif
    for (int i = 0; i < m; ++i)
        sum += x[size_t(i) * n + at];
    y[at] = sum;
}
