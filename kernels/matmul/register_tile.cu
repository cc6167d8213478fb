// Matrix product, tiles in shared memory, 8 x 8 elements of C a thread.
// Sixteen reads from shared memory serve 64 products. A thread's columns lie BLOCK_X / 8 apart, so that
// neighbouring threads read neighbouring elements of B's tile and write neighbouring elements of C.
// Costs: 64 sums in registers a thread; 8 (BLOCK_X + BLOCK_Y) elements of shared memory; two barriers for every 8
// columns of A.
// Share on an H200, predicted: 0.50 to 0.65; reached: 0.49 of cuBLAS at 4096^3 (float32).

constexpr int depth = 8, side = 8, threads = BLOCK_X * BLOCK_Y / (side * side), across = BLOCK_X / side;
// The whole loop takes 129 registers, one more than eight resident blocks of 64 threads leave to each: by 4 it gained 20
// to 34 % on an H200.
constexpr int unrolled = threads == 64 && sizeof(scalar_t) == 4 ? 4 : depth;

extern "C" __global__ void __launch_bounds__(threads)
matmul_register_tile(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    __shared__ scalar_t a_tile[BLOCK_Y][depth], b_tile[depth][BLOCK_X];

    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y, first_col = blockIdx.x * BLOCK_X;
    const int x = threadIdx.x % across, y = threadIdx.x / across * side;
    scalar_t sums[side][side] = {};
    for (int start = 0; start < n; start += depth) {
        for (int i = threadIdx.x; i < BLOCK_Y * depth; i += threads) {
            const int row = first_row + i / depth, col = start + i % depth;
            a_tile[i / depth][i % depth] = row < m && col < n ? a[size_t(row) * n + col] : scalar_t(0);
        }
        for (int i = threadIdx.x; i < BLOCK_X * depth; i += threads) {
            const int row = start + i / BLOCK_X, col = first_col + i % BLOCK_X;
            b_tile[i / BLOCK_X][i % BLOCK_X] = row < n && col < k ? b[size_t(row) * k + col] : scalar_t(0);
        }
        __syncthreads();
#pragma unroll unrolled
        for (int d = 0; d < depth; ++d) {
            scalar_t left[side], right[side];
#pragma unroll
            for (int i = 0; i < side; ++i) {
                left[i] = a_tile[y + i][d];
                right[i] = b_tile[d][x + i * across];
            }
#pragma unroll
            for (int i = 0; i < side; ++i)
#pragma unroll
                for (int j = 0; j < side; ++j)
                    sums[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < side; ++i)
#pragma unroll
        for (int j = 0; j < side; ++j) {
            const int row = first_row + y + i, col = first_col + x + j * across;
            if (row < m && col < k)
                c[size_t(row) * k + col] = sums[i][j];
        }
}
