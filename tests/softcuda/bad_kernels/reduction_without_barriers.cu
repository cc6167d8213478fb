// A tree of sums in shared memory with no barrier between its levels.
// Must be found: race
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    __shared__ scalar_t partial[BLOCK_X];
    for (int row = blockIdx.x * BLOCK_X; row < min(m, int(blockIdx.x + 1) * BLOCK_X); ++row) {
        scalar_t sum = 0;
        for (int col = threadIdx.x; col < n; col += BLOCK_X)
            sum += a[size_t(row) * n + col] * x[col];
        partial[threadIdx.x] = sum;
        __syncthreads();
        for (int half = BLOCK_X / 2; half > 0; half /= 2)
            if (threadIdx.x < half)
                partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
        if (threadIdx.x == 0)
            y[row] = partial[0];
        __syncthreads();
    }
}
