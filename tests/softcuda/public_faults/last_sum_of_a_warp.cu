// One lane writes the last sum of its warp, and the others read it at once.
// As in kokkos/kokkos pull request #6630
// Must be found: race|uninitialised memory
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void last_sum_of_a_warp(int* data)
{
    __shared__ int parts[64];
    const int t = int(threadIdx.x);
    parts[t] = t;
    __syncwarp();
    if (t % 32 == 0)
        parts[t] = parts[t] + parts[t + 16]; // here
#ifdef FIXED
    __syncwarp();
#endif
    data[t] = parts[t / 32 * 32]; // here
}
