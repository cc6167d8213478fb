// 2-D convolution like naive.cu, with the filter in shared memory.
// The block loads the filter once, then every thread reads it from there; the image stays in global memory.
// Costs: K^2 elements of dynamic shared memory, so K is at most 110 for 4-byte elements in CUDA's 48 KiB;
// one barrier. A broadcast from shared memory is no cheaper than one from L1, so expect little gain.
// Share on an H200, predicted: as naive.cu; reached: 0.26, 0.14 of a copy's bandwidth at 10000^2, K = 3, 5 (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
conv2d_shared_filter(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    extern __shared__ scalar_t filter_tile[]; // k * k elements
    for (int i = threadIdx.y * BLOCK_X + threadIdx.x; i < k * k; i += BLOCK_X * BLOCK_Y)
        filter_tile[i] = filter[i];
    __syncthreads();

    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;

    scalar_t sum = 0;
    for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q)
            sum += filter_tile[p * k + q] * image[size_t(row + p) * columns + col + q];
    out[size_t(row) * out_columns + col] = sum;
}
