// Sums columns, four side by side a thread. n is a multiple of four.
#include "planted.h"

extern "C" __global__ void width_columns(const float* __restrict__ x, float* y, int m, int n)
{
    const int at = 4 * (blockIdx.x * BLOCK_X + threadIdx.x);
    if (at >= n)
        return;
    float sums[4] = {0, 0, 0, 0};
    for (int i = 0; i < m; ++i) {
        const float* row = x + size_t(i) * n + at;
#ifdef PLANTED
        const float four[4] = {row[0], row[1], row[2], row[3]};
        for (int j = 0; j < 4; ++j)
            sums[j] += four[j];
#else
        const float4 four = *reinterpret_cast<const float4*>(row);
        sums[0] += four.x;
        sums[1] += four.y;
        sums[2] += four.z;
        sums[3] += four.w;
#endif
    }
    for (int j = 0; j < 4; ++j)
        y[at + j] = sums[j];
}
