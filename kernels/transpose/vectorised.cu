// Transpose by loads and stores of 16 bytes, through a swizzled tile.
// A thread reads pieces of 16 bytes of rows of A, and writes pieces of 16 bytes of rows of B that it gathers from a
// column of the tile. Where rows are not aligned to 16 bytes, the pieces of float32 are, and reach over the tile's edge:
// what a block reads of a row of A begins up to three elements before the tile, and what it writes of a row of B begins
// and ends where sectors do. The edge of an array, and float64 that is not aligned, goes element by element.
// Costs: as swizzled.cu, with a quarter of its loads and stores from and to memory (half for float64). A tile that is not
// aligned reads a sector more of each column, and a piece more of each row.
// Share on an H200, predicted: 0.95 to 1.00; reached: 0.98 of a copy's bandwidth at 8192^2 (float32), 0.91 at
// 8191x8193.

constexpr int threads = 128, mask = BLOCK_X - 1, pack = 16 / sizeof(scalar_t), sector = 32 / sizeof(scalar_t);
constexpr int rows = BLOCK_Y + sector, step = threads / BLOCK_X, singles = (rows + step - 1) / step;
constexpr bool shifts = sizeof(scalar_t) == 4; // those of float64 would take 160 registers: tried, 0.58
static_assert((BLOCK_X & mask) == 0, "the exclusive or must stay within a row of the tile");
static_assert(threads % BLOCK_X == 0 && BLOCK_Y % 32 == 0, "a thread keeps its column, a warp its row of B");
struct alignas(16) Pack {
    scalar_t values[pack];
};

// Where the tile has column x of row y: pieces that are not aligned cross each other's banks least where four rows share
// one order.
template <bool aligned> __device__ __forceinline__ int place(int x, int y)
{
    return aligned ? (x ^ y) & mask : x ^ x >> 5 ^ (y >> 2 & 31) ^ (y & 1) * 2;
}

// L2 fetches the whole line of 128 bytes of which this is a part: the rest is wanted too, soon or by another block.
__device__ __forceinline__ Pack read_piece(const scalar_t* from)
{
    uint4 words;
    asm volatile("ld.global.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(from));
    return reinterpret_cast<const Pack&>(words);
}

template <bool aligned>
__device__ __forceinline__ void whole_tile(scalar_t (&tile)[rows][BLOCK_X], const scalar_t* a, scalar_t* b, int m, int n,
    int first_row, int first_col)
{
    constexpr int above = aligned ? 0 : sector, across = BLOCK_X / pack + !aligned, count = (BLOCK_Y + above) * across;
    constexpr int each = (count + threads - 1) / threads, down = BLOCK_Y / pack;
    Pack held[each];
#pragma unroll
    for (int i = 0; i < each; ++i) {
        const int index = i * threads + threadIdx.x, x = index % across * pack;
        const scalar_t* const from = a + size_t(first_row - above + index / across) * n + first_col;
        const int shift = aligned ? 0 : size_t(from) / sizeof(scalar_t) % pack;
        if (aligned || (index < count && x - shift < BLOCK_X))
            held[i] = read_piece(from + x - shift);
    }
#pragma unroll
    for (int i = 0; i < each; ++i) {
        const int index = i * threads + threadIdx.x, y = index / across;
        const scalar_t* const from = a + size_t(first_row - above + y) * n + first_col;
        const int x = index % across * pack - (aligned ? 0 : size_t(from) / sizeof(scalar_t) % pack);
#pragma unroll
        for (int j = 0; j < pack; ++j)
            if (aligned || (index < count && unsigned(x + j) < BLOCK_X))
                tile[y][place<aligned>(x + j, y)] = held[i].values[j];
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < BLOCK_X * down; i += threads) {
        const int x = i / down;
        scalar_t* to = b + size_t(first_col + x) * m + first_row;
        const int back = aligned ? 0 : size_t(to) / sizeof(scalar_t) % sector, y = i % down * pack + above - back;
        Pack gathered;
#pragma unroll
        for (int j = 0; j < pack; ++j)
            gathered.values[j] = tile[y + j][place<aligned>(x, y + j)];
        *reinterpret_cast<Pack*>(to - above + y) = gathered;
    }
}

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
        whole_tile<true>(tile, a, b, m, n, first_row, first_col);
        return;
    }
    if (shifts && !aligned && first_row > 0 && first_row + BLOCK_Y < m && first_col + BLOCK_X <= n) {
        whole_tile<false>(tile, a, b, m, n, first_row, first_col);
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
            tile[y][place<true>(col, y)] = single[i];
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
                line[lane - back + i * 32] = tile[y + i * 32][place<true>(x, y + i * 32)];
    }
}
