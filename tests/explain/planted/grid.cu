// Doubles numbers with as many blocks as it is given. PLANTED gives it fewer, in the declaration.
#include "planted.h"

extern "C" __global__ void grid_stride(const float* x, float* y, int n)
{
    for (int at = blockIdx.x * BLOCK_X + threadIdx.x; at < n; at += gridDim.x * BLOCK_X)
        y[at] = 2 * x[at];
}
