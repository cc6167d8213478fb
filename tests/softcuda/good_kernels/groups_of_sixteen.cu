// A tree of sums in groups of 16 lanes, each with a mask of its own.
// Broken: it goes on to the sum of both groups, with the same masks.

extern "C" __global__ void groups_of_sixteen(int* out)
{
    __shared__ int partial[2][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned group = 0xffffu << (lane & 16);
    partial[warp][lane] = int(threadIdx.x);
    __syncwarp(group);
    for (unsigned half = 8; half > 0; half /= 2) {
        if (lane % 16 < half)
            partial[warp][lane] += partial[warp][lane + half];
        __syncwarp(group);
    }
#ifdef BROKEN
    if (lane == 0)
        partial[warp][0] += partial[warp][16];
    __syncwarp(group);
#endif
    out[threadIdx.x] = partial[warp][lane & 16];
}
