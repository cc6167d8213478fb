// Each group of sixteen lanes sums in the same scratch memory, and waits for its own lanes alone.
// As in olcf/cuda-training-series before d4f6172
// Must be found: race|uninitialised memory
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void groups_share_their_scratch(int* data)
{
    __shared__ int scratch[64];
    const int t = int(threadIdx.x), lane = t % 16;
    const unsigned group = 0xffffu << t % 32 / 16 * 16;
#ifdef FIXED
    int* own = scratch + t / 16 * 16;
#else
    int* own = scratch;
#endif
    int sum = t;
    for (int step = 8; step > 0; step /= 2) {
        own[lane] = sum; // here
        __syncwarp(group);
        sum += own[lane ^ step]; // here
        __syncwarp(group);
    }
    data[t] = sum;
}
