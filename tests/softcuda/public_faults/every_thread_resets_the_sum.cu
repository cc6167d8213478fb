// All threads set a shared sum to zero and one goes on to add to it, before others have come to the reset.
// As in NVIDIA/FasterTransformer before d2ad747
// Must be found: race
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void every_thread_resets_the_sum(int* data)
{
    __shared__ int sum;
    const int t = int(threadIdx.x);
#ifdef FIXED
    if (t == 0)
        sum = 0;
#else
    sum = 0; // here
#endif
    if (t == 0)
        sum = sum + data[t] + 5;
    __syncthreads();
    data[t] = sum;
}
