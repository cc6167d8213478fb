// 2-D convolution, a window as in window.cu, four neighbouring columns a thread, rows read by pieces of 16 bytes.
// K + 3 pixels of a row serve four outputs, so the cache is read a quarter as often; the next row is on its way while
// this one is added up. What a warp has done of a row goes through shared memory, so that it is written side by side,
// each store from the start of a sector of 32 bytes: a part of one costs as much as two. Rows of the image that do not
// all start at multiples of 16 bytes are read pixel by pixel. K = 3, 5 and 7 are unrolled; conv2d_columns takes any
// other K and goes as naive.cu does.
// Costs: (K + 3) (1 + (K - 1) / BLOCK_Y) / 4 reads from the cache an output; K^2 + 4 K + 2 (K + 3) registers or so; a
// row of a block's outputs in shared memory.
// Reached on an H200: 0.83, 0.71, 0.52 of a copy's bandwidth at 8192^2, K = 3, 5, 7 (float32).

constexpr int each = 4, threads = BLOCK_X / each, sector = 32 / sizeof(scalar_t);
struct alignas(16) Pack {
    scalar_t values[each];
};

template <int count> __device__ __forceinline__ void read_row(
    Pack (&values)[count], const scalar_t* row, int col, int columns, bool aligned)
{
#pragma unroll
    for (int i = 0; i < count; ++i) {
        if (aligned && col + i * each < columns) {
            values[i] = *reinterpret_cast<const Pack*>(row + col + i * each);
        } else {
#pragma unroll
            for (int j = 0; j < each; ++j)
                values[i].values[j] = col + i * each + j < columns ? row[col + i * each + j] : scalar_t(0);
        }
    }
}

template <int K> __device__ __forceinline__ void slide(const scalar_t* __restrict__ image,
    const scalar_t* __restrict__ filter, scalar_t* __restrict__ out, int rows, int columns)
{
    __shared__ Pack done[threads];
    const int out_rows = rows - K + 1, out_columns = columns - K + 1, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y;
    const int first_col = blockIdx.x * BLOCK_X + warp * 32 * each, col = first_col + lane * each; // of the warp, the lane
    if (first_col >= out_columns || first_row >= out_rows)
        return; // a whole warp
    scalar_t weights[K][K], sums[K][each] = {};
#pragma unroll
    for (int p = 0; p < K; ++p)
#pragma unroll
        for (int q = 0; q < K; ++q)
            weights[p][q] = filter[p * K + q];

    constexpr int packs = (K + each - 1 + each - 1) / each;
    const bool aligned = columns % each == 0 && size_t(image) % 16 == 0;
    const int end = min(first_row + BLOCK_Y, out_rows) + K - 1; // of the rows of the image
    const scalar_t* pixels = image + size_t(first_row) * columns;
    scalar_t* result = out + size_t(first_row) * out_columns + first_col;
    const scalar_t* mine = &done[warp * 32].values[0];
    Pack now[packs], next[packs];
    read_row(next, pixels, col, columns, aligned);
    // Row `row + j` of the image goes into outputs row + j - p; which sums are whose turns round with j.
    for (int row = first_row; row < end; row += K) {
#pragma unroll
        for (int j = 0; j < K; ++j) {
            if (row + j >= end)
                break;
#pragma unroll
            for (int i = 0; i < packs; ++i)
                now[i] = next[i];
            pixels += columns;
            if (row + j + 1 < end)
                read_row(next, pixels, col, columns, aligned);
#pragma unroll
            for (int p = 0; p < K; ++p)
#pragma unroll
                for (int q = 0; q < K; ++q)
#pragma unroll
                    for (int i = 0; i < each; ++i)
                        sums[(j - p + K) % K][i] += weights[p][q] * now[(i + q) / each].values[(i + q) % each];
            scalar_t(&full)[each] = sums[(j + 1) % K];
            if (row + j >= first_row + K - 1) {
                Pack pack;
#pragma unroll
                for (int i = 0; i < each; ++i)
                    pack.values[i] = full[i];
                done[threadIdx.x] = pack;
                __syncwarp();
                const int off = int(size_t(result) / sizeof(scalar_t) % sector);
#pragma unroll
                for (int i = 0; i <= each; ++i) {
                    const int place = i * 32 + lane - off;
                    if (place >= 0 && place < 32 * each && first_col + place < out_columns)
                        result[place] = mine[place];
                }
                __syncwarp();
                result += out_columns;
            }
#pragma unroll
            for (int i = 0; i < each; ++i)
                full[i] = 0;
        }
    }
}

#define CONV2D_COLUMNS(K) \
    extern "C" __global__ void __launch_bounds__(threads) conv2d_columns_##K( \
        const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int) \
    { \
        slide<K>(image, filter, out, rows, columns); \
    }
CONV2D_COLUMNS(3)
CONV2D_COLUMNS(5)
CONV2D_COLUMNS(7)

extern "C" __global__ void __launch_bounds__(threads)
conv2d_columns(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y;
    const int last_col = min((blockIdx.x + 1) * BLOCK_X, out_columns);
    for (int col = blockIdx.x * BLOCK_X + threadIdx.x; col < last_col; col += threads)
        for (int row = first_row; row < min(first_row + BLOCK_Y, out_rows); ++row) {
            scalar_t sum = 0;
            for (int p = 0; p < k; ++p)
                for (int q = 0; q < k; ++q)
                    sum += filter[p * k + q] * image[size_t(row + p) * columns + col + q];
            out[size_t(row) * out_columns + col] = sum;
        }
}
