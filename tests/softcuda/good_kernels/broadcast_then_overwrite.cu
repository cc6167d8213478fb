// All lanes read a word that one of them wrote, and then another lane writes it.
// Broken: no __syncwarp between the reads and the second write.

extern "C" __global__ void broadcast_then_overwrite(int* out)
{
    __shared__ int word[2];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0)
        word[warp] = 7;
    __syncwarp();
    const int first = word[warp];
#ifndef BROKEN
    __syncwarp();
#endif
    if (lane == 5)
        word[warp] = 9;
    __syncwarp();
    out[threadIdx.x] = 10 * first + word[warp];
}
