// Takes x towards a fixed point, m times. PLANTED adds a flag to nvcc's in the declaration.
#include "planted.h"

extern "C" __global__ void flags_steps(const float* x, float* y, int m, int n)
{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n)
        return;
    float value = x[at];
    for (int i = 0; i < m; ++i)
        value = value * 0.5f + 0.25f;
    y[at] = value;
}
