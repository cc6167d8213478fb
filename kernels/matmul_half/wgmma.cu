// Matrix product of half-precision elements on tensor cores, by warp groups (wgmma), with float32 sums.
// Blocks stay: each computes tiles of 128 x 256 elements of C one after the other. One warp group brings tiles of A and
// B by TMA into a ring of STAGES places; two others multiply them, 64 rows each, and write through shared memory. The
// two blocks of a cluster lie below each other and bring each other half of B's tile. Tiles are taken down a group of
// rows first, so that what runs at a time shares rows of A and columns of B.
// TMA takes no rows that start off multiples of 16 bytes: such matrices are first copied into scratch memory, row by
// row, by all warps that come; then blocks wait until all rows are there. C is then written element by element.
// Costs: 225 KB of shared memory; needs sm_90a.
// Share on an H100, reached: 0.99 of cuBLAS at 4096^3, 0.95 to 1.01 at 8192^3, where power limits both, and 3.5 at
// 4095x4097x4093 (float16).

#include "hopper.h"

constexpr int depth = 64, consumers = 2, threads = 128 * (1 + consumers), rows = BLOCK_Y / consumers;
constexpr int a_bytes = BLOCK_Y * depth * 2, box = 64 * depth * 2, b_boxes = BLOCK_X / 64;
constexpr int stage_bytes = a_bytes + b_boxes * box, staged = rows * 64 * 2; // of C: 64 columns at a time
constexpr int barriers = STAGES * stage_bytes + consumers * 2 * staged;      // place of the barriers
static_assert(rows == 64 && BLOCK_X == 256 && b_boxes % CLUSTER == 0, "what wgmma multiplies is 64 x 256");

struct Shape {
    int m, n, k;
};

// Number of the tile that a block computes as its `step`-th, as (row, column); row is past the last for no tile.
__device__ __forceinline__ bool tile_of(int step, const Shape& shape, int& row, int& col)
{
    const int down = ((shape.m - 1) / BLOCK_Y + CLUSTER) / CLUSTER, across = (shape.k - 1) / BLOCK_X + 1;
    const int tile = step * (gridDim.x / CLUSTER) + blockIdx.x / CLUSTER;
    if (tile >= down * across)
        return false;
    find_tile(tile, down, across, row, col);
    row = (row * CLUSTER + blockIdx.x % CLUSTER) * BLOCK_Y, col *= BLOCK_X;
    return true;
}

// 16 bytes that start `shift` bytes, an even number, into two pieces.
__device__ __forceinline__ uint4 shifted(const uint4& first, const uint4& second, unsigned shift)
{
    unsigned words[8] = { first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w };
#pragma unroll
    for (int i = 0; i < 6; ++i)
        words[i] = shift & 8 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i)
        words[i] = shift & 4 ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        words[i] = __funnelshift_r(words[i], words[i + 1], (shift & 2) * 8);
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// A row of a matrix to where it starts at a multiple of 16 bytes. One warp, in pieces of 16 bytes where those across
// the row's ends lie in the matrix too.
__device__ __forceinline__ void copy_row(scalar_t* copies, const scalar_t* matrix, int row, int rows, int length)
{
    constexpr int at_a_time = 8; // loads of a lane
    const int lane = threadIdx.x % 32, pieces = (length + 7) / 8;
    const scalar_t* const from = matrix + size_t(row) * length;
    uint4* const to = reinterpret_cast<uint4*>(copies) + size_t(row) * pieces;
    if (size_t(row) * length < 8 || size_t(rows - 1 - row) * length < 16) {
        for (int start = lane; start < length; start += 32 * at_a_time) {
            scalar_t held[at_a_time];
#pragma unroll
            for (int i = 0; i < at_a_time; ++i)
                if (start + 32 * i < length)
                    held[i] = from[start + 32 * i];
#pragma unroll
            for (int i = 0; i < at_a_time; ++i)
                if (start + 32 * i < length)
                    reinterpret_cast<scalar_t*>(to)[start + 32 * i] = held[i];
        }
        return;
    }
    const unsigned shift = size_t(from) % 16;
    const uint4* const source = reinterpret_cast<const uint4*>(size_t(from) - shift);
    for (int start = lane; start - lane < pieces; start += 32 * at_a_time) {
        uint4 held[at_a_time + 1];
#pragma unroll
        for (int i = 0; i <= at_a_time; ++i)
            if ((i < at_a_time || lane == 0) && start + 32 * i <= pieces)
                held[i] = source[start + 32 * i];
#pragma unroll
        for (int i = 0; i < at_a_time; ++i) {
            uint4 next = lane ? held[i] : held[i + 1]; // what the lane before needs
            next.x = __shfl_sync(~0u, next.x, lane + 1), next.y = __shfl_sync(~0u, next.y, lane + 1);
            next.z = __shfl_sync(~0u, next.z, lane + 1), next.w = __shfl_sync(~0u, next.w, lane + 1);
            if (start + 32 * i < pieces)
                to[start + 32 * i] = shifted(held[i], next, shift);
        }
    }
}

