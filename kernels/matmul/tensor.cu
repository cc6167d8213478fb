// Matrix product (float64) on the tensor cores: mma.sync m16n8k8, fed by asynchronous copies.
// Needs compute capability 9.0, whose instructions take 16 x 8 x 4 and more; the older one (8 x 8 x 4) reaches half of
// that. A warp reads the next 8 columns of A and rows of B from shared memory while the tensor cores work on these,
// across stages too, so that two warps of a scheduler keep them busy. A warp's tile of 64 x 32 needs a quarter fewer
// reads than two of 32 x 32; blocks of 64 x 64 have 32 x 32, so that three of them fit a multiprocessor. Rows of tiles
// are 4 elements longer than what they hold, so that the 16 that a half warp reads lie in different banks. Elements go
// 16 bytes at a time, or 8 where not all rows of A and B start at multiples of that, with zeros beyond the matrices;
// zeros also come after the last stage, because a branch that leaves them out costs more than they do. Arithmetic is
// IEEE float64 throughout.
// Costs: WARP_X WARP_Y / 32 sums a thread; STAGES * 8 (BLOCK_Y (16 + 4) + 16 (BLOCK_X + 4)) bytes of dynamic shared
// memory; 8 or 16 bytes of local memory, outside the loop.
// Share on an H200, predicted: 0.97 to 1.02; reached: 0.97 of cuBLAS at 4096^3 (0.96 to 1.01 from run to run, and 1.09
// where launch follows launch: the power cap is on the clock), 1.02 at 2048^3 and 1.06 at 2049x2047x2051.

#include "copies.h"

constexpr int depth = 16, stages = STAGES, group = 4;
constexpr int warps_across = BLOCK_X / WARP_X, threads = 32 * warps_across * (BLOCK_Y / WARP_Y);
constexpr int a_width = depth + 4, b_width = BLOCK_X + 4;
constexpr int a_size = BLOCK_Y * a_width, stage_size = a_size + depth * b_width;
constexpr int tall = WARP_Y / 16, broad = WARP_X / 8; // products of a warp, down and across
constexpr int registers = 8 * tall * broad + 16 * tall + 8 * broad + 32; // for sums, what was read and is, and the rest

// What a thread brings of a tile of `height` rows by `width` columns: pieces of `bytes`, in one column, some rows
// apart.
template <int height, int width, int tile_width, int bytes> struct Source {
    static constexpr int pack = bytes / 8, across = width / pack, apart = threads / across, count = height / apart;
    static_assert(threads % across == 0 && height % apart == 0, "threads must share a tile evenly");

    static __device__ __forceinline__ int row() { return threadIdx.x / across; }
    static __device__ __forceinline__ int column() { return threadIdx.x % across * pack; }

    // Rows that exist are counted from the thread's own; `there` says whether its column does.
    static __device__ __forceinline__ void fetch(double* tile, const double* from, int pitch, int rows, bool there)
    {
        double* to = tile + row() * tile_width + column();
#pragma unroll
        for (int j = 0; j < count; ++j)
            copy<bytes>(to + j * apart * tile_width, from + size_t(j * apart) * pitch, there && j * apart < rows);
    }
};

