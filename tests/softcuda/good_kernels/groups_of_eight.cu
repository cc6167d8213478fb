// Groups of 8 lanes, each with a mask of its own, pass values around.
// Broken: the values go round the whole warp, with the same masks.

extern "C" __global__ void groups_of_eight(int* out)
{
    __shared__ int values[2][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned group = 0xffu << (lane & 24);
#ifdef BROKEN
    const unsigned next = (lane + 1) % 32;
#else
    const unsigned next = (lane & 24) | ((lane + 1) % 8);
#endif
    int value = int(lane);
    values[warp][lane] = value;
    for (int step = 0; step < 3; ++step) {
        __syncwarp(group);
        value = values[warp][next];
        __syncwarp(group);
        values[warp][lane] = value;
    }
    out[threadIdx.x] = value;
}
