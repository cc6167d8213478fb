// Matrix product of half-precision elements, tiles of A and B in shared memory, float32 sums.
// As matmul/tiled.cu: every element that a block loads serves a whole row or column of its threads.
// Costs: BLOCK_X (BLOCK_X + BLOCK_Y) elements of shared memory; two barriers a step.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
matmul_half_tiled(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    __shared__ scalar_t a_tile[BLOCK_Y][BLOCK_X], b_tile[BLOCK_X][BLOCK_X];

    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;

    float sum = 0;
    for (int start = 0; start < n; start += BLOCK_X) {
        const int a_col = start + threadIdx.x;
        a_tile[threadIdx.y][threadIdx.x] = row < m && a_col < n ? a[size_t(row) * n + a_col] : scalar_t(0.0f);
        for (int i = threadIdx.y; i < BLOCK_X; i += BLOCK_Y) {
            const int b_row = start + i;
            b_tile[i][threadIdx.x] = b_row < n && col < k ? b[size_t(b_row) * k + col] : scalar_t(0.0f);
        }
        __syncthreads();
        for (int i = 0; i < BLOCK_X; ++i)
            sum += float(a_tile[threadIdx.y][i]) * float(b_tile[i][threadIdx.x]);
        __syncthreads();
    }
    if (row < m && col < k)
        c[size_t(row) * k + col] = scalar_t(sum);
}
