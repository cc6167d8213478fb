// What groups order: each kernel is right, and with BROKEN (a number) it is not. Of blocks of 64 threads.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
#ifndef BROKEN
#define BROKEN 0
#endif

// 1: a barrier is missing. 2: only half of the block comes to one. 3: a tile waits where the block has to.
extern "C" __global__ void tree(int* out)
{
    __shared__ int sums[64];
    const cg::thread_block block = cg::this_thread_block();
    const unsigned own = block.thread_rank();
    sums[own] = int(own);
    for (unsigned apart = 32; apart; apart /= 2) {
        if (BROKEN == 3)
            cg::tiled_partition<32>(block).sync();
        else if (BROKEN != 1 && (BROKEN != 2 || own < 32))
            block.sync();
        if (own < apart)
            sums[own] += sums[own + apart];
    }
    cg::sync(block);
    out[own] = sums[0];
}

// 1: the barrier is missing. 2: the tile is too small. 3: some lanes do not come.
extern "C" __global__ void turned(int* out)
{
    __shared__ int values[64];
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<BROKEN == 2 ? 8 : 16>(block);
    const unsigned own = threadIdx.x;
    for (int round = 0; round < 2; ++round) {
        values[own] = int(own) + round;
        if (BROKEN != 1)
            tile.sync();
        const int other = values[own ^ 15];
        tile.sync();
        out[own] += other;
    }
    if (BROKEN == 3 && own % 16 < 9)
        tile.sync();
    if (BROKEN == 3)
        block.sync();
}

// A group of whoever comes. 1: it does not wait. 2: the lane that did not come is waited for.
extern "C" __global__ void leaders(int* out)
{
    __shared__ int first[2];
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    if (threadIdx.x % 32 < 21) {
        const cg::coalesced_group active = cg::coalesced_threads();
        if (active.thread_rank() == active.size() - 1)
            first[threadIdx.x / 32] = int(threadIdx.x);
        if (BROKEN == 2)
            warp.sync();
        else if (BROKEN != 1)
            active.sync();
        out[threadIdx.x] = first[threadIdx.x / 32];
    }
    if (BROKEN == 2)
        __syncthreads();
}

// Tiles of one warp that go different ways, each with barriers of its own. 1: one of them is missing.
extern "C" __global__ void branches(int* out)
{
    __shared__ int values[64];
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const unsigned first = threadIdx.x / 8 * 8, rank = tile.thread_rank();
    int* own = values + first;
    own[rank] = int(rank);
    if (tile.meta_group_rank() % 3 == 0) {
        for (unsigned round = 0; round <= tile.meta_group_rank(); ++round) {
            tile.sync();
            const int next = own[(rank + 1) % 8];
            if (BROKEN != 1)
                tile.sync();
            own[rank] = next;
        }
        out[threadIdx.x] = own[rank];
    } else {
        const auto half = cg::binary_partition(tile, rank < 4);
        half.sync();
        out[threadIdx.x] = own[rank ^ 3] + cg::reduce(half, 1, cg::plus<int>());
    }
}

// A histogram of labels, of which the first lane of each adds its number. 1: nobody waits for the others'.
extern "C" __global__ void labels(int* out)
{
    __shared__ int counts[5];
    const auto block = cg::this_thread_block();
    if (block.thread_rank() < 5)
        counts[block.thread_rank()] = 0;
    block.sync();
    const int label = out[threadIdx.x] * 7 % 5;
    const auto same = cg::labeled_partition(cg::tiled_partition<32>(block), label);
    if (same.thread_rank() == 0)
        atomicAdd(&counts[label], int(same.size()));
    if (BROKEN != 1)
        block.sync();
    cg::invoke_one(block, [&] {
        for (int i = 0; i < 5; ++i)
            out[i] = counts[i];
    });
}

// 1: no wait for the copy. 2: the wait leaves it open. 3: the next copy comes while others still read.
extern "C" __global__ void staged(int* out)
{
    __shared__ __align__(16) int stages[2][64];
    const auto block = cg::this_thread_block();
    int sum = 0;
    cg::memcpy_async(block, stages[0], out, sizeof stages[0]);
    for (int round = 0; round < 4; ++round) {
        if (round < 3)
            cg::memcpy_async(block, stages[(round + 1) % 2], 64, out + 64 * (round + 1), 64);
        if (BROKEN == 1)
            block.sync();
        else if (round < 3)
            cg::wait_prior<BROKEN == 2 ? 2 : 1>(block);
        else
            cg::wait(block);
        sum += stages[round % 2][63 - threadIdx.x] + int(threadIdx.x);
        if (BROKEN != 3)
            block.sync();
    }
    out[256 + threadIdx.x] = sum;
}

// Of bytes, by tiles: sizes that are no multiple of anything. 1: no wait.
extern "C" __global__ void staged_bytes(int* out)
{
    __shared__ __align__(16) char bytes[2][64];
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    const unsigned warp = threadIdx.x / 32;
    cg::memcpy_async(tile, bytes[warp], reinterpret_cast<const char*>(out) + 4 * warp, 23);
    if (BROKEN != 1)
        cg::wait(tile);
    const int mine = tile.thread_rank() < 23 ? bytes[warp][22 - tile.thread_rank()] : 0;
    out[64 + threadIdx.x] = mine + 1;
}

// Each takes the next one's, of another block too. 1, 2: one of the barriers is missing. 3: one block does not come.
// 4: half of each block does not.
extern "C" __global__ void neighbours(int* out)
{
    __shared__ int own[64];
    const cg::grid_group grid = cg::this_grid();
    const int place = int(grid.thread_rank()), count = int(grid.size());
    if (BROKEN == 3 && grid.block_rank() == 2)
        return;
    own[threadIdx.x] = place;
    out[place] = place;
    for (int round = 0; round < 3; ++round) {
        if (BROKEN != 1)
            grid.sync();
        const int next = out[(place + 1) % count];
        if (BROKEN != 2)
            cg::sync(grid);
        out[place] = next;
    }
    out[place] = 1000 * out[place] + own[63 - threadIdx.x];
    if (BROKEN == 4 && threadIdx.x < 32)
        grid.sync();
}

// Each block waits for all; a word for each thread.
extern "C" __global__ void grid_order(int* out)
{
    cg::this_grid().sync();
    out[cg::this_grid().thread_rank()] += 1;
}

// Copies that are under way while the block waits for the others. 1: they are not waited for. 2: nobody filled it.
extern "C" __global__ void copies_over_the_grid(int* out)
{
    __shared__ __align__(16) int stage[64];
    const auto block = cg::this_thread_block();
    const int place = int(64 * blockIdx.x + threadIdx.x);
    if (BROKEN != 2)
        cg::memcpy_async(block, stage, out + 64 * blockIdx.x, sizeof stage);
    cg::this_grid().sync();
    if (BROKEN != 1)
        cg::wait(block);
    out[place] = stage[63 - threadIdx.x] + place;
}
