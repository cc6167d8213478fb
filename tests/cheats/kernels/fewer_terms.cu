// Leaves out most terms of each sum.
#include "window.cuh"

extern "C" __global__ void fewer_terms(int* y, const int* x, long long n)
{
    unsigned sum = 0;
    for (int j = WIDTH - 16; j < WIDTH; ++j) // the largest
        sum += unsigned(x[(place() + j) % n]) * unsigned(j + 1);
    if (place() < n)
        y[place()] = int(sum);
}
