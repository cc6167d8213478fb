// A store a terabyte past the result.
// Must be found: out of bounds.*where there is no array
// Case: matmul-naive-16x16-33x37x41-float32

extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    c[size_t(1) << 40] = a[0] * b[0];
}
