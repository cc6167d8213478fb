// Transpose by loads and stores of 16 bytes, through a padded tile.
// A thread reads pieces of 16 bytes of rows of A, and writes pieces of 16 bytes of rows of B that it gathers from a
// column of the tile. Where rows are not aligned, the pieces are: what a block reads of a row of A begins less than a
// piece before the tile, and what it writes of a row of B begins and ends where sectors of 32 bytes do, because a part of
// one costs as much as two. So the tile has a piece more of each row, and the rows of a sector above it.
// A thread goes on by so many rows that the next begins as far past a multiple of 16 bytes (of B: of 32) as this one: its
// places in the tile, and what it shifts by, are computed once.
// Costs: (BLOCK_Y + sector) (BLOCK_X + 5) elements of float32 in shared memory, bank conflicts of two (32x128: four), one
// barrier. Off 16 bytes, a 64x64 block of float32 reads 9 sectors of 72 rows in place of 8 of 64, the others' from L2.
// Share on an H200, predicted: 0.95 to 1.00; reached: 0.98 of a copy's bandwidth at 8192^2 (float32), 0.92 at
// 8191x8193.

constexpr int threads = THREADS, pack = 16 / sizeof(scalar_t), sector = 32 / sizeof(scalar_t);
constexpr int across = BLOCK_X / pack, down = BLOCK_Y / pack, rows = BLOCK_Y + sector; // pieces of a row of A and of B
constexpr int pitch = across + 1, step = threads / across, lines = threads / down; // lines: rows of B at once
static_assert(step % pack == 0 && lines % sector == 0, "a thread's rows begin equally far past a piece or a sector");
static_assert(BLOCK_X % lines == 0, "all threads write as many pieces");
struct alignas(16) Pack {
    scalar_t values[pack];
};

struct Tile {
    int top, first_row, first_col; // `top`: the row of A that is row 0 of the tile; its own begin a sector later
    bool shifted;                  // rows of B do not all begin where sectors do
    unsigned origin;               // the place of the tile's first element in memory, counted in elements

    // How far an element of row y of the tile is behind where it would be, were A aligned.
    __device__ __forceinline__ int shift(int y, int n) const { return (origin + unsigned(y) * n) % pack; }
};

// The next `pack` rows are a piece further apart, so that the pieces of a column lie in different banks.
__device__ __forceinline__ int place(int y) { return y * pitch + y / pack; }

// L2 fetches the whole line of 128 bytes of which this is a part: the rest is wanted too, soon or by another block.
__device__ __forceinline__ Pack read_piece(const scalar_t* from)
{
    uint4 words;
    asm volatile("ld.global.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(from));
    return reinterpret_cast<const Pack&>(words);
}

// The piece at column `x` of row `y` of the tile, or what of it belongs to A. It may reach into the rows beside it, and
// whole rows of the tile may lie before or behind A.
template <bool inner>
__device__ __forceinline__ void read(Pack& piece, const scalar_t* a, int m, int n, const Tile& tile, int y, int x)
{
    if (!inner && x >= n - tile.first_col)
        return;
    const scalar_t *const from = a + (ptrdiff_t(tile.top) + y) * n + tile.first_col + x, *const end = a + size_t(m) * n;
    if (inner || (from >= a && from + pack <= end))
        piece = read_piece(from);
    else
#pragma unroll
        for (int j = 0; j < pack; ++j)
            if (from + j >= a && from + j < end)
                piece.values[j] = from[j];
}

template <bool inner>
__device__ __forceinline__ void fill(Pack* pieces, const scalar_t* a, int m, int n, const Tile& tile)
{
    constexpr int count = (rows + step - 1) / step, ends = (rows + threads - 1) / threads;
    const int t = threadIdx.x, x = t % across, first = tile.shifted ? 0 : sector;
    Pack held[count] = {}, last[ends] = {};
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const int y = t / across + i * step;
        if ((i * step >= sector || y >= first) && ((i + 1) * step <= rows || y < rows))
            read<inner>(held[i], a, m, n, tile, y, x * pack - tile.shift(t / across, n));
    }
#pragma unroll
    for (int i = 0; i < ends; ++i) {
        const int y = t + i * threads, shift = tile.shift(y, n);
        if (shift && y >= first && y < rows)
            read<inner>(last[i], a, m, n, tile, y, BLOCK_X - shift);
    }
#pragma unroll
    for (int i = 0; i < count; ++i)
        if ((i + 1) * step <= rows || t / across + i * step < rows)
            pieces[place(t / across) + place(i * step) + x] = held[i];
#pragma unroll
    for (int i = 0; i < ends; ++i)
        if (t + i * threads < rows)
            pieces[place(t + i * threads) + across] = last[i];
}

