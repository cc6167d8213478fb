// Each thread that finds something sets the same flag, and all of a block write its sum; whichever comes last.
// Broken: each writes its own number.

extern "C" __global__ void flag_that_many_set(int* out)
{
    __shared__ int found;
    __shared__ int4 sums;
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();
#ifndef BROKEN
    if (threadIdx.x % 3 == 1)
        found = 1;
    sums = make_int4(1, 2, 3, 4);
#else
    if (threadIdx.x % 3 == 1)
        found = threadIdx.x;
    sums = make_int4(1, 2, 3, threadIdx.x);
#endif
    __syncthreads();
    out[threadIdx.x] = found + sums.w;
}
