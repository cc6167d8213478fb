// Threads with no part in the second step leave what they have and return; a barrier is for those that have not.
// Broken: without the barrier.

extern "C" __global__ void barrier_of_those_that_stay(int* out)
{
    __shared__ int parts[64];
    const int t = threadIdx.x;
    parts[t] = t;
    if (t % 32 >= 20 || t == 3)
        return;
#ifndef BROKEN
    __syncthreads();
#endif
    out[t] = parts[63 - t] + parts[(t + 33) % 64];
#ifndef BROKEN
    __syncthreads();
#endif
    if (t >= 32)
        return;
    __syncthreads();
    out[t] += out[32 + t % 16];
}
