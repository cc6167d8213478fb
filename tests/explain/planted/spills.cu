// Takes the mean of each column of ROWS rows from it; each thread keeps a column in registers.
#include "planted.h"

#ifdef PLANTED
#define BOUNDS __launch_bounds__(BLOCK_X, 8)
#else
#define BOUNDS __launch_bounds__(BLOCK_X)
#endif

extern "C" __global__ void BOUNDS spills_column(const float* x, float* y, int n)
{
    constexpr int rows = 48;
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n)
        return;
    float held[rows], sum = 0;
#pragma unroll
    for (int i = 0; i < rows; ++i)
        held[i] = x[size_t(i) * n + at];
#pragma unroll
    for (int i = 0; i < rows; ++i)
        sum += held[i];
#pragma unroll
    for (int i = 0; i < rows; ++i)
        y[size_t(i) * n + at] = held[i] - sum / rows;
}
