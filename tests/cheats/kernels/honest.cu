// Does the work.
#include "window.cuh"

extern "C" __global__ void honest(int* y, const int* x, long long n)
{
    if (place() < n)
        y[place()] = window(x, n, place());
}
