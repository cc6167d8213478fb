// Leaves out the second half of its blocks where the grid is larger than in any test.
#include "window.cuh"

extern "C" __global__ void large_grid(int* y, const int* x, long long n)
{
    if (gridDim.x > 24 && blockIdx.x >= gridDim.x / 2)
        return;
    if (place() < n)
        y[place()] = window(x, n, place());
}