// tickets[0]: the next row that no warp has taken; tickets[1]: rows that are there. The first thread waits for all of
// them. It waits for warps that run, so this ends however few blocks run at a time.
__device__ __forceinline__ void copy_unaligned(const scalar_t* a, const scalar_t* b, scalar_t* a_copy, scalar_t* b_copy,
    unsigned* tickets, const Shape& shape, bool copy_a, bool copy_b)
{
    const unsigned of_a = copy_a ? shape.m : 0, all = of_a + (copy_b ? shape.n : 0);
    const int lane = threadIdx.x % 32;
    const auto taken = [&] { return lane == 0 ? atomicAdd(tickets, 1) : 0; };
    unsigned done = 0, next = taken();
    for (;;) {
        const unsigned row = __shfl_sync(~0u, next, 0);
        if (row >= all)
            break;
        next = taken();
        if (row < of_a)
            copy_row(a_copy, a, row, shape.m, shape.n);
        else
            copy_row(b_copy, b, row - of_a, shape.n, shape.k);
        ++done;
    }
    publish_global();
    __threadfence();
    __syncwarp();
    if (lane == 0)
        atomicAdd(tickets + 1, done);
    if (threadIdx.x == 0) {
        while (*static_cast<volatile unsigned*>(tickets + 1) < all)
            continue;
        __threadfence();
    }
}

__device__ __forceinline__ void bring(
    unsigned memory, const TensorMap& a_map, const TensorMap& b_map, const Shape& shape, unsigned rank)
{
    const unsigned full = memory + barriers, empty = full + 8 * STAGES;
    int stage = 0, parity = 0, row, col;
    for (int step = 0; tile_of(step, shape, row, col); ++step)
        for (int start = 0; start < shape.n; start += depth) {
            const unsigned to = memory + stage * stage_bytes, here = full + 8 * stage;
            wait(empty + 8 * stage, parity ^ 1);
            expect(here, stage_bytes);
            load_box(to, a_map, start, row, here);
#pragma unroll
            for (int i = 0; i < b_boxes / CLUSTER; ++i) {
                const int which = rank * (b_boxes / CLUSTER) + i;
                const unsigned place = to + a_bytes + which * box;
                if (CLUSTER == 1)
                    load_box(place, b_map, col + 64 * which, start, here);
                else
                    load_box(place, b_map, col + 64 * which, start, here, (1 << CLUSTER) - 1);
            }
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }
}

