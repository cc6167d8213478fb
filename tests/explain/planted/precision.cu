// Takes x towards a fixed point, m times.
#include "planted.h"

#ifdef PLANTED
#define NUMBER(x) x
#else
#define NUMBER(x) x##f
#endif

extern "C" __global__ void precision_steps(const float* x, float* y, int m, int n)
{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n)
        return;
    float value = x[at];
    for (int i = 0; i < m; ++i)
        value = value * NUMBER(0.5) + NUMBER(0.25);
    y[at] = value;
}
