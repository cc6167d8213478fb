// Blocks count themselves done with no __threadfence behind what the last one reads.
// As in kokkos/kokkos issue #2681
// Must be found: race between blocks
// Launch: 4 blocks of 32 threads, 64 ints

extern "C" __global__ void fence_of_the_scan(int* data)
{
    int* done = data + 63;
    if (threadIdx.x)
        return;
    data[blockIdx.x] = int(blockIdx.x) + 1; // here
#ifdef FIXED
    __threadfence();
#endif
    if (atomicAdd(done, 1) == int(gridDim.x) - 1) {
        __threadfence();
        for (unsigned i = 0; i < gridDim.x; ++i)
            data[32] += data[i]; // here
    }
}
