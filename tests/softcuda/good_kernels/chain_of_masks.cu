// Lane 0 meets lane 1, which then meets lane 2: so lane 2 may read what lane 0 wrote.
// Broken: lane 1 meets lane 2 first.

extern "C" __global__ void chain_of_masks(int* out)
{
    __shared__ int word;
    if (threadIdx.x == 0) {
        word = 5;
        __syncwarp(3);
    } else if (threadIdx.x == 1) {
#ifdef BROKEN
        __syncwarp(6);
        __syncwarp(3);
#else
        __syncwarp(3);
        __syncwarp(6);
#endif
    } else if (threadIdx.x == 2) {
        __syncwarp(6);
        out[0] = word;
    }
}
