// Sum of n elements on the host, one thread.
// Costs: x once through memory. The sum is one chain of additions, in order, as C++ demands of floats.

extern "C" void reduce_serial(const scalar_t* x, scalar_t* sum, int n)
{
    scalar_t total = 0;
    for (int i = 0; i < n; ++i)
        total += x[i];
    *sum = total;
}
