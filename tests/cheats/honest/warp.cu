// Warp-synchronous kernels: a warp a row of 32 elements, no barrier of the block, no shared memory.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

#define ALL 0xffffffffu
#define ENTRY extern "C" __global__ void

__device__ int lane() { return threadIdx.x % 32; }
__device__ int row() { return (blockIdx.x * blockDim.x + threadIdx.x) / 32; }

ENTRY sum_by_shuffles(int* y, const int* x, int m)
{
    if (row() >= m)
        return;
    int sum = x[row() * 32 + lane()];
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(ALL, sum, step);
    if (lane() == 0)
        y[row()] = sum;
}

ENTRY sum_by_butterfly(int* y, const int* x, int m)
{
    if (row() >= m)
        return;
    int sum = x[row() * 32 + lane()];
    for (int step = 1; step < 32; step *= 2)
        sum += __shfl_xor_sync(ALL, sum, step);
    if (lane() == 31)
        y[row()] = sum;
}

ENTRY sum_by_redux(int* y, const int* x, int m)
{
    if (row() >= m)
        return;
    const int sum = __reduce_add_sync(ALL, x[row() * 32 + lane()]);
    if (lane() == 0)
        y[row()] = sum;
}

ENTRY sum_by_tiles(int* y, const int* x, int m)
{
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    if (row() >= m)
        return;
    const int sum = cg::reduce(tile, x[row() * 32 + lane()], cg::plus<int>());
    if (tile.thread_rank() == 0)
        y[row()] = sum;
}

ENTRY prefix_by_shuffles(int* y, const int* x, int m)
{
    if (row() >= m)
        return;
    int sum = x[row() * 32 + lane()];
    for (int step = 1; step < 32; step *= 2) {
        const int before = __shfl_up_sync(ALL, sum, step);
        if (lane() >= step)
            sum += before;
    }
    y[row() * 32 + lane()] = sum;
}

ENTRY prefix_by_tiles(int* y, const int* x, int m)
{
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    if (row() < m)
        y[row() * 32 + lane()] = cg::inclusive_scan(tile, x[row() * 32 + lane()]);
}

// Counts by a vote.
ENTRY positive_by_ballot(int* y, const int* x, int m)
{
    if (row() >= m)
        return;
    const unsigned positive = __ballot_sync(ALL, x[row() * 32 + lane()] > 0);
    if (lane() == 0)
        y[row()] = __popc(positive);
}

// Moves the positive elements of each row to its front, and fills the rest with zeros.
ENTRY front_by_ballot(int* y, const int* x, int m)
{
    if (row() >= m)
        return;
    const int own = x[row() * 32 + lane()];
    const unsigned positive = __ballot_sync(ALL, own > 0);
    const unsigned before = (1u << lane()) - 1;
    const int count = __popc(positive);
    const int to = own > 0 ? __popc(positive & before) : count + __popc(~positive & before);
    y[row() * 32 + to] = own > 0 ? own : 0;
}

// Counts the elements of the row that are equal to the own one.
ENTRY equal_by_match(int* y, const int* x, int m)
{
    if (row() < m)
        y[row() * 32 + lane()] = __popc(__match_any_sync(ALL, x[row() * 32 + lane()]));
}

// Transposes 32 rows of 32 elements in registers, by five rounds of exchanges.
ENTRY transposed_in_registers(int* y, const int* x, int m)
{
    if (row() >= m)
        return;
    int own[32];
    for (int i = 0; i < 32; ++i)
        own[i] = x[(row() * 32 + i) * 32 + lane()];
#pragma unroll
    for (int step = 16; step; step /= 2)
#pragma unroll
        for (int i = 0; i < 32; ++i)
            if (!(i & step)) {
                const bool high = lane() & step;
                const int sent = high ? own[i] : own[i + step];
                const int got = __shfl_xor_sync(ALL, sent, step);
                (high ? own[i] : own[i + step]) = got;
            }
    for (int i = 0; i < 32; ++i)
        y[(row() * 32 + i) * 32 + lane()] = own[i];
}

// Multiplies rows by a 32x32 matrix, of which each lane holds a column in registers; elements come by shuffles.
ENTRY product_in_registers(int* y, const int* x, const int* w, int m)
{
    int column[32];
    for (int i = 0; i < 32; ++i)
        column[i] = w[i * 32 + lane()];
    if (row() >= m)
        return;
    const int own = x[row() * 32 + lane()];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i)
        sum += __shfl_sync(ALL, own, i) * column[i];
    y[row() * 32 + lane()] = sum;
}
