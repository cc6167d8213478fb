// Must be found: an illegal address, a terabyte past the result.
extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    c[size_t(1) << 37] = a[0] * b[0];
}
