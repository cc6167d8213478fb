// Matrix product (float64) on the tensor cores: mma.sync m16n8k4, fed by asynchronous copies.
// Needs compute capability 9.0, whose instruction takes 16 x 8 x 4; the older one (8 x 8 x 4) reaches half of that. A
// warp computes 32 x 32 elements of C. It reads the next 4 columns of A and rows of B from shared memory while the
// tensor cores work on these, across stages too, so that sixteen warps of one large block keep them busy: a block of
// 128 x 128 needs half the bandwidth of L2 that four of 64 x 64 do. Tiles have rows 4 elements longer than they are, so
// that the 16 elements that a half warp reads lie in different banks. Elements go 8 bytes at a time (16 where rows
// allow), with zeros beyond the matrices, so any shape and any alignment takes the same path; zeros also come after the
// last stage, because a branch that leaves them out costs 3.5 % (128 x 128) to 8 % (64 x 64). Arithmetic is IEEE float64
// throughout.
// Costs: 32 sums a thread; STAGES * 8 (BLOCK_Y (16 + 4) + 16 (BLOCK_X + 4)) bytes of dynamic shared memory.
// Share on an H200, predicted: 0.88 to 0.95; reached: 0.96 of cuBLAS at 4096^3 (0.90 to 0.97 from run to run: the power
// cap is on the clock), 0.95 at 2048^3 and 1.05 at 2049x2047x2051.

#include "copies.h"

constexpr int depth = 16, stages = STAGES, group = 4;
constexpr int warp_rows = 32, warp_cols = 32, warps_across = BLOCK_X / warp_cols;
constexpr int threads = BLOCK_X * BLOCK_Y / (warp_rows * warp_cols) * 32;
constexpr int a_width = depth + 4, b_width = BLOCK_X + 4;
constexpr int a_size = BLOCK_Y * a_width, b_size = depth * b_width, stage_size = a_size + b_size;
constexpr int tall = warp_rows / 16, broad = warp_cols / 8; // products of a warp, down and across

// What a thread brings of each stage's tile of `height` rows by `width` columns: pieces of `bytes`, in one column, some
// rows apart.
template <int height, int width, int tile_width, int bytes> struct Source {
    static constexpr int pack = bytes / 8, across = width / pack, apart = threads / across, count = height / apart;
    static_assert(threads % across == 0 && height % apart == 0, "threads must share a tile evenly");

    // Rows that exist are counted from the thread's own; `there` says whether its column does.
    static __device__ __forceinline__ void fetch(double* tile, const double* from, int pitch, int rows, bool there)
    {
        double* to = tile + threadIdx.x / across * tile_width + threadIdx.x % across * pack;
#pragma unroll
        for (int j = 0; j < count; ++j)
            copy<bytes>(to + j * apart * tile_width, from + size_t(j * apart) * pitch, there && j * apart < rows);
    }
};
template <int bytes> using SourceA = Source<BLOCK_Y, depth, a_width, bytes>;
template <int bytes> using SourceB = Source<depth, BLOCK_X, b_width, bytes>;

__device__ __forceinline__ void multiply(double (&sum)[4], const double (&a)[2], double b)
{
    asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0]), "d"(a[1]), "d"(b));
}

