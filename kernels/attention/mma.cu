// Attention on tensor cores, by warps (mma.sync): a block has BLOCK_X rows of q in shared memory, and takes KEYS rows of
// k and of v at a time, while the next ones come by cp.async. A warp has WARP_ROWS rows, 16 for each product, so that
// what it reads of k and v serves several. Scores stay in registers, where they become weights, and these the left side
// of the next product. What was summed is scaled only where the maximum of a row of the warp grew.
// A piece of 16 bytes lies at its number XOR the row's, so that ldmatrix meets no bank twice. Maximum and sum of a row
// are kept as keys come, the sum by each of the four lanes that share a row.
// Arrays off multiples of 16 bytes are loaded element by element.
// Costs: (BLOCK_X + 4 KEYS) d 2 bytes of shared memory; four lanes have the d sums and KEYS scores of a row in registers,
// all 255 of them at d = 128. Two blocks to a multiprocessor: without them nothing multiplies while weights are computed.

#include "../matmul/copies.h"
#include "../matmul_half/warp_products.h"
#include "rows.h"

constexpr int threads = BLOCK_X / WARP_ROWS * 32, blocks = 2; // on a multiprocessor, at least
constexpr int tiles = WARP_ROWS / 16, each = 8;               // products of a warp; elements of a piece

