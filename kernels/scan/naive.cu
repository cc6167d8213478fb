// Inclusive scan in three launches: tiles of an element a thread, then the sums of tiles, then both added.
// A tile is scanned as Hillis and Steele do: each element gets that of 1, 2, 4, ... places before it added.
// Costs: 20 bytes an element in place of 8; 2 log2(BLOCK_X) barriers a tile; one block that scans all sums.

// Scans the values of a block's threads in `tile`.
__device__ void scan_block(scalar_t* tile)
{
    for (int distance = 1; distance < BLOCK_X; distance *= 2) {
        __syncthreads();
        const scalar_t before = threadIdx.x >= distance ? tile[threadIdx.x - distance] : scalar_t(0);
        __syncthreads();
        tile[threadIdx.x] += before;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(BLOCK_X) scan_naive(const scalar_t* x, scalar_t* y, scalar_t* sums, int n)
{
    __shared__ scalar_t tile[BLOCK_X];
    const size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : scalar_t(0);
    scan_block(tile);
    if (i < n)
        y[i] = tile[threadIdx.x];
    if (threadIdx.x == 0)
        sums[blockIdx.x] = tile[BLOCK_X - 1];
}

extern "C" __global__ void __launch_bounds__(BLOCK_X) scan_sums(scalar_t* sums, int tiles)
{
    __shared__ scalar_t tile[BLOCK_X];
    scalar_t before = 0; // all sums that came before
    for (int first = 0; first < tiles; first += BLOCK_X) {
        const int i = first + threadIdx.x;
        tile[threadIdx.x] = i < tiles ? sums[i] : scalar_t(0);
        scan_block(tile);
        if (i < tiles)
            sums[i] = before + tile[threadIdx.x];
        before += tile[BLOCK_X - 1];
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK_X) scan_add(scalar_t* y, const scalar_t* sums, int n)
{
    const size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x;
    if (blockIdx.x > 0 && i < n)
        y[i] += sums[blockIdx.x - 1];
}
