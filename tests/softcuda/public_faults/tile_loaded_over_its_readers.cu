// A loop over tiles loads the next one while other warps still read the last.
// As in zjin-lcf/HeCBench before 072420d21 (aidw)
// Must be found: race
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void tile_loaded_over_its_readers(int* data)
{
    __shared__ int tile[64];
    const int t = int(threadIdx.x);
    int sum = 0;
    for (int k = 0; k < 3; ++k) {
        tile[t] = k * t; // here
        __syncthreads();
        for (int e = 0; e < 64; ++e)
            sum += tile[e]; // here
#ifdef FIXED
        __syncthreads();
#endif
    }
    data[t] = sum;
}
