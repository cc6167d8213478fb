// Words by which blocks tell each other the sums of their tiles (Merrill and Garland, Single-pass Parallel Prefix Scan with
// Decoupled Look-back, 2016). A word has a state beside a sum, and so is read and written whole: whoever sees the state
// sees the sum, and no fence is needed.
//
// Tiles are numbered by a ticket, in the order in which blocks begin: a block waits for tiles of blocks that run already,
// and so makes progress however blocks are scheduled. The ticket counts on from launch to launch, and a state contains the
// number of the launch, so that words of earlier launches count as empty. Words and ticket are zeros before the first
// launch, and belong to one n.

#pragma once

static_assert(sizeof(scalar_t) == 4, "a sum and its state are a word of 8 bytes");
using Word = unsigned long long;

struct Tile {
    int number;
    unsigned own, all; // states in this launch: the word has the sum of the tile; that of all tiles up to it
};

__device__ __forceinline__ Tile next_tile(Word* ticket)
{
    __shared__ Word taken;
    if (threadIdx.x == 0)
        taken = atomicAdd(ticket, Word(1));
    __syncthreads();
    const unsigned launch = unsigned(taken / gridDim.x);
    return { int(taken % gridDim.x), 2 * launch + 1, 2 * launch + 2 };
}

__device__ __forceinline__ void publish(Word* words, int tile, unsigned state, scalar_t sum)
{
    *(volatile Word*)(words + tile) = Word(state) << 32 | __float_as_uint(sum);
}

struct Seen {
    unsigned state;
    scalar_t sum;
};

// Waits for a word of this launch.
__device__ __forceinline__ Seen wait_for(const Word* words, int number, const Tile& tile)
{
    Word word;
    do
        word = *(const volatile Word*)(words + number);
    while (unsigned(word >> 32) != tile.own && unsigned(word >> 32) != tile.all);
    return { unsigned(word >> 32), __uint_as_float(unsigned(word)) };
}

// Scans the values of a warp's lanes.
__device__ __forceinline__ scalar_t scan_warp(scalar_t value)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const scalar_t before = __shfl_up_sync(0xffffffffu, value, distance);
        value += lane >= distance ? before : scalar_t(0);
    }
    return value;
}

// Returns the sum of the warps before a thread's; `sum`: that of its warp; `all`: gets that of the block.
__device__ __forceinline__ scalar_t before_warp(scalar_t sum, scalar_t& all)
{
    __shared__ scalar_t sums[BLOCK_X / 32];
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    scalar_t before = all = 0;
#pragma unroll
    for (int warp = 0; warp < BLOCK_X / 32; ++warp) {
        if (warp == threadIdx.x / 32)
            before = all;
        all += sums[warp];
    }
    return before;
}
