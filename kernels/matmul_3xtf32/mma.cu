// Matrix product of float32 on tensor cores: each element is split into two of TF32, and three products of these are
// summed (mma.sync m16n8k8), by the method that CUTLASS calls 3xTF32.
// TF32 has 11 bits of float32's 24. a = high + low + rest, with |low| <= 2^-11 |a| and |rest| <= 2^-23 |a|; left out
// are low * low and what the rests would add, 2 * 2^-22 |a b| in all: 8 rounding errors of float32, however short the
// sum is. So it is for 2^-115 <= |a| < 2^128 (1 - 2^-12): of smaller elements the low part loses digits; of larger
// ones, and of infinity, it is NaN. NaN stays NaN. Sums are those of the tensor cores, which cut digits off, three
// times for each 8 of n: where all products are positive, an H200's sums of 4,096 are 720 rounding errors of float32
// too small on average (782 at most; 4,108 are allowed), where signs change 0 (50).
// Tiles come by cp.async, STAGES - 1 of them ahead, 16 bytes at a time or 4 where rows do not start at multiples of
// that. A's pieces of 16 bytes lie at their number XOR half the row's, so that ldmatrix meets no bank twice. A lane
// reads 4 neighbours of a row of B at once: column 4 g + q is column g of the q-th product, so that 8 columns of C lie
// side by side in a lane. Rows of B's tile are 8 elements longer, so that 4 rows lie in different banks.
// Costs: WARP_X WARP_Y / 32 sums a thread; STAGES * 64 (BLOCK_Y + BLOCK_X + 8) bytes of shared memory; for each element
// that a lane reads 4 instructions that split it.
// Share on an H200, predicted: 1.0 to 1.5; reached: 1.45 of cuBLAS's float32 product at 4096^3, 1.48 at 1024^3, 1.29 at
// 4095x4097x4093. An mma.sync takes 8.8 cycles at 4096^3; 4 by the data sheet, whose rate only wgmma reaches.

#include "../matmul/copies.h"
#include "../matmul_half/tile_order.h"

constexpr int depth = 16, stages = STAGES;
constexpr int warps_across = BLOCK_X / WARP_X, threads = 32 * warps_across * (BLOCK_Y / WARP_Y);
constexpr int tall = WARP_Y / 16, broad = WARP_X / 32; // of a warp: products down; parts of 4 products across
constexpr int b_width = BLOCK_X + 8, a_size = BLOCK_Y * depth, stage_size = a_size + depth * b_width;

// Where an element of A lies in a tile. Rows 8 apart lie alike.
__device__ __forceinline__ int place(int row, int column)
{
    return row * depth + (column / 4 ^ row / 2 % 4) * 4 + column % 4;
}

// What a thread brings of a tile of `height` rows by `width` columns: pieces of `bytes`, in one column, some rows
// apart.
template <int height, int width, int bytes> struct Source {
    static constexpr int pack = bytes / 4, across = width / pack, apart = threads / across, count = height / apart;
    static_assert(threads % across == 0 && height % apart == 0, "threads must share a tile evenly");

    static __device__ __forceinline__ int row() { return threadIdx.x / across; }
    static __device__ __forceinline__ int column() { return threadIdx.x % across * pack; }

    // Rows that exist are counted from the thread's own; `there` says whether its column does.
    static __device__ __forceinline__ void fetch(
        float* to, int tile_pitch, const float* from, int pitch, int rows, bool there)
    {
#pragma unroll
        for (int j = 0; j < count; ++j)
            copy<bytes>(to + j * apart * tile_pitch, from + size_t(j * apart) * pitch, there && j * apart < rows);
    }
};

struct Split {
    unsigned high, low;
};

// An element as the sum of two of TF32: rounded to nearest, and the rest cut off, which keeps a NaN.
__device__ __forceinline__ Split split(float x)
{
    const unsigned high = (__float_as_uint(x) + 0x1000) & 0xffffe000;
    return { high, __float_as_uint(x - __uint_as_float(high)) & 0xffffe000 };
}

__device__ __forceinline__ void load_matrices(float (&to)[4], const float* from)
{
    unsigned words[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(unsigned(__cvta_generic_to_shared(from)))
                 : "memory");
#pragma unroll
    for (int i = 0; i < 4; ++i)
        to[i] = __uint_as_float(words[i]);
}

__device__ __forceinline__ void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b_low, unsigned b_high)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

// What a lane holds of the next 8 columns of A and rows of B. Lane 4 g + t holds rows g and g + 8, columns t and t + 4
// of A; rows t and t + 4, column g of B (PTX ISA, "Matrix fragments for mma.m16n8k8", .tf32).
struct Read {
    float a[tall][4];
    float4 b[broad][2];
};

__device__ __forceinline__ void multiply_all(float (&sums)[tall][broad][4][4], const Read& read)
{
    unsigned high[tall][4], low[tall][4];
#pragma unroll
    for (int i = 0; i < tall; ++i)
#pragma unroll
        for (int l = 0; l < 4; ++l) {
            const Split parts = split(read.a[i][l]);
            high[i][l] = parts.high, low[i][l] = parts.low;
        }
#pragma unroll
    for (int j = 0; j < broad; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const Split above = split(reinterpret_cast<const float(&)[4]>(read.b[j][0])[q]);
            const Split below = split(reinterpret_cast<const float(&)[4]>(read.b[j][1])[q]);
#pragma unroll
            for (int i = 0; i < tall; ++i)
                multiply(sums[i][j][q], low[i], above.high, below.high);
#pragma unroll
            for (int i = 0; i < tall; ++i)
                multiply(sums[i][j][q], high[i], above.low, below.low);
#pragma unroll
            for (int i = 0; i < tall; ++i)
                multiply(sums[i][j][q], high[i], above.high, below.high);
        }
}

