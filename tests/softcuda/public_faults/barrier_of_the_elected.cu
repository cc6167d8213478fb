// The barrier that waits for the block's offset stands inside the branch of those that have work.
// As in gunrock/gunrock before c53f7d889
// Must be found: barrier error
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void barrier_of_the_elected(int* data)
{
    __shared__ int offset;
    const int t = int(threadIdx.x);
    if (t < 48) {
        if (t == 0)
            offset = atomicAdd(&data[63], 48);
#ifndef FIXED
        __syncthreads(); // here
#endif
    }
#ifdef FIXED
    __syncthreads();
#endif
    if (t < 48)
        data[t] = offset + t;
}