__device__ __forceinline__ void store(const float (&sums)[32][4], unsigned staging, const TensorMap& c_map, scalar_t* c,
    const Shape& shape, int row, int col, int consumer, bool aligned)
{
    const int t = threadIdx.x % 128, warp = t / 32, lane = t % 32;
    const int own_row = warp * 16 + lane % 16;
#pragma unroll
    for (int part = 0; part < BLOCK_X / 64; ++part) {
        const unsigned place = staging + part % 2 * staged;
        if (t == 0)
            wait_for_stores<1>();
        synchronise(1 + consumer, 128);
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            const float(&left)[4] = sums[part * 8 + i], (&right)[4] = sums[part * 8 + i + 1];
            const unsigned to = place + own_row * 128 + ((i + lane / 16) ^ own_row % 8) * 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                "r"(rounded(left[0], left[1])), "r"(rounded(left[2], left[3])), "r"(rounded(right[0], right[1])),
                "r"(rounded(right[2], right[3]))
                : "memory");
        }
        publish_shared();
        synchronise(1 + consumer, 128);
        const int first = col + part * 64;
        if (aligned) {
            if (t == 0)
                store_box(c_map, first, row, place);
        } else {
            for (int r = warp; r < rows && row + r < shape.m; r += 4)
#pragma unroll
                for (int j = lane; j < 64; j += 32) {
                    unsigned short bits;
                    asm volatile("ld.shared.u16 %0, [%1];"
                                 : "=h"(bits)
                                 : "r"(place + r * 128 + ((j / 8) ^ r % 8) * 16 + j % 8 * 2));
                    if (first + j < shape.k)
                        reinterpret_cast<unsigned short*>(c)[size_t(row + r) * shape.k + first + j] = bits;
                }
        }
    }
}

__device__ __forceinline__ void consume(unsigned memory, const TensorMap& c_map, scalar_t* c, const Shape& shape,
    int consumer, bool aligned)
{
    const unsigned full = memory + barriers, empty = full + 8 * STAGES;
    const unsigned staging = memory + STAGES * stage_bytes + consumer * 2 * staged;
    const bool arrives = threadIdx.x % 128 < CLUSTER; // a thread for each block of the cluster
    int stage = 0, parity = 0, row, col;
    float sums[32][4];
    for (int step = 0; tile_of(step, shape, row, col); ++step) {
        int last = 0;
        for (int start = 0; start < shape.n; start += depth) {
            wait(full + 8 * stage, parity);
            const unsigned a = memory + stage * stage_bytes, b = a + a_bytes;
            begin_products();
#pragma unroll
            for (int d = 0; d < depth / 16; ++d)
                multiply(sums, descriptor(a + consumer * rows * 128 + d * 32, 16, 1024),
                    descriptor(b + d * 16 * 128, box, 1024), start + d > 0);
            commit_products();
            if (start) {
                wait_for_products<1>(); // those of the stage before
                if (arrives)
                    arrive(empty + 8 * last, threadIdx.x % 128);
            }
            last = stage;
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }
        wait_for_products<0>();
        if (arrives)
            arrive(empty + 8 * last, threadIdx.x % 128);
        store(sums, staging, c_map, c, shape, row + consumer * rows, col, consumer, aligned);
    }
    if (threadIdx.x % 128 == 0)
        wait_for_stores<0>();
}

extern "C" __global__ void __launch_bounds__(threads, 1)
matmul_half_wgmma(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
    const __grid_constant__ TensorMap c_map, const scalar_t* a, const scalar_t* b, scalar_t* c, scalar_t* a_copy,
    scalar_t* b_copy, unsigned* tickets, int m, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char tiles[];
    const unsigned memory = shared_address(tiles), full = memory + barriers, empty = full + 8 * STAGES;
    const unsigned rank = CLUSTER == 1 ? 0 : rank_in_cluster();
    const Shape shape = { m, n, k };
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i)
            init(full + 8 * i, 1), init(empty + 8 * i, consumers * CLUSTER);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    const bool copy_a = n % 8 || size_t(a) % 16, copy_b = k % 8 || size_t(b) % 16;
    if (copy_a || copy_b)
        copy_unaligned(a, b, a_copy, b_copy, tickets, shape, copy_a, copy_b);
    synchronise_cluster();

    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < 32 && elected()) {
            publish_global();
            bring(memory, a_map, b_map, shape, rank);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(memory, c_map, c, shape, threadIdx.x / 128 - 1, k % 8 == 0 && size_t(c) % 16 == 0);
    }
    __syncwarp();
    synchronise_cluster(); // no block ends while another writes into it
}
