// Reads element i / w of x and scales it by i % w; w is a power of two, 2^bits.
#include "planted.h"

extern "C" __global__ void division_index(const float* x, float* y, int n, int w, int bits)
{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n)
        return;
    float sum = 0;
#pragma unroll 1
    for (int i = at; i < at + 64; ++i) {
#ifdef PLANTED
        sum += x[i % n / w] * float(i % n % w);
#else
        const int j = i < n ? i : i - n;
        sum += x[j >> bits] * float(j & (w - 1));
#endif
    }
    y[at] = sum;
}
