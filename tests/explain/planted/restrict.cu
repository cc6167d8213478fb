// Adds up weighted rows in the result itself, which a register can stand for where nothing else may be there.
#include "planted.h"

#ifdef PLANTED
#define ALONE
#else
#define ALONE __restrict__
#endif

extern "C" __global__ void restrict_rows(const float* ALONE x, const float* ALONE weights, float* ALONE y, int m, int n)
{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n)
        return;
    y[at] = 0;
    for (int i = 0; i < m; ++i)
        y[at] += weights[i] * x[size_t(i) * n + at];
}