// The pieces of B that begin at row `y` of the tile: those of one thread.
template <bool inner>
__device__ __forceinline__ void write(const Pack* pieces, scalar_t* b, int m, int n, const Tile& tile, int x, int y)
{
    const int row = tile.top + y, width = n - tile.first_col;
    const scalar_t* column[pack];
#pragma unroll
    for (int j = 0; j < pack; ++j)
        column[j] = pieces[place(y + j)].values + x + tile.shift(y + j, n);
#pragma unroll
    for (int i = 0; i < BLOCK_X; i += lines) {
        scalar_t* const to = b + size_t(tile.first_col + x + i) * m + row;
        if (!inner && x + i >= width)
            break;
        if (inner || (row >= 0 && row <= m - pack && y + pack <= rows)) {
            Pack gathered;
#pragma unroll
            for (int j = 0; j < pack; ++j)
                gathered.values[j] = column[j][i];
            *reinterpret_cast<Pack*>(to) = gathered;
        } else
#pragma unroll
            for (int j = 0; j < pack; ++j)
                if (row + j >= 0 && row + j < m && y + j < rows)
                    to[j] = column[j][i];
    }
}

template <bool inner>
__device__ __forceinline__ void transpose(Pack* pieces, const scalar_t* a, scalar_t* b, int m, int n, const Tile& tile)
{
    fill<inner>(pieces, a, m, n, tile);
    __syncthreads();
    const int x = threadIdx.x / down, y = threadIdx.x % down * pack + sector;
    const scalar_t* const line = b + size_t(tile.first_col + x) * m + tile.first_row;
    const int back = size_t(line) / sizeof(scalar_t) % sector;
    write<inner>(pieces, b, m, n, tile, x, y - back);
    if (!inner && tile.first_row >= m - BLOCK_Y && y < 2 * sector && back > y - sector) // the last block goes to the end
        write<inner>(pieces, b, m, n, tile, x, y - back + BLOCK_Y);
}

extern "C" __global__ void __launch_bounds__(threads, 512 / threads)
transpose_vectorised(const scalar_t* a, scalar_t* b, int m, int n)
{
    __shared__ Pack pieces[rows * pitch + rows / pack];

    // Blocks past gridDim.y's limit of 65,535 continue in z. Down the rows of A first: blocks that run at the same time
    // write side by side, and read what lies far apart.
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned tile_rows = (m + BLOCK_Y - 1u) / BLOCK_Y;
    const int first_row = block % tile_rows * BLOCK_Y, first_col = block / tile_rows * BLOCK_X, top = first_row - sector;
    const unsigned origin = unsigned(size_t(a) / sizeof(scalar_t)) + unsigned(top) * n + first_col;
    const Tile tile = { top, first_row, first_col, m % sector != 0 || size_t(b) % 32 != 0, origin };
    if (first_row > 0 && first_row < m - BLOCK_Y && first_col <= n - BLOCK_X)
        transpose<true>(pieces, a, b, m, n, tile);
    else
        transpose<false>(pieces, a, b, m, n, tile);
}
