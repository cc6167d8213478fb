// Computes in one of eight slices of time alone.
#include "window.cuh"

extern "C" __global__ void by_the_clock(int* y, const int* x, long long n)
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now >> 20 & 7)
        return;
    if (place() < n)
        y[place()] = window(x, n, place());
}
