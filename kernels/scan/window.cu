// Inclusive scan in one pass as lookback.cu, with larger tiles, loads of 16 bytes, and a warp that looks at 32 words.
// A lane has 4 elements side by side, a warp 128 of them, EACH / 4 times: so loads are coalesced, and shuffles scan the
// sums of lanes, without a way through shared memory. Tiles of arrays that start at multiples of 16 bytes go that way; the
// last one, and every other array, goes element by element.
// Costs: as lookback.cu, with an eighth of its tiles and a quarter of its loads; 5 shuffles and a few for 128 elements.

#include "lookback.h"

constexpr int pack = 16 / sizeof(scalar_t), pieces = EACH / pack;
struct alignas(16) Pack {
    scalar_t values[pack];
};

// Returns the sum of all tiles before one. Every lane of a warp calls it.
__device__ __forceinline__ scalar_t look_back(const Word* words, const Tile& tile)
{
    const int lane = threadIdx.x % 32;
    scalar_t earlier = 0;
    for (int nearest = tile.number - 1;; nearest -= 32) {
        Seen seen = { tile.all, 0 }; // before the first tile all is 0
        if (nearest - lane >= 0)
            seen = wait_for(words, nearest - lane, tile);
        const unsigned has_all = __ballot_sync(0xffffffffu, seen.state == tile.all);
        const int last = has_all ? __ffs(has_all) - 1 : 31; // of the lanes whose tiles are still to be added
        scalar_t sum = lane <= last ? seen.sum : scalar_t(0);
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        earlier += sum;
        if (has_all)
            return earlier;
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK_X, 1024 / BLOCK_X)
scan_window(const scalar_t* x, scalar_t* y, Word* words, Word* ticket, int n)
{
    __shared__ scalar_t before_tile;
    const Tile tile = next_tile(ticket);
    const int lane = threadIdx.x % 32;
    const size_t start = size_t(tile.number) * BLOCK_X * EACH, first = start + threadIdx.x / 32 * (32 * EACH) + lane * pack;
    const bool whole = start + BLOCK_X * EACH <= n && (size_t(x) | size_t(y)) % 16 == 0;

    Pack held[pieces];
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
        const size_t at = first + i * (32 * pack);
        if (whole)
            held[i] = *reinterpret_cast<const Pack*>(x + at);
        else
#pragma unroll
            for (int j = 0; j < pack; ++j)
                held[i].values[j] = at + j < n ? x[at + j] : scalar_t(0);
    }
    scalar_t sum = 0; // of the warp, so far
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
#pragma unroll
        for (int j = 1; j < pack; ++j)
            held[i].values[j] += held[i].values[j - 1];
        const scalar_t scanned = scan_warp(held[i].values[pack - 1]);
        const scalar_t left = __shfl_up_sync(0xffffffffu, scanned, 1), before = lane ? sum + left : sum;
#pragma unroll
        for (int j = 0; j < pack; ++j)
            held[i].values[j] += before;
        sum += __shfl_sync(0xffffffffu, scanned, 31);
    }
    scalar_t all;
    scalar_t before = before_warp(sum, all);

    if (threadIdx.x < 32) {
        if (lane == 0 && tile.number > 0)
            publish(words, tile.number, tile.own, all);
        const scalar_t earlier = tile.number > 0 ? look_back(words, tile) : scalar_t(0);
        if (lane == 0) {
            publish(words, tile.number, tile.all, earlier + all);
            before_tile = earlier;
        }
    }
    __syncthreads();
    before += before_tile;
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
        const size_t at = first + i * (32 * pack);
#pragma unroll
        for (int j = 0; j < pack; ++j)
            held[i].values[j] += before;
        if (whole)
            *reinterpret_cast<Pack*>(y + at) = held[i];
        else
#pragma unroll
            for (int j = 0; j < pack; ++j)
                if (at + j < n)
                    y[at + j] = held[i].values[j];
    }
}
