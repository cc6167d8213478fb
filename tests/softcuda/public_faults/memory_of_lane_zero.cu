// The lanes of a warp read what lane 0 has put in shared memory, with no __syncwarp between.
// As in zjin-lcf/HeCBench before 1da4418bb (logic-rewrite)
// Must be found: race|uninitialised memory
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void memory_of_lane_zero(int* data)
{
    __shared__ int first[2];
    const int t = int(threadIdx.x), warp = t / 32;
    if (t % 32 == 0)
        first[warp] = 32 * warp; // here
#ifdef FIXED
    __syncwarp();
#endif
    data[first[warp] + t % 32] = t; // here
}
