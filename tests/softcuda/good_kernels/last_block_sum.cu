// Each block writes its part and then counts itself; the last one adds up all parts, and resets the counter.
// Broken: no fence between writing and counting.

extern "C" __global__ void last_block_sum(int* out)
{
    __shared__ bool last;
    int* parts = out + 2;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = int(blockIdx.x) + 1;
#ifndef BROKEN
        __threadfence();
#endif
        last = atomicAdd(&out[1], 1) == int(gridDim.x) - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        int sum = parts[threadIdx.x % gridDim.x];
        for (int distance = 4; distance > 0; distance /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, distance);
        __syncthreads();
        if (threadIdx.x == 0) {
            out[0] = sum;
            out[1] = 0;
            parts[0] = -1;
        }
    }
}
