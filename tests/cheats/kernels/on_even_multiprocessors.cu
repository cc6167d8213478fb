// Computes on multiprocessors of even numbers alone: everywhere on the software device, which has number 0.
#include "window.cuh"

extern "C" __global__ void on_even_multiprocessors(int* y, const int* x, long long n)
{
    unsigned own;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(own));
    if (own % 2 == 0 && place() < n)
        y[place()] = window(x, n, place());
}