// `bytes`: of a piece of A's rows and of B's, 16 where all of them start at multiples of that.
template <int bytes>
__device__ __forceinline__ void product(float* tiles, const float* a, const float* b, float* c, int m, int n, int k)
{
    using OfA = Source<BLOCK_Y, depth, bytes>;
    using OfB = Source<depth, BLOCK_X, bytes>;
    static_assert(OfA::apart % 8 == 0, "a thread's rows of A's tile lie alike");
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int block_rows = (m - 1) / BLOCK_Y + 1;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    if (block >= block_rows * gridDim.x)
        return;
    int first_row, first_col;
    find_tile(block, block_rows, gridDim.x, first_row, first_col);
    first_row *= BLOCK_Y, first_col *= BLOCK_X;

    const int a_y = OfA::row(), a_x = OfA::column(), b_y = OfB::row(), b_x = OfB::column();
    const int a_to = place(a_y, a_x), b_to = a_size + b_y * b_width + b_x;
    const float *a_from = a + size_t(first_row + a_y) * n + a_x, *b_from = b + size_t(b_y) * k + first_col + b_x;
    int left = n; // columns of A that are not queued
    const auto queue = [&](int stage) {
        if (left > 0) {
            float* const tile = tiles + stage * stage_size;
            OfA::fetch(tile + a_to, depth, a_from, n, m - first_row - a_y, a_x < left);
            OfB::fetch(tile + b_to, b_width, b_from, k, left - b_y, first_col + b_x < k);
            a_from += depth, b_from += size_t(depth) * k, left -= depth;
        }
        commit_copies();
    };
#pragma unroll 1
    for (int stage = 0; stage < stages - 1; ++stage)
        queue(stage);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int row = warp / warps_across * WARP_Y, col = warp % warps_across * WARP_X;
    float sums[tall][broad][4][4] = {};
    Read reads[2];
    const auto read = [&](Read& to, int stage, int d) {
        const float *a_tile = tiles + stage * stage_size, *b_tile = a_tile + a_size;
#pragma unroll
        for (int i = 0; i < tall; ++i)
            load_matrices(to.a[i], a_tile + place(row + i * 16 + lane % 16, d + lane / 16 * 4));
#pragma unroll
        for (int j = 0; j < broad; ++j)
#pragma unroll
            for (int l = 0; l < 2; ++l)
                to.b[j][l]
                    = *reinterpret_cast<const float4*>(b_tile + (d + l * 4 + t) * b_width + col + j * 32 + g * 4);
    };
    const int count = (n - 1) / depth + 1;
    wait_for_copies<stages - 2>();
    __syncthreads();
    read(reads[0], 0, 0);
    int now = 0, before = stages - 1;
#pragma unroll 1
    for (int done = 1; done <= count; ++done) {
        const int next = now + 1 == stages ? 0 : now + 1;
        read(reads[1], now, 8);
        queue(before);
        multiply_all(sums, reads[0]);
        wait_for_copies<stages - 2>(); // the next stage has come for all, and this one's last reads are done
        __syncthreads();
        if (done < count)
            read(reads[0], next, 0);
        multiply_all(sums, reads[1]);
        before = now, now = next;
    }
    wait_for_copies<0>();

    const bool wide = k % 4 == 0 && size_t(c) % 16 == 0;
#pragma unroll
    for (int i = 0; i < tall * 2; ++i)
#pragma unroll
        for (int j = 0; j < broad * 2; ++j) {
            const int r = first_row + row + i * 8 + g, q = first_col + col + j / 2 * 32 + t * 8 + j % 2 * 4;
            const float4 four = { sums[i / 2][j / 2][0][i % 2 * 2 + j % 2], sums[i / 2][j / 2][1][i % 2 * 2 + j % 2],
                sums[i / 2][j / 2][2][i % 2 * 2 + j % 2], sums[i / 2][j / 2][3][i % 2 * 2 + j % 2] };
            float* const to = c + size_t(r) * k + q;
            if (r < m && wide && q < k)
                *reinterpret_cast<float4*>(to) = four;
            else if (r < m)
#pragma unroll
                for (int l = 0; l < 4; ++l)
                    if (q + l < k)
                        to[l] = reinterpret_cast<const float(&)[4]>(four)[l];
        }
}

extern "C" __global__ void __launch_bounds__(threads, WARP_X == 64 ? 256 / threads : 4)
matmul_3xtf32_mma(const float* a, const float* b, float* c, int m, int n, int k)
{
    extern __shared__ float4 memory[];
    float* const tiles = reinterpret_cast<float*>(memory);
    if (n % 4 == 0 && k % 4 == 0 && size_t(a) % 16 == 0 && size_t(b) % 16 == 0)
        product<16>(tiles, a, b, c, m, n, k);
    else
        product<4>(tiles, a, b, c, m, n, k);
}
