// Matrix product like tiled.cu, on Matrix structs: a tile is a view that shares its parent's stride.
// A view at the edge is narrower or lower than a tile, and reads as zeros beyond.
// Costs: as tiled.cu, plus the arithmetic of the views once a step.
// Share on an H200: 0.15 of cuBLAS at 2048^3 (float32).

struct Matrix {
    int width;
    int height;
    int stride; // elements from one row to the next
    scalar_t* data;

    // The part of at most rows x columns that starts at (row, col); empty where that lies outside.
    __device__ Matrix view(int row, int col, int rows, int columns) const
    {
        return {max(0, min(columns, width - col)), max(0, min(rows, height - row)), stride,
                data + size_t(row) * stride + col};
    }
    __device__ bool has(int row, int col) const { return row < height && col < width; }
    __device__ scalar_t& at(int row, int col) const { return data[size_t(row) * stride + col]; }
    __device__ scalar_t or_zero(int row, int col) const { return has(row, col) ? at(row, col) : scalar_t(0); }
};

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y) matmul_struct_tiled(Matrix a, Matrix b, Matrix c)
{
    __shared__ scalar_t a_tile[BLOCK_Y][BLOCK_X];
    __shared__ scalar_t b_tile[BLOCK_X][BLOCK_X];

    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int block_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y;
    const int block_col = blockIdx.x * BLOCK_X;
    const int x = threadIdx.x, y = threadIdx.y;

    scalar_t sum = 0;
    for (int start = 0; start < a.width; start += BLOCK_X) {
        const Matrix a_view = a.view(block_row, start, BLOCK_Y, BLOCK_X);
        const Matrix b_view = b.view(start, block_col, BLOCK_X, BLOCK_X);
        a_tile[y][x] = a_view.or_zero(y, x);
        for (int i = y; i < BLOCK_X; i += BLOCK_Y)
            b_tile[i][x] = b_view.or_zero(i, x);
        __syncthreads();
        for (int i = 0; i < BLOCK_X; ++i)
            sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    const Matrix c_view = c.view(block_row, block_col, BLOCK_Y, BLOCK_X);
    if (c_view.has(y, x))
        c_view.at(y, x) = sum;
}
