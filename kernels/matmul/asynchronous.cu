// Matrix product as double_buffered.cu, with tiles that come by themselves: cp.async, STAGES - 1 of them ahead.
// The copies need no registers, and nobody waits for the newest. Elements go one by one for A, which is transposed on
// the way; 16 bytes at a time for B, or one by one where its rows do not start at multiples of that. Zeros are written
// beyond the matrices, so any shape and any alignment takes the same path.
// Costs: as vectorised.cu, with STAGES times its shared memory, which is dynamic; needs compute capability 8.0.
// Share on an H200, predicted: 0.82 to 0.85; reached: 0.85 of cuBLAS at 4096^3 (float32). In float64 0.37, predicted
// 0.50 to 0.58; the vector units end at 0.55 (by the data sheet).

#include "copies.h"
#include "microtile.h"

// What a thread brings of the next stage: one column of A's tile, some rows apart, and one of B's.
struct Source {
    const scalar_t *a, *b; // its first element of each
    int rows_left, left;   // rows of A from the thread's first on, columns of A from the stage's first on
};

template <int piece>
__device__ __forceinline__ void queue_b(Tiles& tiles, const Source& source, const Matrices& from)
{
    constexpr int across_b = BLOCK_X / piece, apart = threads / across_b;
    const int y = threadIdx.x / across_b, x = threadIdx.x % across_b * piece;
#pragma unroll
    for (int j = 0; j < depth; j += apart)
        copy<piece * int(sizeof(scalar_t))>(&tiles.b[y + j][x / pack].values[x % pack], source.b + size_t(j) * from.k,
            y + j < source.left && from.first_col + x < from.k);
}

__device__ __forceinline__ void queue(Tiles& tiles, Source& source, const Matrices& from)
{
    constexpr int apart = threads / depth;
    const int y = threadIdx.x / depth, x = threadIdx.x % depth;
#pragma unroll
    for (int j = 0; j < BLOCK_Y; j += apart)
        copy<sizeof(scalar_t)>(&tiles.a[x][y + j], source.a + size_t(j) * from.n, j < source.rows_left && x < source.left);
    if (from.b_aligned)
        queue_b<pack>(tiles, source, from);
    else
        queue_b<1>(tiles, source, from);
    source.a += depth, source.b += size_t(depth) * from.k, source.left -= depth;
}

extern "C" __global__ void __launch_bounds__(threads)
matmul_asynchronous(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    extern __shared__ float4 memory[];
    Tiles* const tiles = reinterpret_cast<Tiles*>(memory); // STAGES of them
    const Matrices from = matrices(a, b, m, n, k);
    const int t = threadIdx.x, across_b = from.b_aligned ? BLOCK_X / pack : BLOCK_X, piece = from.b_aligned ? pack : 1;
    Source source = { a + size_t(from.first_row + t / depth) * n + t % depth,
        b + size_t(t / across_b) * k + from.first_col + t % across_b * piece, m - from.first_row - t / depth, n };
    const int count = (n - 1) / depth + 1;
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < count)
            queue(tiles[step], source, from);
        commit_copies();
    }
    scalar_t sums[side][side] = {};
    int now = 0, next = STAGES - 1;
    for (int step = 0; step < count; ++step) {
        wait_for_copies<STAGES - 2>();
        __syncthreads(); // this stage has come for all, and the one before it is read by none
        if (step + STAGES - 1 < count)
            queue(tiles[next], source, from);
        commit_copies();
        multiply(sums, tiles[now]);
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    wait_for_copies<0>();
    store(sums, c, from);
}
