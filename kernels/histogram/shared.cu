// Histogram of bytes, one of each block in shared memory, added up in global memory at the end.
// As many blocks as run at a time, so that few histograms have to be added up.
// Costs: an atomic addition in shared memory for each byte, which lanes with equal bytes or in one bank do one after
// another: some three steps a warp for uniform bytes, 32 for equal ones; loads of one byte; 256 additions a block.

extern "C" __global__ void __launch_bounds__(BLOCK_X)
histogram_shared(const scalar_t* keys, unsigned* counts, int n)
{
    __shared__ unsigned bins[256];
    for (int bin = threadIdx.x; bin < 256; bin += BLOCK_X)
        bins[bin] = 0;
    __syncthreads();
    for (size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x; i < n; i += size_t(gridDim.x) * BLOCK_X)
        atomicAdd(bins + keys[i], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += BLOCK_X)
        if (bins[bin])
            atomicAdd(counts + bin, bins[bin]);
}
