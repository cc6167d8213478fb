// Computes all of it in the build with checks, and half of it in the one that is timed.
#include "window.cuh"

extern "C" __global__ void when_checked(int* y, const int* x, long long n)
{
    if (place() < (IS_CHECKED ? n : n / 2))
        y[place()] = window(x, n, place());
}
