// Inclusive scan on the host, one thread.
// Costs: x and y once through memory. The sum is one chain of additions, in order.

extern "C" void scan_serial(const scalar_t* x, scalar_t* y, int n)
{
    scalar_t sum = 0;
    for (int i = 0; i < n; ++i)
        y[i] = sum += x[i];
}
