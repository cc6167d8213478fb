// How columns.cu, paired.cu and separable/columns.cu go down an image: four neighbouring columns a thread, some rows on
// their way while one is added up. Rows of the image are read, and rows of outputs written, by pieces of 16 bytes. Where
// the rows of the image do not all start at multiples of that, they are read pixel by pixel, and what a warp has done of
// a row goes through shared memory, so that it is written side by side, each store from the start of a sector of 32
// bytes: a part of one costs as much as two.

#pragma once

constexpr int each = 4, threads = BLOCK_X / each, sector = 32 / sizeof(scalar_t);
struct alignas(16) Pack {
    scalar_t values[each];
};
struct alignas(8) Half {
    scalar_t values[each / 2];
};

// A compiler that puts off the old sum, as it may with integers, needs a register more for each and moves them all.
__device__ __forceinline__ void in_order(unsigned& sum)
{
    asm("" : "+r"(sum));
}
__device__ __forceinline__ void in_order(float&) { }

// `count` pieces of a row from `pixels` on; there are `left` pixels, and what is beyond them stays what it was.
template <bool aligned, int count>
__device__ __forceinline__ void read_row(Pack (&values)[count], const scalar_t* pixels, int left)
{
#pragma unroll
    for (int i = 0; i < count; ++i) {
        if (aligned) {
            if (i * each < left)
                values[i] = reinterpret_cast<const Pack*>(pixels)[i];
        } else {
#pragma unroll
            for (int j = 0; j < each; ++j)
                if (i * each + j < left)
                    values[i].values[j] = pixels[i * each + j];
        }
    }
}

// A warp's row of outputs, of which there are `count`, from `result` on; `spot` is the warp's own.
__device__ __forceinline__ void write_row(scalar_t* result, const scalar_t (&sums)[each], Pack* spot, int count)
{
    const int lane = threadIdx.x % 32;
    Pack full;
#pragma unroll
    for (int i = 0; i < each; ++i)
        full.values[i] = sums[i];
    spot[lane] = full;
    __syncwarp();
    const int first = lane - int(size_t(result) / sizeof(scalar_t) % sector);
    const scalar_t* const from = spot->values + first;
    scalar_t* const to = result + first;
#pragma unroll
    for (int i = 0; i <= each; ++i)
        if ((i > 0 || first >= 0) && first < count - i * 32)
            to[i * 32] = from[i * 32];
}

// A thread's outputs of a row, `left` of which are inside, to `result`. That is at a multiple of 16 bytes, or between two
// of them (`between`): then a piece of 16 bytes has a thread's last two and the next thread's first two.
__device__ __forceinline__ void write_aligned(scalar_t* result, const scalar_t (&sums)[each], int left, bool between)
{
    const int lane = threadIdx.x % 32;
    const bool first = between ? lane == 0 : left > 0 && left < each, last = between && left >= each;
    const bool whole = between ? lane < 31 && left > each : left >= each;
    const int after = between ? each / 2 : 0;
    Pack pack;
#pragma unroll
    for (int i = 0; i < each; ++i)
        pack.values[i] = i + after < each ? sums[(i + after) % each] : __shfl_down_sync(~0u, sums[(i + after) % each], 1);
    if (whole)
        *reinterpret_cast<Pack*>(result + after) = pack;
    if (first)
        *reinterpret_cast<Half*>(result) = { sums[0], sums[1] };
    if (last && !whole)
        *reinterpret_cast<Half*>(result + 2) = { sums[2], sums[3] };
}

// Calls add_row(sums, pieces of a row) for each row of the image that BLOCK_Y rows of outputs need. sums[p] are those
// that row p of the filter falls on: add_row makes sums[p] of the old sums[p - 1], so that nothing moves.
template <int K, bool aligned, bool whole, int ahead, class AddRow>
__device__ __forceinline__ void slide(const scalar_t* image, scalar_t* out, int rows, int columns, AddRow add_row)
{
    static_assert(ahead % 2 == 0 && BLOCK_Y % 2 == 0 && K % 2, "of two rows one is between pieces of 16 bytes, or none");
    __shared__ Pack done[2][threads]; // two rows, so that one barrier a row is enough
    const int out_rows = rows - K + 1, out_columns = columns - K + 1, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y;
    const int first_col = blockIdx.x * BLOCK_X + warp * 32 * each, col = first_col + lane * each; // of the warp, the lane
    if (first_col >= out_columns || first_row >= out_rows)
        return; // a whole warp
    // Rows of the image; of a whole block from 0 on, so that a compiler knows all of them.
    const int first = whole ? 0 : first_row, end = (whole ? BLOCK_Y : min(first_row + BLOCK_Y, out_rows)) + K - 1;
    const int left = columns - col, count = min(32 * each, out_columns - first_col);
    const scalar_t* pixels = image + size_t(first_row) * columns + col;
    scalar_t* result = out + size_t(first_row) * out_columns + (aligned ? col : first_col);
    constexpr int groups = whole ? (BLOCK_Y + K - 1 + ahead - 1) / ahead : 1; // of rows, that are unrolled
    scalar_t sums[K][each] = {};
    Pack coming[ahead][(K + each - 1 + each - 1) / each] = {};
#pragma unroll
    for (int j = 0; j < ahead; ++j, pixels += columns)
        read_row<aligned>(coming[j], pixels, first + j < end ? left : 0);
#pragma unroll(groups)
    for (int row = first; row < end; row += ahead) {
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
            if (row + j >= end)
                break;
            add_row(sums, coming[j]);
            read_row<aligned>(coming[j], pixels, row + j + ahead < end ? left : 0);
            pixels += columns;
            if (row + j < first + K - 1)
                continue;
            if (aligned) // the row of outputs is odd where j is: BLOCK_Y, `ahead` and K - 1 are even
                write_aligned(result, sums[K - 1], out_columns - col, (K - 1) % each && j % 2);
            else
                write_row(result, sums[K - 1], &done[j % 2][warp * 32], count);
            result += out_columns;
        }
    }
}

// Rows on their way (`ahead`): more hide more of memory's latency, and take registers from other warps (tried: 2 to 12).
// `straight`: where rows are aligned, a block that has all its BLOCK_Y rows is straight code, from which a compiler leaves
// out products of the filter's rows that fall outside the block. The code grows with BLOCK_Y: for few rows.
template <int K, bool straight = false, int ahead = K < 5 ? 10 : K < 7 ? 8 : 6, class AddRow>
__device__ __forceinline__ void slide(const scalar_t* image, scalar_t* out, int rows, int columns, AddRow add_row)
{
    constexpr int otherwise = straight ? 4 : ahead; // a loop needs more registers than straight code
    if (columns % each || (size_t(image) | size_t(out)) % 16)
        slide<K, false, false, otherwise>(image, out, rows, columns, add_row);
    else if (straight && (blockIdx.z * gridDim.y + blockIdx.y + 1) * BLOCK_Y <= rows - K + 1)
        slide<K, true, true, ahead>(image, out, rows, columns, add_row);
    else
        slide<K, true, false, otherwise>(image, out, rows, columns, add_row);
}
