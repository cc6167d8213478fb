// Adds up the squares of columns.
#include "planted.h"

extern "C" __global__ void loads_squares(const float* x, float* y, int m, int n)
{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n)
        return;
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < m; ++i) {
        const float first = x[size_t(i) * n + at];
#ifdef PLANTED
        const float second = *const_cast<const volatile float*>(x + size_t(i) * n + at);
#else
        const float second = first;
#endif
        sum += first * second;
    }
    y[at] = sum;
}
