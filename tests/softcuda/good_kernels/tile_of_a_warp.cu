// Each warp transposes a tile of its own in shared memory.
// Broken: no __syncwarp between rows and columns.

extern "C" __global__ void tile_of_a_warp(int* out)
{
    __shared__ int tiles[2][8][33];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int row = 0; row < 8; ++row)
        tiles[warp][row][lane] = 100 * row + int(lane);
#ifndef BROKEN
    __syncwarp();
#endif
    int sum = 0;
    for (int i = 0; i < 4; ++i)
        sum += tiles[warp][lane % 8][lane / 8 * 8 + i];
    out[threadIdx.x] = sum;
}
