// Matrix product: warp tiles, fed by asynchronous copies several stages ahead.
// A warp computes a tile of its own, 4 x 8 lanes of up to 16 x 8 elements, so that a lane's 24 reads from shared
// memory serve 128 products and every read of a warp is free of bank conflicts. cp.async brings the tiles of the
// next stages while this one is multiplied: no registers on the way, one barrier a stage. Copies of B begin two steps
// after those of A. Elements go one at a time (A is transposed on the way; 16 bytes for B where its rows allow), with
// zeros beyond the matrices and after the last stage, so any shape and any alignment is right. Blocks run in groups of
// 8 rows, whose tiles of B stay in L2.
// A multiplication of float32 reads three registers. Even ones lie in one bank, odd ones in another, a bank gives one
// in a cycle, and one can be kept from the multiplication before. So the products of a row go forth and those of the
// next row back, so that one is kept at the turn, too. Sums are copied before they are stored, because a store of 16
// bytes needs four neighbours, which would lie in the banks of what they are multiplied from.
// Costs: BLOCK_X BLOCK_Y / threads sums a thread; STAGES * 8 (BLOCK_X + BLOCK_Y + 8) elements of dynamic shared memory.
// Share on an H200, predicted: 1.00 to 1.04; reached: 1.03 of cuBLAS at 4096^3 (float32) and 2048^3, 1.01 at
// 4095x4097x4093, 1.12 at 1024^3. In float64 0.41 at 4096^3, where asynchronous.cu has 0.37; the vector units end at
// 0.55 (by the data sheet).

#include "copies.h"

constexpr int depth = 8, group = 8;
constexpr int late = 2; // of a stage's steps, the one in which the copies of B begin
constexpr int warps_across = BLOCK_X / WARP_X, threads = BLOCK_X * BLOCK_Y / (WARP_Y * WARP_X) * 32;
constexpr int rows = WARP_Y / 4, cols = WARP_X / 8; // of a lane
constexpr int registers = 2 * rows * cols * sizeof(scalar_t) / 4; // twice what the sums take
constexpr int a_width = BLOCK_Y + 4, b_width = BLOCK_X + 4; // 4 more, so that a column of a tile changes banks
constexpr int each = 16 / sizeof(scalar_t);
struct alignas(16) Pack {
    scalar_t values[each];
};
constexpr int a_size = depth * a_width, b_size = depth * b_width, stage_size = a_size + b_size;

// What a thread brings of each stage's tiles, and where from.
struct Source {
    const scalar_t *a, *b; // its first element of the next stage
    unsigned a_there;      // bit j: its row j is a row of A
    int a_depth;           // of that element within the tile
};
constexpr int a_step = threads / depth, a_count = BLOCK_Y / a_step;       // rows of A apart, and how many
constexpr int wide_step = threads * each / BLOCK_X, narrow_step = threads / BLOCK_X; // rows of B apart

// `left`: columns of A, and rows of B, from the next stage's first on; zeros are brought beyond.
__device__ __forceinline__ void fetch_a(Source& s, scalar_t* tiles, int left, int n)
{
    const int t = threadIdx.x;
    const bool deep = s.a_depth < left;
    scalar_t* tile = tiles + t % depth * a_width + t / depth;
#pragma unroll
    for (int j = 0; j < a_count; ++j)
        copy<sizeof(scalar_t)>(tile + j * a_step, s.a + size_t(j * a_step) * n, deep && s.a_there >> j & 1);
    s.a += depth;
}

// `wide`: in pieces of 16 bytes.
template <bool wide> __device__ __forceinline__ void fetch_b(Source& s, scalar_t* tiles, int left, int k, int cols_left)
{
    const int t = threadIdx.x;
    scalar_t* tile = tiles + a_size;
    if (wide) {
        const int row = t / (BLOCK_X / each), col = t % (BLOCK_X / each) * each;
#pragma unroll
        for (int j = 0; j < depth; j += wide_step)
            if (wide_step <= depth || row < depth)
                copy<16>(tile + (row + j) * b_width + col, s.b + size_t(j) * k, row + j < left && col < cols_left);
    } else {
        const int row = t / BLOCK_X, col = t % BLOCK_X;
#pragma unroll
        for (int j = 0; j < depth; j += narrow_step)
            copy<sizeof(scalar_t)>(
                tile + (row + j) * b_width + col, s.b + size_t(j) * k, row + j < left && col < cols_left);
    }
    s.b += size_t(depth) * k;
}