// Brings `height` rows of d elements from the `first`-th on into shared memory; zeros beyond the last of `n` rows.
template <int height, int d, bool aligned>
__device__ __forceinline__ void bring(unsigned char* tile, const scalar_t* from, int first, int n)
{
    constexpr int pieces = d / each, apart = threads / pieces;
    static_assert(height % apart == 0 && apart % 8 == 0, "all threads bring as many pieces, which lie alike");
    const int row = threadIdx.x / pieces, piece = threadIdx.x % pieces;
    unsigned char* to = tile + (row * pieces + (piece ^ row % 8)) * 16;
    const scalar_t* source = from + size_t(first + row) * d + piece * each;
    if (aligned) {
#pragma unroll
        for (int i = 0; i < height; i += apart)
            copy<16>(to + i * pieces * 16, reinterpret_cast<const unsigned char*>(source + i * d), first + row + i < n);
    } else {
#pragma unroll 1
        for (int i = 0; i < height; i += apart) {
            const unsigned short* bits = reinterpret_cast<const unsigned short*>(source + i * d);
            unsigned words[each / 2] = {};
#pragma unroll
            for (int j = 0; j < each; ++j)
                words[j / 2] |= unsigned(first + row + i < n ? bits[j] : 0) << j % 2 * 16;
            *reinterpret_cast<uint4*>(to + i * pieces * 16) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

template <int d, bool aligned>
__device__ __forceinline__ void attend(unsigned char* memory, const scalar_t* q, const scalar_t* k, const scalar_t* v,
    scalar_t* o, int n, int first)
{
    constexpr int row_bytes = d * 2, steps = d / 16, columns = d / 8, key_columns = KEYS / 8;
    constexpr int tile_bytes = KEYS * row_bytes, stage_bytes = 2 * tile_bytes; // k, then v; two stages
    const int count = ((causal ? min(n, first + BLOCK_X) : n) - 1) / KEYS + 1;
    const auto bring_stage = [&](int tile) {
        unsigned char* const place = memory + BLOCK_X * row_bytes + tile % 2 * stage_bytes;
        bring<KEYS, d, aligned>(place, k, tile * KEYS, n);
        bring<KEYS, d, aligned>(place + tile_bytes, v, tile * KEYS, n);
    };
    bring<BLOCK_X, d, aligned>(memory, q, first, n);
    bring_stage(0);
    commit_copies();

    // Lanes' addresses: rows are alike but for multiples of 8. k is read as columns, so its halves change places.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own_row = first + warp * WARP_ROWS + lane / 4;
    const unsigned start = __cvta_generic_to_shared(memory), swizzled = (lane / 16 ^ lane % 8) * 16;
    const unsigned q_start = start + (warp * WARP_ROWS + lane % 16) * row_bytes;
    const unsigned k_start = start + (BLOCK_X + lane / 16 * 8 + lane % 8) * row_bytes;
    const unsigned k_swizzled = (lane / 8 % 2 ^ lane % 8) * 16;
    const unsigned v_start = start + (BLOCK_X + KEYS + lane % 16) * row_bytes;
    float sums[tiles][columns][4] = {}, most[tiles][2], total[tiles][2] = {};
#pragma unroll
    for (int i = 0; i < tiles; ++i)
        most[i][0] = most[i][1] = -INFINITY;

#pragma unroll 1
    for (int tile = 0; tile < count; ++tile) {
        wait_for_copies<0>();
        __syncthreads(); // this stage has come for all, and the other one is read
        if (tile + 1 < count)
            bring_stage(tile + 1);
        commit_copies();
        const unsigned stage = tile % 2 * stage_bytes;
        float scores[tiles][key_columns][4] = {};
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            unsigned left[tiles][4];
#pragma unroll
            for (int i = 0; i < tiles; ++i)
                load_matrices(left[i], q_start + i * 16 * row_bytes + (swizzled ^ step * 32));
#pragma unroll
            for (int j = 0; j < key_columns; j += 2) {
                unsigned right[4];
                load_matrices(right, k_start + stage + j * 8 * row_bytes + (k_swizzled ^ step * 32));
#pragma unroll
                for (int i = 0; i < tiles; ++i) {
                    multiply(scores[i][j], left[i], right[0], right[1]);
                    multiply(scores[i][j + 1], left[i], right[2], right[3]);
                }
            }
        }

        const bool hides = (tile + 1) * KEYS > (causal ? min(n, first + warp * WARP_ROWS + 1) : n);
#pragma unroll
        for (int i = 0; i < tiles; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = own_row + i * 16 + half * 8, hidden = causal ? min(n, row + 1) : n;
                float more = most[i][half];
#pragma unroll
                for (int j = 0; j < key_columns; ++j)
#pragma unroll
                    for (int e = half * 2; e < half * 2 + 2; ++e) {
                        if (hides && tile * KEYS + j * 8 + lane % 4 * 2 + e % 2 >= hidden)
                            scores[i][j][e] = -INFINITY;
                        more = fmaxf(more, scores[i][j][e]);
                    }
                more = fmaxf(more, __shfl_xor_sync(0xffffffff, more, 1));
                more = fmaxf(more, __shfl_xor_sync(0xffffffff, more, 2));
                const float factor = power((most[i][half] - more) * scale<d>);
                most[i][half] = more, total[i][half] *= factor;
#pragma unroll
                for (int j = 0; j < key_columns; ++j)
#pragma unroll
                    for (int e = half * 2; e < half * 2 + 2; ++e) {
                        scores[i][j][e] = power((scores[i][j][e] - more) * scale<d>);
                        total[i][half] += scores[i][j][e];
                    }
                if (__any_sync(0xffffffff, factor != 1))
#pragma unroll
                    for (int j = 0; j < columns; ++j)
                        sums[i][j][half * 2] *= factor, sums[i][j][half * 2 + 1] *= factor;
            }
#pragma unroll
        for (int step = 0; step < KEYS / 16; ++step) {
            unsigned left[tiles][4];
#pragma unroll
            for (int i = 0; i < tiles; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const float(&pair)[4] = scores[i][step * 2 + e / 2];
                    left[i][e] = rounded(pair[e % 2 * 2], pair[e % 2 * 2 + 1]);
                }
#pragma unroll
            for (int j = 0; j < columns; j += 2) {
                unsigned right[4];
                load_transposed(right, v_start + stage + step * 16 * row_bytes + (swizzled ^ j * 16));
#pragma unroll
                for (int i = 0; i < tiles; ++i) {
                    multiply(sums[i][j], left[i], right[0], right[1]);
                    multiply(sums[i][j + 1], left[i], right[2], right[3]);
                }
            }
        }
    }

#pragma unroll
    for (int i = 0; i < tiles; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float& all = total[i][half];
            all += __shfl_xor_sync(0xffffffff, all, 1);
            all += __shfl_xor_sync(0xffffffff, all, 2);
            const int row = own_row + i * 16 + half * 8;
            scalar_t* to = o + size_t(row) * d + lane % 4 * 2;
            const float share = 1 / all;
            if (row < n)
#pragma unroll
                for (int j = 0; j < columns; ++j) {
                    const float a = sums[i][j][half * 2] * share, b = sums[i][j][half * 2 + 1] * share;
                    if (aligned)
                        *reinterpret_cast<unsigned*>(to + j * 8) = rounded(a, b);
                    else
                        to[j * 8] = scalar_t(a), to[j * 8 + 1] = scalar_t(b);
                }
        }
}

template <int d>
__device__ __forceinline__ void attend(
    const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    extern __shared__ __align__(128) unsigned char memory[];
    int head, first;
    find_rows(n, head, first);
    const size_t start = size_t(head) * n * d;
    if (((size_t(q) | size_t(k) | size_t(v) | size_t(o)) & 15) == 0)
        attend<d, true>(memory, q + start, k + start, v + start, o + start, n, first);
    else
        attend<d, false>(memory, q + start, k + start, v + start, o + start, n, first);
}

extern "C" __global__ void __launch_bounds__(threads, blocks)
attention_mma_64(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    attend<64>(q, k, v, o, n);
}

extern "C" __global__ void __launch_bounds__(threads, blocks)
attention_mma_128(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    attend<128>(q, k, v, o, n);
}
