// y = a x + y in place: PER_THREAD elements a thread, a block apart, so that as many loads of each array are in flight.
// Costs: x once, y once in and once out. Nothing is reused.
// Limits: 2^31 - 1 blocks of BLOCK_X * PER_THREAD elements; loads of 4 bytes, so any alignment of the arrays works.

extern "C" __global__ void __launch_bounds__(BLOCK_X) saxpy_plain(long long n, float a, const float* x, float* y)
{
    const size_t first = size_t(blockIdx.x) * (BLOCK_X * PER_THREAD) + threadIdx.x;
    float sums[PER_THREAD];
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) // all loads before the first store, since y could overlap x
        if (first + j * BLOCK_X < n)
            sums[j] = a * x[first + j * BLOCK_X] + y[first + j * BLOCK_X];
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j)
        if (first + j * BLOCK_X < n)
            y[first + j * BLOCK_X] = sums[j];
}
