// Inclusive scan in one pass by persistent blocks, which all run at a time and have every gridDim.x-th tile. The last warp
// of a block, its scout, publishes the sums of tiles and adds up those of all earlier tiles; the other warps copy tiles into
// shared memory, STAGES tiles ahead, sum and scan them. A sum is published two tiles before its tile is scanned, so that
// blocks rarely wait for each other. A word has the number of the launch and the sum of a tile, and is read and written
// whole; words and the counter of launches are zeros before the first launch, and belong to one n.
// Costs: 8 bytes an element; STAGES tiles of shared memory a block; each block reads the words of all tiles, 8 bytes for
// every 32 EACH (BLOCK_X / 32 - 1) elements, from L2; a barrier a tile. Sums are added in one order, whatever the timing.

#include "lookback.h"

#include <cuda_pipeline_primitives.h>

constexpr int pack = 16 / sizeof(scalar_t), pieces = EACH / pack, workers = BLOCK_X / 32 - 1, ahead = 2;
constexpr int tile_packs = workers * 32 * pieces, tile_size = tile_packs * pack;
constexpr int at_once = 9; // words that a lane has in flight: nine times 32 are more than the tiles of 264 blocks
static_assert(workers <= 32 && STAGES >= ahead + 2, "");
struct alignas(16) Pack {
    scalar_t values[pack];
};

__device__ __forceinline__ scalar_t sum_warp(scalar_t value)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK_X, 2)
scan_persistent(const scalar_t* x, scalar_t* y, Word* words, Word* launches, int n)
{
    extern __shared__ __align__(128) Pack held[]; // [STAGES][workers][pieces][32]
    __shared__ scalar_t sums[STAGES][32]; // of the warps of a tile; once it is published, of all warps before each
    __shared__ scalar_t earlier[STAGES]; // sums of all tiles before one
    const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, int(threadIdx.x) / 32, 0); // the same in all lanes
    const int tiles = (n - 1) / tile_size + 1;
    const bool aligned = (size_t(x) | size_t(y)) % 16 == 0;
    const auto number = [](int i) { return i * int(gridDim.x) + int(blockIdx.x); }; // of the block's i-th tile
    const auto stage = [](int i) { return i % STAGES; };
    const auto whole = [&](int tile) { return aligned && (size_t(tile) + 1) * tile_size <= n; };

    unsigned launch = 0;
    if (threadIdx.x == workers * 32)
        launch = unsigned(atomicAdd(launches, Word(1)) / gridDim.x) + 1;
    launch = __shfl_sync(0xffffffffu, launch, 0);
    int next = lane; // the scout's: the word that this lane adds next, and the sum of those before
    scalar_t sum = 0;

    for (int i = -STAGES; i < 0 || number(i) < tiles; ++i) {
        if (warp == workers) {
            const int out = i + ahead, in = i + 1;
            if (out >= 0 && number(out) < tiles) {
                scalar_t* const of_warps = sums[stage(out)];
                const scalar_t scanned = scan_warp(lane < workers ? of_warps[lane] : scalar_t(0));
                const scalar_t before = __shfl_up_sync(0xffffffffu, scanned, 1);
                if (lane == 31)
                    *(volatile Word*)(words + number(out)) = Word(launch) << 32 | __float_as_uint(scanned);
                of_warps[lane] = lane ? before : scalar_t(0);
            }
            if (in >= 0 && number(in) < tiles) {
                for (const int end = number(in); next < end; next += 32 * min(at_once, (end - next + 31) / 32)) {
                    Word seen[at_once];
#pragma unroll
                    for (int j = 0; j < at_once; ++j)
                        seen[j] = next + 32 * j < end ? *(const volatile Word*)(words + next + 32 * j) : Word(launch) << 32;
#pragma unroll
                    for (int j = 0; j < at_once; ++j) {
                        while (unsigned(seen[j] >> 32) != launch)
                            seen[j] = *(const volatile Word*)(words + next + 32 * j);
                        sum += __uint_as_float(unsigned(seen[j]));
                    }
                }
                __syncwarp();
                const scalar_t all = sum_warp(sum);
                if (lane == 0)
                    earlier[stage(in)] = all;
            }
        } else {
            const int own = warp * (32 * pieces) + lane; // a thread's packs in a tile begin here, and lie 32 apart
            if (i >= 0) {
                const Pack* const from = held + stage(i) * tile_packs + own;
                Pack of_lane[pieces];
                scalar_t scanned[pieces];
#pragma unroll
                for (int k = 0; k < pieces; ++k)
                    of_lane[k] = from[k * 32];
#pragma unroll
                for (int k = 0; k < pieces; ++k) {
#pragma unroll
                    for (int j = 1; j < pack; ++j)
                        of_lane[k].values[j] += of_lane[k].values[j - 1];
                    scanned[k] = scan_warp(of_lane[k].values[pack - 1]);
                }
                scalar_t before = earlier[stage(i)] + sums[stage(i)][warp];
#pragma unroll
                for (int k = 0; k < pieces; ++k) {
                    const scalar_t left = __shfl_up_sync(0xffffffffu, scanned[k], 1), start = lane ? before + left : before;
#pragma unroll
                    for (int j = 0; j < pack; ++j)
                        of_lane[k].values[j] += start;
                    before += __shfl_sync(0xffffffffu, scanned[k], 31);
                }
                const size_t first = size_t(number(i)) * tile_size + own * pack;
#pragma unroll
                for (int k = 0; k < pieces; ++k) {
                    const size_t at = first + k * (32 * pack);
                    if (whole(number(i)))
                        *reinterpret_cast<Pack*>(y + at) = of_lane[k];
                    else
#pragma unroll
                        for (int j = 0; j < pack; ++j)
                            if (at + j < n)
                                y[at + j] = of_lane[k].values[j];
                }
            }
            const int later = number(i + STAGES);
            if (later < tiles) {
                Pack* const to = held + stage(i + STAGES) * tile_packs + own;
                const size_t first = size_t(later) * tile_size + own * pack;
#pragma unroll
                for (int k = 0; k < pieces; ++k) {
                    const size_t at = first + k * (32 * pack);
                    if (whole(later))
                        __pipeline_memcpy_async(to + k * 32, x + at, 16);
                    else
#pragma unroll
                        for (int j = 0; j < pack; ++j)
                            to[k * 32].values[j] = at + j < n ? x[at + j] : scalar_t(0);
                }
            }
            __pipeline_commit();
            const int coming = i + ahead + 1;
            if (coming >= 0 && number(coming) < tiles) {
                __pipeline_wait_prior(STAGES - ahead - 1);
                const Pack* const from = held + stage(coming) * tile_packs + own;
                scalar_t all = 0;
#pragma unroll
                for (int k = 0; k < pieces; ++k)
                    all += (from[k * 32].values[0] + from[k * 32].values[1]) + (from[k * 32].values[2] + from[k * 32].values[3]);
                all = sum_warp(all);
                if (lane == 0)
                    sums[stage(coming)][warp] = all;
            }
        }
        __syncthreads();
    }
}
