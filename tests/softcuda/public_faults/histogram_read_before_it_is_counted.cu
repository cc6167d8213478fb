// The block's histogram is added to the result while other warps still count.
// As in CoffeeBeforeArch/cuda_programming before ef260cd
// Must be found: race
// Launch: 1 block of 64 threads, 128 ints

extern "C" __global__ void histogram_read_before_it_is_counted(int* data)
{
    __shared__ int bins[8];
    const int t = int(threadIdx.x);
    if (t < 8)
        bins[t] = 0;
    __syncthreads();
    atomicAdd(&bins[data[64 + t] + t % 8], 1); // here
#ifdef FIXED
    __syncthreads();
#endif
    if (t < 8)
        atomicAdd(&data[t], bins[t]); // here
}
