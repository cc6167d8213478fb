// As look_back, with flags that are set and read by atomic operations.
// Broken: no atomic operation reads the flag.

extern "C" __global__ void look_back_by_atomics(int* out)
{
    __shared__ int number;
    int* flags = out + 2;
    int* sums = out + 2 + gridDim.x;
    if (threadIdx.x == 0)
        number = atomicAdd(&out[0], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        int before = 0;
        if (number > 0) {
#ifndef BROKEN
            while (atomicAdd(&flags[number - 1], 0) == 0)
                ;
#endif
            __threadfence();
            before = sums[number - 1];
        }
        sums[number] = before + number;
        __threadfence();
        atomicExch(&flags[number], 1);
    }
}
