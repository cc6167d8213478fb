// Matrix product as double_buffered.cu, with tiles that come by themselves: cp.async, STAGES - 1 of them ahead.
// The copies need no registers, and nobody waits for the newest. Elements go one by one for A, which is transposed on
// the way; 16 bytes at a time for B, or one by one where its rows do not start at multiples of that. Zeros are written
// beyond the matrices, so any shape and any alignment takes the same path.
// Costs: as vectorised.cu, with STAGES times its shared memory, which is dynamic; needs compute capability 8.0.

#include "microtile.h"

template <int bytes> __device__ __forceinline__ void copy(void* to, const scalar_t* from, bool there)
{
    const unsigned target = __cvta_generic_to_shared(to);
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(there ? 16 : 0)
            : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(target), "l"(from), "r"(there ? bytes : 0),
            "n"(bytes)
            : "memory");
}

__device__ __forceinline__ void queue(Tiles& tiles, const Matrices& from, int start)
{
    constexpr int size = sizeof(scalar_t);
#pragma unroll
    for (int i = threadIdx.x; i < BLOCK_Y * depth; i += threads) {
        const int row = from.first_row + i / depth, col = start + i % depth;
        const bool there = row < from.m && col < from.n;
        copy<size>(&tiles.a[i % depth][i / depth], from.a + (there ? size_t(row) * from.n + col : 0), there);
    }
    if (from.b_aligned) {
#pragma unroll
        for (int i = threadIdx.x; i < BLOCK_X / pack * depth; i += threads) {
            const int row = start + i / (BLOCK_X / pack), col = from.first_col + i % (BLOCK_X / pack) * pack;
            const bool there = row < from.n && col < from.k;
            Pack* const to = &tiles.b[i / (BLOCK_X / pack)][i % (BLOCK_X / pack)];
            copy<16>(to, from.b + (there ? size_t(row) * from.k + col : 0), there);
        }
    } else {
#pragma unroll
        for (int i = threadIdx.x; i < BLOCK_X * depth; i += threads) {
            const int row = start + i / BLOCK_X, col = from.first_col + i % BLOCK_X;
            const bool there = row < from.n && col < from.k;
            scalar_t* const to = &tiles.b[i / BLOCK_X][i % BLOCK_X / pack].values[i % pack];
            copy<size>(to, from.b + (there ? size_t(row) * from.k + col : 0), there);
        }
    }
}

extern "C" __global__ void __launch_bounds__(threads)
matmul_asynchronous(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    extern __shared__ float4 memory[];
    Tiles* const tiles = reinterpret_cast<Tiles*>(memory); // STAGES of them
    const Matrices from = matrices(a, b, m, n, k);
    const int count = (n - 1) / depth + 1;
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < count)
            queue(tiles[step], from, step * depth);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    scalar_t sums[side][side] = {};
    int now = 0, next = STAGES - 1;
    for (int step = 0; step < count; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads(); // this stage has come for all, and the one before it is read by none
        if (step + STAGES - 1 < count)
            queue(tiles[next], from, (step + STAGES - 1) * depth);
        asm volatile("cp.async.commit_group;" ::: "memory");
        multiply(sums, tiles[now]);
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    store(sums, c, from);
}
