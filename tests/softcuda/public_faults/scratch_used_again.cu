// Scratch memory of a sum is used again for the next step while others still read the sum.
// As in rapidsai/cuml before b79ef508ca
// Must be found: race
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void scratch_used_again(int* data)
{
    __shared__ int scratch[64];
    const int t = int(threadIdx.x);
    scratch[t] = t;
    __syncthreads();
    const int sum = scratch[t] + scratch[t ^ 32]; // here
#ifdef FIXED
    __syncthreads();
#endif
    scratch[t] = sum * 2; // here
    __syncthreads();
    data[t] = scratch[63 - t];
}
