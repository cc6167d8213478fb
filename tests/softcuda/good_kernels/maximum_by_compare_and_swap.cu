// A maximum by compare-and-swap, whose first guess is a plain read: of all blocks, and of each block.
// Broken: the new value is written without a compare-and-swap.

extern "C" __global__ void maximum_by_compare_and_swap(int* out)
{
    __shared__ int largest;
    if (threadIdx.x == 0)
        largest = 0;
    __syncthreads();
    const int mine = int((blockIdx.x * 64 + threadIdx.x) * 37 % 101);
    for (int pass = 0; pass < 2; ++pass) {
        int* target = pass ? &largest : out;
        int old = *target;
#ifdef BROKEN
        if (old < mine)
            *target = mine;
#else
        for (int assumed = -1; assumed != old;) {
            assumed = old;
            old = atomicCAS(target, assumed, max(assumed, mine));
        }
#endif
    }
    __syncthreads();
    if (threadIdx.x == 0)
        out[1 + blockIdx.x] = largest;
}
