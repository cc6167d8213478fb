// Matrix product of half-precision elements on tensor cores, by warps (mma.sync), with float32 sums.
// Tiles come by cp.async, STAGES - 1 of them ahead, in pieces of 16 bytes. A piece lies at its number XOR the row's,
// so that ldmatrix meets no bank twice. A warp has WARP_X x WARP_Y elements of C. Before it multiplies, it asks for
// what it multiplies next, and between products for a part of the tiles to come. C is written through shared memory.
// Rows of A or B off multiples of 16 bytes are loaded element by element.
// Costs: STAGES (BLOCK_X + BLOCK_Y) 128 bytes of shared memory, more than GPUs before compute capability 9.0 have, and
// registers for 128 sums and what is multiplied next a thread.
// Share on an H100, reached: 0.61 of cuBLAS at 4096^3 (float16; 0.60 in bfloat16).

#include "../matmul/copies.h"
#include "tile_order.h"
#include "warp_products.h"

constexpr int depth = 64, warps_across = BLOCK_X / WARP_X, threads = 32 * warps_across * (BLOCK_Y / WARP_Y);
constexpr int rows = WARP_Y / 16, cols = WARP_X / 8, each = 8; // products of a warp; elements of a piece
constexpr int steps = depth / 16, a_bytes = BLOCK_Y * depth * 2, stage_bytes = a_bytes + depth * BLOCK_X * 2;
static_assert(WARP_X == 64 && rows == steps, "a warp reads as many pieces of A as of B");

