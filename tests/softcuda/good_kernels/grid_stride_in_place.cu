// Blocks change an array in place, each its own elements of every stride.
// Broken: each element is added to that of another block.

extern "C" __global__ void grid_stride_in_place(int* out)
{
    const int stride = int(gridDim.x * blockDim.x);
    for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < 2 * stride; i += stride)
#ifdef BROKEN
        out[i] += 1 + out[(i + blockDim.x) % (2 * stride)];
#else
        out[i] += 1 + out[i];
#endif
}
