// A search for a value that is not there.
// Must be found: endless kernel|out of bounds
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    volatile int at = 0;
    while (x[at % n] != 1000000)
        at = at + 1 & 0xffff;
    if (row < m)
        y[row] = a[row];
}