// What a thread brings of a tile of `height` rows of so many pieces: one of each `apart`-th row.
template <int height, int pieces, bool aligned> struct Source {
    static constexpr int apart = threads / pieces, count = height / apart;
    static_assert(apart % 8 == 0 && count % steps == 0, "pieces of a thread lie alike, and steps bring as many each");
    const scalar_t* from;
    unsigned to; // place of the first in a tile

    __device__ __forceinline__ Source(const scalar_t* matrix, int pitch)
    {
        const int row = threadIdx.x / pieces, piece = threadIdx.x % pieces;
        from = matrix + size_t(row) * pitch + piece * each;
        to = (row * pieces + (piece ^ row % 8)) * 16;
    }

    // The `part`-th of the steps' parts of a tile; zeros beyond `rows_left` rows and `left` columns.
    __device__ __forceinline__ void bring(unsigned char* tile, int part, int pitch, int rows_left, int left) const
    {
        const int row = threadIdx.x / pieces, there = left - int(threadIdx.x % pieces) * each; // elements of the piece
        if (aligned) {
#pragma unroll
            for (int j = 0; j < count / steps; ++j) {
                const int i = (part * (count / steps) + j) * apart;
                copy<16>(tile + to + i * pieces * 16, reinterpret_cast<const unsigned char*>(from + size_t(i) * pitch),
                    row + i < rows_left && there > 0);
            }
        } else if (part == 0) {
#pragma unroll 1
            for (int i = 0; i < height; i += apart) {
                const unsigned short* bits = reinterpret_cast<const unsigned short*>(from + size_t(i) * pitch);
                unsigned words[each / 2] = {};
#pragma unroll
                for (int j = 0; j < each; ++j)
                    words[j / 2] |= unsigned(row + i < rows_left && j < there ? bits[j] : 0) << j % 2 * 16;
                *reinterpret_cast<uint4*>(tile + to + i * pieces * 16)
                    = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
};

// `aligned`: rows of A and B start at multiples of 16 bytes.
template <bool aligned>
__device__ __forceinline__ void product(
    unsigned char* memory, const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int block_rows = (m - 1) / BLOCK_Y + 1;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    if (block >= block_rows * gridDim.x)
        return;
    int first_row, first_col;
    find_tile(block, block_rows, gridDim.x, first_row, first_col);
    first_row *= BLOCK_Y, first_col *= BLOCK_X;

    Source<BLOCK_Y, depth / each, aligned> of_a(a + size_t(first_row) * n, n);
    Source<depth, BLOCK_X / each, aligned> of_b(b + first_col, k);
    const int count = (n - 1) / depth + 1;
    int left = n;
    const auto bring = [&](int place, int part) { // of the next tiles, if there are any left
        if (left > 0) {
            unsigned char* const tile = memory + place * stage_bytes;
            of_a.bring(tile, part, n, m - first_row, left);
            of_b.bring(tile + a_bytes, part, k, left, k - first_col);
        }
        if (part == steps - 1) {
            of_a.from += depth, of_b.from += size_t(depth) * k, left -= depth;
            commit_copies();
        }
    };
#pragma unroll
    for (int part = 0; part < (STAGES - 1) * steps; ++part)
        bring(part / steps, part % steps);
    bring(STAGES - 1, 0);

    // A piece lies at its number XOR the row's; rows of a lane are alike but for multiples of 8.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, swizzled = (lane / 16 ^ lane % 8) * 16;
    const int row = warp / warps_across * WARP_Y, col = warp % warps_across * WARP_X;
    const unsigned start = __cvta_generic_to_shared(memory), a_start = start + (row + lane % 16) * depth * 2;
    const unsigned b_start = start + a_bytes + lane % 16 * BLOCK_X * 2 + col * 2;
    float sums[rows][cols][4] = {};
    unsigned down[2][rows][4], across[2][cols / 2][4];
    const auto read = [&](unsigned tile, int step, int i) {
        load_matrices(down[step % 2][i], a_start + tile + (swizzled ^ step * 32) + i * 16 * depth * 2);
        load_transposed(across[step % 2][i], b_start + tile + (swizzled ^ i * 32) + step * 16 * BLOCK_X * 2);
    };
    wait_for_copies<STAGES - 2>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < rows; ++i)
        read(0, 0, i);
    int now = 0, before = STAGES - 1;
#pragma unroll 1
    for (int done = 0; done < count; ++done) {
        const int next = now + 1 == STAGES ? 0 : now + 1;
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const bool last = step == steps - 1;
            if (last) { // the next stage has come for all, and this one's last reads are done
                wait_for_copies<STAGES - 2>();
                __syncthreads();
            }
            if (!last || done + 1 < count)
#pragma unroll
                for (int i = 0; i < rows; ++i)
                    read((last ? next : now) * stage_bytes, (step + 1) % steps, i);
#pragma unroll
            for (int i = 0; i < rows; ++i) {
#pragma unroll
                for (int j = 0; j < cols; ++j)
                    multiply(sums[i][j], down[step % 2][i], across[step % 2][j / 2][j % 2 * 2],
                        across[step % 2][j / 2][j % 2 * 2 + 1]);
                if (i == 1)
                    bring(last ? now : before, (step + 1) % steps);
            }
        }
        before = now, now = next;
    }
    wait_for_copies<0>();
    __syncthreads();

    // Each warp writes through shared memory of its own, a row of 64 elements at a place as those of A's tiles.
    unsigned char* const own = memory + warp * WARP_Y * WARP_X * 2;
#pragma unroll
    for (int i = 0; i < rows * 2; ++i)
#pragma unroll
        for (int j = 0; j < cols; ++j)
            *reinterpret_cast<unsigned*>(own + (i * 8 + lane / 4) * WARP_X * 2 + (j ^ lane / 4) * 16 + lane % 4 * 4)
                = rounded(sums[i / 2][j][i % 2 * 2], sums[i / 2][j][i % 2 * 2 + 1]);
    __syncwarp();
    const bool wide = k % each == 0 && size_t(c) % 16 == 0;
#pragma unroll 4
    for (int i = lane; i < WARP_Y * cols; i += 32) {
        const int r = first_row + row + i / cols, q = first_col + col + i % cols * each;
        const unsigned char* piece = own + i / cols * WARP_X * 2 + (i % cols ^ i / cols % 8) * 16;
        scalar_t* to = c + size_t(r) * k + q;
        if (r < m && wide && q < k)
            *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(piece);
        else if (r < m)
            for (int j = 0; j < each && q + j < k; ++j)
                to[j] = reinterpret_cast<const scalar_t*>(piece)[j];
    }
}

extern "C" __global__ void __launch_bounds__(threads)
matmul_half_mma(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char memory[];
    if (n % each == 0 && k % each == 0 && size_t(a) % 16 == 0 && size_t(b) % 16 == 0)
        product<true>(memory, a, b, c, m, n, k);
    else
        product<false>(memory, a, b, c, m, n, k);
}
