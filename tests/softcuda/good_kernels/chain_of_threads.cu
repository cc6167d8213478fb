// Each thread adds to the sum of the one before, in its block, whose volatile flag says that it is there.
// Broken: no fence between sum and flag.

extern "C" __global__ void chain_of_threads(int* out)
{
    volatile int* flags = out;
    int* sums = out + blockDim.x;
    const int t = threadIdx.x;
    int before = 0;
    if (t > 0) {
        while (flags[t - 1] == 0)
            ;
        __threadfence_block();
        before = sums[t - 1];
    }
    sums[t] = before + t;
#ifndef BROKEN
    __threadfence_block();
#endif
    flags[t] = 1;
}
