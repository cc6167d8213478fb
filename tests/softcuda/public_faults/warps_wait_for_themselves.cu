// At the end of a tile a warp waits for its own lanes alone, though all warps read the tile.
// As in leimao/CUDA-GEMM-Optimization before bef1ebb
// Must be found: race
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void warps_wait_for_themselves(int* data)
{
    __shared__ int tile[64];
    const int t = int(threadIdx.x);
    int sum = 0;
    for (int k = 0; k < 3; ++k) {
        tile[t] = t + k; // here
        __syncthreads();
        sum += tile[63 - t]; // here
#ifdef FIXED
        __syncthreads();
#else
        __syncwarp();
#endif
    }
    data[t] = sum;
}
