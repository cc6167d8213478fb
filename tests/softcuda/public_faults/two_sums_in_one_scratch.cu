// Two sums of a block follow each other in the same shared memory, with no barrier between them.
// As in NVIDIA/Fuser pull request #489
// Must be found: race
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void two_sums_in_one_scratch(int* data)
{
    __shared__ int parts[2];
    const int t = int(threadIdx.x);
    int total = 0;
    for (int round = 1; round < 3; ++round) {
        const int sum = __reduce_add_sync(0xffffffffu, t * round);
        if (t % 32 == 0)
            parts[t / 32] = sum; // here
        __syncthreads();
        total += parts[0] + parts[1]; // here
#ifdef FIXED
        __syncthreads();
#endif
    }
    data[t] = total;
}
