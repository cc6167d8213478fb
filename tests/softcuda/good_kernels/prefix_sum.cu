// Inclusive sums by shuffles, made exclusive by way of shared memory.
// Broken: no __syncwarp between writing and reading shared memory.

extern "C" __global__ void prefix_sum(int* out)
{
    __shared__ int totals[2], inclusive[2][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = int(lane) + 1;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        const int before = __shfl_up_sync(0xffffffffu, sum, distance);
        if (lane >= distance)
            sum += before;
    }
    inclusive[warp][lane] = sum;
    if (lane == 31)
        totals[warp] = sum;
#ifndef BROKEN
    __syncwarp();
#endif
    const int exclusive = lane ? inclusive[warp][lane - 1] : 0;
    __syncthreads();
    out[threadIdx.x] = exclusive + (warp ? totals[0] : 0);
}
