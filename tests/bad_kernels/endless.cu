// Must be found: a loop that compares where it should increment, and never ends.
extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    volatile scalar_t* sum = c;
    for (int i = 0; i < n; i == i + 1)
        *sum += a[i] * b[i * k];
}
