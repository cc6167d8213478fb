// What vectorised.cu, double_buffered.cu and asynchronous.cu do alike: 8 x 8 elements of C a thread from tiles of A and B
// in shared memory, read by pieces of 16 bytes. A's tile lies transposed, so that the 8 elements of a column that a
// thread needs are neighbours.

#pragma once

constexpr int depth = 8, side = 8, threads = BLOCK_X * BLOCK_Y / (side * side), across = BLOCK_X / side;
constexpr int pack = 16 / sizeof(scalar_t), groups = side / pack;
struct alignas(16) Pack {
    scalar_t values[pack];
};
struct Tiles {
    scalar_t a[depth][BLOCK_Y + pack];
    Pack b[depth][BLOCK_X / pack];
};

// A tile's next `pack` elements of a row, zeros beyond `end`.
__device__ __forceinline__ Pack load(const scalar_t* row, int col, int end, bool aligned)
{
    Pack loaded = {};
    if (aligned && col + pack <= end)
        return *reinterpret_cast<const Pack*>(row + col);
#pragma unroll
    for (int i = 0; i < pack; ++i)
        if (col + i < end)
            loaded.values[i] = row[col + i];
    return loaded;
}

// What a thread brings of the tiles of A and B: `count` pieces of each, through registers.
struct Matrices {
    const scalar_t *a, *b;
    int m, n, k, first_row, first_col;
    bool a_aligned, b_aligned;
};
constexpr int a_count = BLOCK_Y * depth / pack / threads, b_count = BLOCK_X * depth / pack / threads;
static_assert(a_count * threads * pack == BLOCK_Y * depth && b_count * threads * pack == BLOCK_X * depth,
    "threads must share a tile evenly");
struct Held {
    Pack a[a_count], b[b_count];
};

__device__ __forceinline__ void fetch(Held& held, const Matrices& from, int start)
{
#pragma unroll
    for (int j = 0; j < a_count; ++j) {
        const int i = threadIdx.x + j * threads, row = from.first_row + i / (depth / pack);
        held.a[j] = row < from.m
            ? load(from.a + size_t(row) * from.n, start + i % (depth / pack) * pack, from.n, from.a_aligned)
            : Pack {};
    }
#pragma unroll
    for (int j = 0; j < b_count; ++j) {
        const int i = threadIdx.x + j * threads, row = start + i / (BLOCK_X / pack);
        held.b[j] = row < from.n
            ? load(from.b + size_t(row) * from.k, from.first_col + i % (BLOCK_X / pack) * pack, from.k, from.b_aligned)
            : Pack {};
    }
}

__device__ __forceinline__ void put(Tiles& tiles, const Held& held)
{
#pragma unroll
    for (int j = 0; j < a_count; ++j) {
        const int i = threadIdx.x + j * threads, row = i / (depth / pack), col = i % (depth / pack) * pack;
#pragma unroll
        for (int l = 0; l < pack; ++l)
            tiles.a[col + l][row] = held.a[j].values[l];
    }
#pragma unroll
    for (int j = 0; j < b_count; ++j) {
        const int i = threadIdx.x + j * threads;
        tiles.b[i / (BLOCK_X / pack)][i % (BLOCK_X / pack)] = held.b[j];
    }
}

__device__ __forceinline__ void multiply(scalar_t (&sums)[side][side], const Tiles& tiles)
{
    const int x = threadIdx.x % across, y = threadIdx.x / across * side;
#pragma unroll
    for (int d = 0; d < depth; ++d) {
        Pack left[groups], right[groups];
#pragma unroll
        for (int i = 0; i < groups; ++i) {
            left[i] = *reinterpret_cast<const Pack*>(&tiles.a[d][y + i * pack]);
            right[i] = tiles.b[d][x + i * across];
        }
#pragma unroll
        for (int i = 0; i < side; ++i)
#pragma unroll
            for (int j = 0; j < side; ++j)
                sums[i][j] += left[i / pack].values[i % pack] * right[j / pack].values[j % pack];
    }
}

__device__ __forceinline__ void store(const scalar_t (&sums)[side][side], scalar_t* c, const Matrices& of)
{
    const int x = threadIdx.x % across, y = threadIdx.x / across * side;
#pragma unroll
    for (int i = 0; i < side; ++i)
#pragma unroll
        for (int j = 0; j < side; ++j) {
            const int row = of.first_row + y + i, col = of.first_col + (x + j / pack * across) * pack + j % pack;
            if (row < of.m && col < of.k)
                c[size_t(row) * of.k + col] = sums[i][j];
        }
}

__device__ __forceinline__ Matrices matrices(const scalar_t* a, const scalar_t* b, int m, int n, int k)
{
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y, first_col = blockIdx.x * BLOCK_X;
    const bool a_aligned = n % pack == 0 && size_t(a) % 16 == 0, b_aligned = k % pack == 0 && size_t(b) % 16 == 0;
    return { a, b, m, n, k, first_row, first_col, a_aligned, b_aligned };
}
