// Histogram: how often each key of 0 to BINS - 1 occurs, counted in global memory at once.
// The plainest way, to compare with: a thread a key. Keys outside are not counted. The result must be 0 at the start.
// Costs: the keys once, one atomic operation in L2 a key, and those on one bin wait for each other.
// Limits: 2^31 - 1 blocks of keys; more than 2^31 - 1 keys of one kind overflow.

extern "C" __global__ void __launch_bounds__(BLOCK_X) histogram_global(const int* keys, int* bins, long long n)
{
    const size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x;
    if (i >= n)
        return;
    const unsigned key = keys[i];
    if (key < BINS)
        atomicAdd(&bins[key], 1);
}
