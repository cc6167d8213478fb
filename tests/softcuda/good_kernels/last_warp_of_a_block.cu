// Each warp writes its part and then counts itself; the last one adds up all parts.
// Broken: no fence between writing and counting.

extern "C" __global__ void last_warp_of_a_block(int* out)
{
    __shared__ int parts[2], count;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        count = 0;
    __syncthreads();
    if (lane == 0) {
        parts[warp] = int(warp) + 3;
#ifndef BROKEN
        __threadfence_block();
#endif
        if (atomicAdd(&count, 1) == 1)
            out[0] = parts[0] + parts[1];
    }
}
