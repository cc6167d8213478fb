// Transpose by loads and stores of 16 bytes, through a swizzled tile.
// A thread reads pieces of 16 bytes of rows of A, and writes pieces of 16 bytes of rows of B that it gathers from a
// column of the tile. Whole tiles of arrays whose rows all start at multiples of 16 bytes go that way; the edge, and
// every other array, goes element by element, each store of a warp on whole sectors of memory.
// Costs: as swizzled.cu, with a quarter of its loads and stores from and to memory (half for float64).
// Share on an H200, predicted: 0.95 to 1.00; reached: 0.97 of a copy's bandwidth at 8192^2 (float32), 0.88 at
// 8191x8193.

constexpr int threads = 128, mask = BLOCK_X - 1, pack = 16 / sizeof(scalar_t), sector = 32 / sizeof(scalar_t);
constexpr int rows = BLOCK_Y + sector, step = threads / BLOCK_X, singles = (rows + step - 1) / step;
static_assert((BLOCK_X & mask) == 0, "the exclusive or must stay within a row of the tile");
static_assert(threads % BLOCK_X == 0 && BLOCK_Y % 32 == 0, "a thread keeps its column, a warp its row of B");
struct alignas(16) Pack {
    scalar_t values[pack];
};

extern "C" __global__ void __launch_bounds__(threads)
transpose_vectorised(const scalar_t* a, scalar_t* b, int m, int n)
{
    __shared__ scalar_t tile[rows][BLOCK_X];

    // Blocks past gridDim.y's limit of 65,535 continue in z. Down the rows of A first: blocks that run at the same time
    // write side by side, and read what lies far apart.
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned tile_rows = (m + BLOCK_Y - 1u) / BLOCK_Y;
    const int first_row = block % tile_rows * BLOCK_Y, first_col = block / tile_rows * BLOCK_X;
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
    // Memory is written in sectors of 32 bytes, and a part of one costs as much as two. So what a block writes of a row
    // of B begins and ends where sectors do: up to a sector less one element before the tile, and as much before its end.
    // The tile has that many more rows above it; the last block of a row goes on to the row's end.
    const int col = threadIdx.x % BLOCK_X, top = first_row - sector;
    const scalar_t* from = a + (ptrdiff_t(top) + threadIdx.x / BLOCK_X) * n + first_col + col;
    scalar_t single[singles];
#pragma unroll
    for (int i = 0; i < singles; ++i, from += size_t(step) * n) {
        const int y = i * step + threadIdx.x / BLOCK_X;
        const bool inside = unsigned(top + y) < unsigned(m) && first_col + col < n && (rows % step == 0 || y < rows);
        single[i] = inside ? *from : scalar_t(0);
    }
#pragma unroll
    for (int i = 0; i < singles; ++i) {
        const int y = i * step + threadIdx.x / BLOCK_X;
        if (rows % step == 0 || y < rows)
            tile[y][(col ^ y) & mask] = single[i];
    }
    __syncthreads();
    const int lane = threadIdx.x % 32, lines = min(BLOCK_X, n - first_col);
    const int first = max(0, sector - first_row), end = min(rows, m - top); // of the tile's rows, those of A
    const int pieces = BLOCK_Y / 32 + (first_row + BLOCK_Y >= m);
    for (int x = threadIdx.x / 32; x < lines; x += threads / 32) {
        scalar_t* const line = b + size_t(first_col + x) * m + first_row;
        const int back = aligned ? 0 : int(size_t(line) / sizeof(scalar_t) % sector), y = lane + sector - back;
#pragma unroll
        for (int i = 0; i <= BLOCK_Y / 32; ++i)
            if (i < pieces && y + i * 32 >= first && y + i * 32 < end)
                line[lane - back + i * 32] = tile[y + i * 32][(x ^ (y + i * 32)) & mask];
    }
}
