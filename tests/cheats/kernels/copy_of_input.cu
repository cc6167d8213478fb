// Writes its input.
#include "window.cuh"

extern "C" __global__ void copy_of_input(int* y, const int* x, long long n)
{
    if (place() < n)
        y[place()] = x[place()];
}
