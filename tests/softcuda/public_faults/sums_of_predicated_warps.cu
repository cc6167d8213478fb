// Only warps that have data leave a sum in shared memory, and all of them are read.
// As in csarofeen/pytorch issue #1579
// Must be found: uninitialised memory
// Launch: 1 block of 128 threads, 128 ints

extern "C" __global__ void sums_of_predicated_warps(int* data)
{
    __shared__ int sums[4];
    const int t = int(threadIdx.x), n = 50;
    const int sum = __reduce_add_sync(0xffffffffu, t < n ? t : 0);
#ifdef FIXED
    const bool leaves = t % 32 == 0;
#else
    const bool leaves = t % 32 == 0 && t < n;
#endif
    if (leaves)
        sums[t / 32] = sum; // here
    __syncthreads();
    int total = 0;
    for (int i = 0; i < 4; ++i)
        total += sums[i]; // here
    data[t] = total;
}