extern "C" __global__ void __launch_bounds__(threads, 512 / threads)
matmul_tensor(const double* a, const double* b, double* c, int m, int n, int k)
{
    extern __shared__ double2 memory[];
    double* const tiles = reinterpret_cast<double*>(memory);

    // Blocks past gridDim.y's limit of 65,535 continue in z. Down a group of rows first, then on to the next column.
    const int block_rows = (m - 1) / BLOCK_Y + 1;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int first_in_group = block / (group * gridDim.x) * group, height = min(block_rows - first_in_group, group);
    if (height <= 0)
        return;
    const unsigned inside = block % (group * gridDim.x);
    const int first_row = int(first_in_group + inside % height) * BLOCK_Y, first_col = int(inside / height) * BLOCK_X;
    const bool a_wide = n % 2 == 0 && size_t(a) % 16 == 0, b_wide = k % 2 == 0 && size_t(b) % 16 == 0;

    const int t_a = a_wide ? SourceA<16>::across : SourceA<8>::across, a_y = threadIdx.x / t_a;
    const int t_b = b_wide ? SourceB<16>::across : SourceB<8>::across, b_y = threadIdx.x / t_b;
    const int a_x = threadIdx.x % t_a * (a_wide ? 2 : 1), b_x = first_col + threadIdx.x % t_b * (b_wide ? 2 : 1);
    const double *a_from = a + size_t(first_row + a_y) * n + a_x, *b_from = b + size_t(b_y) * k + b_x;
    const auto queue = [&](int step) {
        double* const tile = tiles + step % stages * stage_size;
        const int left_over = n - step * depth; // columns of A that are not queued
        if (a_wide)
            SourceA<16>::fetch(tile, a_from, n, m - first_row - a_y, a_x < left_over);
        else
            SourceA<8>::fetch(tile, a_from, n, m - first_row - a_y, a_x < left_over);
        if (b_wide)
            SourceB<16>::fetch(tile + a_size, b_from, k, left_over - b_y, b_x < k);
        else
            SourceB<8>::fetch(tile + a_size, b_from, k, left_over - b_y, b_x < k);
        a_from += depth, b_from += size_t(depth) * k;
    };
    const int count = (n - 1) / depth + 1;
    for (int step = 0; step < stages - 1; ++step) {
        queue(step);
        commit_copies();
    }

    // Lane 4 g + t holds rows g and g + 8, column t of A; row t, column g of B; rows g and g + 8, columns 2 t and
    // 2 t + 1 of C (PTX ISA, "Matrix fragments for mma.m16n8k4", .f64).
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int row = warp / warps_across * warp_rows + g, col = warp % warps_across * warp_cols;
    double sums[tall][broad][4] = {}, left[2][tall][2], right[2][broad];
    const auto read = [&](int stage, int d) {
        const double* a_tile = tiles + stage * stage_size + row * a_width + t;
        const double* b_tile = tiles + stage * stage_size + a_size + t * b_width + col + g;
#pragma unroll
        for (int i = 0; i < tall; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j)
                left[d / 4 % 2][i][j] = a_tile[(i * 16 + j * 8) * a_width + d];
#pragma unroll
        for (int i = 0; i < broad; ++i)
            right[d / 4 % 2][i] = b_tile[d * b_width + i * 8];
    };
    wait_for_copies<stages - 2>();
    __syncthreads();
    read(0, 0);
    int now = 0;
#pragma unroll 1
    for (int step = 0; step < count; ++step) {
        const int after = now + 1 == stages ? 0 : now + 1;
#pragma unroll
        for (int d = 0; d < depth; d += 4) {
            if (d + 4 == depth) { // the next stage has come for all, and this one's last reads are done
                wait_for_copies<stages - 2>();
                __syncthreads();
                read(after, 0); // after the last stage zeros, that nobody uses
            } else {
                read(now, d + 4);
            }
            if (d == 0) {
                queue(step + stages - 1);
                commit_copies();
            }
#pragma unroll
            for (int i = 0; i < tall; ++i)
#pragma unroll
                for (int j = 0; j < broad; ++j)
                    multiply(sums[i][j], left[d / 4 % 2][i], right[d / 4 % 2][j]);
        }
        now = after;
    }
    wait_for_copies<0>();

#pragma unroll
    for (int i = 0; i < tall; ++i)
#pragma unroll
        for (int j = 0; j < broad; ++j)
#pragma unroll
            for (int l = 0; l < 4; ++l) {
                const int r = first_row + row + i * 16 + l / 2 * 8, q = first_col + col + j * 8 + 2 * t + l % 2;
                if (r < m && q < k)
                    c[size_t(r) * k + q] = sums[i][j][l];
            }
}
