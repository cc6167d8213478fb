// Thread 0 sets a shared sum to zero for its next use, while other warps still read the last one.
// As in zjin-lcf/HeCBench before 53a5a4393 (aop)
// Must be found: race
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void sum_set_to_zero_too_early(int* data)
{
    __shared__ int sum;
    const int t = int(threadIdx.x);
    if (t == 0)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, t);
    __syncthreads();
    const int first = sum; // here
#ifdef FIXED
    __syncthreads();
#endif
    if (t == 0)
        sum = 0; // here
    __syncthreads();
    atomicAdd(&sum, 1);
    __syncthreads();
    data[t] = first + sum;
}