__device__ __forceinline__ void multiply(double (&sums)[4], const double (&a)[4], const double (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

// `bytes`: of a piece of A's rows and of B's, 16 where all of them start at multiples of that.
template <int bytes>
__device__ __forceinline__ void product(double* tiles, const double* a, const double* b, double* c, int m, int n, int k)
{
    using OfA = Source<BLOCK_Y, depth, a_width, bytes>;
    using OfB = Source<depth, BLOCK_X, b_width, bytes>;
    // Blocks past gridDim.y's limit of 65,535 continue in z. Down a group of rows first, then on to the next column.
    const int block_rows = (m - 1) / BLOCK_Y + 1;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int first_in_group = block / (group * gridDim.x) * group, height = min(block_rows - first_in_group, group);
    if (height <= 0)
        return;
    const unsigned inside = block % (group * gridDim.x);
    const int first_row = int(first_in_group + inside % height) * BLOCK_Y, first_col = int(inside / height) * BLOCK_X;

    const double* a_from = a + size_t(first_row + OfA::row()) * n + OfA::column();
    const double* b_from = b + size_t(OfB::row()) * k + first_col + OfB::column();
    int left_over = n; // columns of A that are not queued
    const auto queue = [&](int stage) {
        double* const tile = tiles + stage * stage_size;
        OfA::fetch(tile, a_from, n, m - first_row - OfA::row(), OfA::column() < left_over);
        OfB::fetch(tile + a_size, b_from, k, left_over - OfB::row(), first_col + OfB::column() < k);
        a_from += depth, b_from += size_t(depth) * k, left_over -= depth;
        commit_copies();
    };
#pragma unroll
    for (int stage = 0; stage < stages - 1; ++stage)
        queue(stage);

    // Lane 4 g + t holds rows g and g + 8, columns t and t + 4 of A; rows t and t + 4, column g of B; rows g and g + 8,
    // columns 2 t and 2 t + 1 of C (PTX ISA, "Matrix fragments for mma.m16n8k8", .f64).
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int row = warp / warps_across * WARP_Y + g, col = warp % warps_across * WARP_X;
    double sums[tall][broad][4] = {}, left[2][tall][4], right[2][broad][2];
    const auto read = [&](int stage, int d) {
        const double* a_tile = tiles + stage * stage_size + row * a_width + t;
        const double* b_tile = tiles + stage * stage_size + a_size + t * b_width + col + g;
#pragma unroll
        for (int i = 0; i < tall; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                left[d / 8 % 2][i][j] = a_tile[(i * 16 + j % 2 * 8) * a_width + d + j / 2 * 4];
#pragma unroll
        for (int i = 0; i < broad; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j)
                right[d / 8 % 2][i][j] = b_tile[(d + j * 4) * b_width + i * 8];
    };
    const int count = (n - 1) / depth + 1;
    wait_for_copies<stages - 2>();
    __syncthreads();
    read(0, 0);
    int now = 0, before = stages - 1;
#pragma unroll 1
    for (int step = 0; step < count; ++step) {
        const int after = now + 1 == stages ? 0 : now + 1;
#pragma unroll
        for (int d = 0; d < depth; d += 8) {
            if (d + 8 == depth) { // the next stage has come for all, and this one's last reads are done
                wait_for_copies<stages - 2>();
                __syncthreads();
                read(after, 0); // after the last stage zeros, that nobody uses
            } else {
                read(now, d + 8);
            }
            if (d == 0)
                queue(before);
#pragma unroll
            for (int i = 0; i < tall; ++i)
#pragma unroll
                for (int j = 0; j < broad; ++j)
                    multiply(sums[i][j], left[d / 8 % 2][i], right[d / 8 % 2][j]);
        }
        before = now, now = after;
    }
    wait_for_copies<0>();

    const bool wide = k % 2 == 0 && size_t(c) % 16 == 0;
#pragma unroll
    for (int i = 0; i < tall * 2; ++i)
#pragma unroll
        for (int j = 0; j < broad; ++j) {
            const int r = first_row + row + i * 8, q = first_col + col + j * 8 + 2 * t;
            const double2 two = { sums[i / 2][j][i % 2 * 2], sums[i / 2][j][i % 2 * 2 + 1] };
            double* const to = c + size_t(r) * k + q;
            if (r < m && wide && q < k) {
                *reinterpret_cast<double2*>(to) = two;
            } else if (r < m) {
                if (q < k)
                    to[0] = two.x;
                if (q + 1 < k)
                    to[1] = two.y;
            }
        }
}

extern "C" __global__ void __launch_bounds__(threads, 65536 / (registers * threads))
matmul_tensor(const double* a, const double* b, double* c, int m, int n, int k)
{
    extern __shared__ double2 memory[];
    double* const tiles = reinterpret_cast<double*>(memory);
    if (n % 2 == 0 && k % 2 == 0 && size_t(a) % 16 == 0 && size_t(b) % 16 == 0)
        product<16>(tiles, a, b, c, m, n, k);
    else
        product<8>(tiles, a, b, c, m, n, k);
}
