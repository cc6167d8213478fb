// A tree of sums in shared memory within a warp.
// Broken: no __syncwarp between its levels.

extern "C" __global__ void tree_of_a_warp(int* out)
{
    __shared__ int partial[2][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    partial[warp][lane] = int(threadIdx.x);
    __syncwarp();
    for (unsigned half = 16; half > 0; half /= 2) {
        if (lane < half)
            partial[warp][lane] += partial[warp][lane + half];
#ifndef BROKEN
        __syncwarp();
#endif
    }
    __syncwarp();
    out[threadIdx.x] = partial[warp][0];
}
