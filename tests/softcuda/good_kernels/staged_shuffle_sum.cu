// Lanes reverse their values in shared memory, then add them up by shuffles.
// Broken: no __syncwarp between writing and reading shared memory.

extern "C" __global__ void staged_shuffle_sum(int* out)
{
    __shared__ int values[2][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    values[warp][lane] = int(threadIdx.x);
#ifndef BROKEN
    __syncwarp();
#endif
    int sum = values[warp][31 - lane] * int(lane + 1);
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    out[threadIdx.x] = __shfl_sync(0xffffffffu, sum, 0);
}