// Adds the products of a lane's rows of A and columns of B to its sums.
template <bool wide>
__device__ __forceinline__ void add_products(scalar_t (&sums)[rows][cols], scalar_t* tiles, const scalar_t* a,
    const scalar_t* b, int first_row, int first_col, int m, int n, int k)
{
    const int t = threadIdx.x;
    Source source;
    source.a_depth = t % depth;
    source.a = a + size_t(first_row + t / depth) * n + source.a_depth;
    source.a_there = 0;
#pragma unroll
    for (int j = 0; j < a_count; ++j)
        source.a_there |= unsigned(first_row + t / depth + j * a_step < m) << j;
    source.b = wide ? b + size_t(t / (BLOCK_X / each)) * k + first_col + t % (BLOCK_X / each) * each
                    : b + size_t(t / BLOCK_X) * k + first_col + t % BLOCK_X;
    const int cols_left = k - first_col;

    int left = n;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        fetch_a(source, tiles + stage * stage_size, left, n);
        fetch_b<wide>(source, tiles + stage * stage_size, left, k, cols_left);
        left -= depth;
        commit_copies();
    }

    const int warp = t / 32, lane = t % 32;
    const int row = warp / warps_across * WARP_Y + lane / 8 * each;
    const int col = warp % warps_across * WARP_X + lane % 8 * each;
    scalar_t down[2][rows], across[2][cols];
    const auto read = [&](const scalar_t* tile, int d) {
#pragma unroll
        for (int i = 0; i < rows; i += each)
            *reinterpret_cast<Pack*>(&down[d % 2][i])
                = *reinterpret_cast<const Pack*>(tile + d * a_width + row + i * 4);
#pragma unroll
        for (int i = 0; i < cols; i += each)
            *reinterpret_cast<Pack*>(&across[d % 2][i])
                = *reinterpret_cast<const Pack*>(tile + a_size + d * b_width + col + i * 8);
    };
    wait_for_copies<STAGES - 2>();
    __syncthreads();
    read(tiles, 0);
    const int count = (n - 1) / depth + 1;
    int now = 0, next = STAGES - 1;
#pragma unroll 1
    for (int step = 0; step < count; ++step) {
        const scalar_t* tile = tiles + now * stage_size;
        now = now + 1 == STAGES ? 0 : now + 1;
#pragma unroll
        for (int d = 0; d < depth; ++d) {
            if (d == depth - 1) { // the next stage has come for all, and this one's last reads are done
                wait_for_copies<STAGES - 2>();
                __syncthreads();
                read(tiles + now * stage_size, 0); // after the last stage zeros, that nobody uses
            } else {
                read(tile, d + 1);
            }
            if (d == 0)
                fetch_a(source, tiles + next * stage_size, left, n);
            if (d == late) {
                fetch_b<wide>(source, tiles + next * stage_size, left, k, cols_left);
                commit_copies();
                left -= depth;
                next = next + 1 == STAGES ? 0 : next + 1;
            }
#pragma unroll
            for (int i = 0; i < rows; ++i)
#pragma unroll
                for (int l = 0; l < cols; ++l) {
                    const int j = i % 2 ? cols - 1 - l : l;
                    sums[i][j] += down[d % 2][i] * across[d % 2][j];
                }
        }
    }
    wait_for_copies<0>();
}

// Where a lane's sums lie is computed again, and from threadIdx.x: what the loop shares with the store leaves nvcc 13
// fewer operands to keep (of 1,024 multiplications 168 read a bank twice, not 94).
__device__ __forceinline__ void store(
    const scalar_t (&sums)[rows][cols], scalar_t* c, int first_row, int first_col, int m, int k)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / warps_across * WARP_Y + lane / 8 * each;
    const int col = warp % warps_across * WARP_X + lane % 8 * each;
    const bool wide = k % each == 0 && size_t(c) % 16 == 0;
#pragma unroll
    for (int i = 0; i < rows; ++i) {
        const int r = first_row + row + i / each * 4 * each + i % each;
#pragma unroll
        for (int j = 0; j < cols; j += each) {
            const int q = first_col + col + j * 8;
            Pack pack;
#pragma unroll
            for (int l = 0; l < each; ++l)
                pack.values[l] = sums[i][j + l] + scalar_t(0); // a copy (of -0 it is 0), which has registers of its own
            if (r < m && wide && q < k)
                *reinterpret_cast<Pack*>(c + size_t(r) * k + q) = pack;
            else if (r < m)
#pragma unroll
                for (int l = 0; l < each; ++l)
                    if (q + l < k)
                        c[size_t(r) * k + q + l] = pack.values[l];
        }
    }
}

template <bool wide_b>
__device__ __forceinline__ void product(
    scalar_t* tiles, const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    // Blocks past gridDim.y's limit of 65,535 continue in z. Down a group of rows first, then on to the next column.
    const int block_rows = (m - 1) / BLOCK_Y + 1;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int first_in_group = block / (group * gridDim.x) * group, height = min(block_rows - first_in_group, group);
    if (height <= 0)
        return;
    const unsigned inside = block % (group * gridDim.x);
    const int first_row = int(first_in_group + inside % height) * BLOCK_Y, first_col = int(inside / height) * BLOCK_X;

    scalar_t sums[rows][cols] = {};
    add_products<wide_b>(sums, tiles, a, b, first_row, first_col, m, n, k);

    store(sums, c, first_row, first_col, m, k);
}

extern "C" __global__ void __launch_bounds__(threads, 65536 / (registers * threads))
matmul_warptiled(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    extern __shared__ Pack memory[];
    scalar_t* const tiles = reinterpret_cast<scalar_t*>(memory);
    if (k % each == 0 && size_t(b) % 16 == 0)
        product<true>(tiles, a, b, c, m, n, k);
    else
        product<false>(tiles, a, b, c, m, n, k);
}
