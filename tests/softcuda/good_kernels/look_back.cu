// Blocks in the order of their tickets add to the sum of the one before, whose volatile flag says that it is there.
// Broken: no fence between sum and flag.

extern "C" __global__ void look_back(int* out)
{
    __shared__ int number;
    volatile int* flags = out + 2;
    int* sums = out + 2 + gridDim.x;
    if (threadIdx.x == 0)
        number = atomicAdd(&out[0], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        int before = 0;
        if (number > 0) {
            while (flags[number - 1] == 0)
                ;
            __threadfence();
            before = sums[number - 1];
        }
        sums[number] = before + number;
#ifndef BROKEN
        __threadfence();
#endif
        flags[number] = 1;
    }
}
