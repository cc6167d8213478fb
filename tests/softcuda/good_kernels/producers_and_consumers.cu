// Each of the first 16 lanes hands two values to one of the others, under a mask of the two.
// Broken: the second value does not wait until the first was read.

extern "C" __global__ void producers_and_consumers(int* out)
{
    __shared__ int slots[2][16];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned pair = lane % 16, both = 0x10001u << pair;
    int sum = 0;
    for (int round = 1; round <= 2; ++round) {
        if (lane < 16)
            slots[warp][pair] = round * int(threadIdx.x);
        __syncwarp(both);
        if (lane >= 16)
            sum += slots[warp][pair];
#ifndef BROKEN
        __syncwarp(both);
#endif
    }
    out[threadIdx.x] = sum;
}
