// Transpose by loads and stores of 16 bytes, through a swizzled tile.
// A thread reads pieces of 16 bytes of rows of A, and writes pieces of 16 bytes of rows of B that it gathers from a
// column of the tile. Whole tiles of arrays whose rows all start at multiples of 16 bytes go that way; the edge, and
// every other array, goes element by element, each store of a warp on whole sectors of memory.
// Costs: as swizzled.cu, with a quarter of its loads and stores from and to memory (half for float64).
// Reached on an H200: 0.95 of a copy's bandwidth at 8192^2 (float32).

constexpr int threads = 256, mask = BLOCK_X - 1, pack = 16 / sizeof(scalar_t), sector = 32 / sizeof(scalar_t);
constexpr int singles = BLOCK_X * BLOCK_Y / threads;
static_assert((BLOCK_X & mask) == 0, "the exclusive or must stay within a row of the tile");
struct alignas(16) Pack {
    scalar_t values[pack];
};

extern "C" __global__ void __launch_bounds__(threads)
transpose_vectorised(const scalar_t* a, scalar_t* b, int m, int n)
{
    __shared__ scalar_t tile[BLOCK_Y][BLOCK_X];

    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y, first_col = blockIdx.x * BLOCK_X;
    const bool aligned = m % pack == 0 && n % pack == 0 && (size_t(a) | size_t(b)) % 16 == 0;
    if (aligned && first_row + BLOCK_Y <= m && first_col + BLOCK_X <= n) {
        constexpr int across = BLOCK_X / pack, down = BLOCK_Y / pack, each = across * BLOCK_Y / threads;
        Pack held[each];
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const int y = (i * threads + threadIdx.x) / across, x = (i * threads + threadIdx.x) % across;
            held[i] = reinterpret_cast<const Pack*>(a + size_t(first_row + y) * n + first_col)[x];
        }
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const int y = (i * threads + threadIdx.x) / across, x = (i * threads + threadIdx.x) % across;
#pragma unroll
            for (int j = 0; j < pack; ++j)
                tile[y][((x * pack + j) ^ y) & mask] = held[i].values[j];
        }
        __syncthreads();
#pragma unroll
        for (int i = threadIdx.x; i < BLOCK_X * down; i += threads) {
            const int x = i / down, y = i % down * pack;
            Pack gathered;
#pragma unroll
            for (int j = 0; j < pack; ++j)
                gathered.values[j] = tile[y + j][(x ^ (y + j)) & mask];
            reinterpret_cast<Pack*>(b + size_t(first_col + x) * m + first_row)[i % down] = gathered;
        }
        return;
    }
    scalar_t single[singles];
#pragma unroll
    for (int i = 0; i < singles; ++i) {
        const int y = (i * threads + threadIdx.x) / BLOCK_X, x = (i * threads + threadIdx.x) % BLOCK_X;
        const bool inside = first_row + y < m && first_col + x < n;
        single[i] = inside ? a[size_t(first_row + y) * n + first_col + x] : scalar_t(0);
    }
#pragma unroll
    for (int i = 0; i < singles; ++i) {
        const int y = (i * threads + threadIdx.x) / BLOCK_X, x = (i * threads + threadIdx.x) % BLOCK_X;
        tile[y][(x ^ y) & mask] = single[i];
    }
    __syncthreads();
    // Memory is written in sectors of 32 bytes, and a part of one costs as much as two. So the threads that write a row
    // of B step back by as much as its start is off, and each store of a warp begins where a sector does.
    constexpr int tall = BLOCK_Y + sector;
    for (int i = threadIdx.x; i < BLOCK_X * tall; i += threads) {
        const int x = i / tall;
        const size_t start = size_t(first_col + x) * m + first_row;
        const int y = i % tall - int((size_t(b) / sizeof(scalar_t) + start) % sector);
        if (y >= 0 && y < BLOCK_Y && first_row + y < m && first_col + x < n)
            b[start + y] = tile[y][(x ^ y) & mask];
    }
}
