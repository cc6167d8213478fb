// Histogram: how often each key of 0 to BINS - 1 occurs, counted in shared memory first.
// Each warp counts in BINS counters of its own, because warps that share them collide where keys are few; a block adds
// its counters to the result at its end. Keys outside 0 to BINS - 1 are not counted. The result must be 0 at the start.
// Costs: the keys once, one atomic operation in shared memory a key, BINS in global memory a block.
// Limits: BLOCK_X / 32 * BINS counters must fit in 48 KiB; a key that is much more frequent than others makes lanes wait
// for each other; more than 2^31 - 1 keys of one kind overflow.

constexpr int UNROLLED = 8;

extern "C" __global__ void __launch_bounds__(BLOCK_X) histogram_shared(const int* keys, int* bins, long long n)
{
    constexpr int warps = BLOCK_X / 32;
    __shared__ int counters[warps][BINS];
    int* mine = counters[threadIdx.x / 32];
    for (int i = threadIdx.x; i < warps * BINS; i += BLOCK_X)
        counters[0][i] = 0;
    __syncthreads();

    const size_t stride = size_t(gridDim.x) * BLOCK_X;
    for (size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x; i < n; i += UNROLLED * stride) {
        unsigned held[UNROLLED]; // all loads before the first atomic operation
#pragma unroll
        for (int j = 0; j < UNROLLED; ++j)
            held[j] = i + j * stride < n ? keys[i + j * stride] : BINS;
#pragma unroll
        for (int j = 0; j < UNROLLED; ++j)
            if (held[j] < BINS)
                atomicAdd(&mine[held[j]], 1);
    }
    __syncthreads();

    for (int bin = threadIdx.x; bin < BINS; bin += BLOCK_X) {
        int count = 0;
#pragma unroll
        for (int warp = 0; warp < warps; ++warp)
            count += counters[warp][bin];
        if (count)
            atomicAdd(&bins[bin], count);
    }
}
