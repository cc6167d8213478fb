// Inclusive scan: y[i] is the sum of x[0] to x[i], by three kernels.
// scan_blocks scans tiles of BLOCK_X * PER_THREAD elements and leaves the sum of each; scan_sums, one block, turns those
// into what comes before each tile; scan_add adds it. A warp reads 32 elements side by side, PER_THREAD times.
// Costs: the array read once, the result written twice and read once: 16 bytes an element, where a scan in one launch
// (by looking back) moves 8.
// Limits: 2^31 - 1 tiles. Float sums are added in another order than a loop would.

#include "scan.cuh"

constexpr int TILE = BLOCK_X * PER_THREAD;

extern "C" __global__ void __launch_bounds__(BLOCK_X)
scan_blocks(const scalar_t* x, scalar_t* y, scalar_t* sums, long long n)
{
    const int lane = threadIdx.x % 32;
    const size_t first = size_t(blockIdx.x) * TILE + threadIdx.x / 32 * (32 * PER_THREAD) + lane, end = n;

    scalar_t values[PER_THREAD];
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j)
        values[j] = first + j * 32 < end ? x[first + j * 32] : scalar_t(0);

    scalar_t before = 0; // what this warp has added up so far
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
        values[j] = scan_warp(values[j]) + before;
        before = __shfl_sync(0xffffffffu, values[j], 31);
    }

    scalar_t all;
    before = before_warp<BLOCK_X>(before, all);
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j)
        if (first + j * 32 < end)
            y[first + j * 32] = values[j] + before;
    if (threadIdx.x == 0)
        sums[blockIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(BLOCK_X) scan_sums(scalar_t* sums, long long n)
{
    const size_t tiles = (n + TILE - 1) / TILE;
    scalar_t before = 0; // the pieces of BLOCK_X sums that came before
    for (size_t first = 0; first < tiles; first += BLOCK_X) {
        const size_t i = first + threadIdx.x;
        const scalar_t own = i < tiles ? sums[i] : scalar_t(0);
        const scalar_t scanned = scan_warp(own);
        const scalar_t left = __shfl_up_sync(0xffffffffu, scanned, 1);
        scalar_t all;
        const scalar_t offset = before_warp<BLOCK_X>(__shfl_sync(0xffffffffu, scanned, 31), all);
        if (i < tiles)
            sums[i] = before + offset + (threadIdx.x % 32 ? left : scalar_t(0));
        before += all;
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK_X) scan_add(scalar_t* y, const scalar_t* sums, long long n)
{
    const scalar_t before = sums[blockIdx.x];
    const size_t first = size_t(blockIdx.x) * TILE + threadIdx.x;
    scalar_t values[PER_THREAD];
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) // all loads before the first store
        if (first + j * BLOCK_X < n)
            values[j] = y[first + j * BLOCK_X] + before;
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j)
        if (first + j * BLOCK_X < n)
            y[first + j * BLOCK_X] = values[j];
}
