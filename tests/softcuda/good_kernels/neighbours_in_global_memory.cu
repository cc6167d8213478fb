// Lanes read their neighbours' values in global memory and then write their own anew.
// Broken: they met before, and not between reading and writing.

extern "C" __global__ void neighbours_in_global_memory(int* out)
{
    out[threadIdx.x] = int(threadIdx.x);
    __syncwarp();
    const int neighbour = out[threadIdx.x ^ 1];
#ifndef BROKEN
    __syncwarp();
#endif
    out[threadIdx.x] = 2 * neighbour;
}
