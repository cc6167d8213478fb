// Every thread writes its part, sees to the fence itself and counts itself; the last thread adds up all parts.
// Broken: the part is written after the fence.

extern "C" __global__ void last_block_with_own_fences(int* out)
{
    int* parts = out + 2;
    const int me = int(blockIdx.x * blockDim.x + threadIdx.x), all = int(gridDim.x * blockDim.x);
#ifdef BROKEN
    __threadfence();
    parts[me] = me;
#else
    parts[me] = me;
    __threadfence();
#endif
    if (atomicAdd(out + 1, 1) == all - 1) {
        __threadfence();
        int sum = 0;
        for (int i = 0; i < all; ++i)
            sum += parts[i];
        out[0] = sum;
    }
}
