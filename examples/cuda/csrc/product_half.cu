// C = A B with float16 inputs and float32 sums, row-major: A is m x k, B is k x n. C is float16 or float32.
// A block computes a tile of C, BLOCK_Y * MICRO rows by BLOCK_X * MICRO columns, a thread MICRO x MICRO elements of it in
// registers. Pieces of A and B, DEPTH deep, lie in shared memory as float32, so they are converted once for a whole tile,
// A's transposed: a thread then reads four neighbours of either by one load of 16 bytes.
// Costs: A once for each tile of columns and B once for each tile of rows; two barriers for each DEPTH; MICRO / 2 loads
// from shared memory for MICRO^2 fused multiply-adds. It uses no tensor cores, which are ten times as fast.
// Limits: 65,535 tiles of rows; MICRO is a multiple of 4.

#include <cuda_fp16.h>

constexpr int DEPTH = 16, TILE_M = BLOCK_Y * MICRO, TILE_N = BLOCK_X * MICRO, THREADS = BLOCK_X * BLOCK_Y;

// Where element i of a thread's MICRO lies in its tile: in groups of four, which are a block of threads apart.
template <int threads> __device__ int place(int i, int thread) { return (i / 4 * threads + thread) * 4 + i % 4; }

extern "C" __global__ void __launch_bounds__(THREADS, 2)
product_half_tiled(const __half* a, const __half* b, scalar_t* c, int m, int n, int k)
{
    __shared__ __align__(16) float a_piece[DEPTH][TILE_M + 4], b_piece[DEPTH][TILE_N];
    const size_t top = size_t(blockIdx.y) * TILE_M, left = size_t(blockIdx.x) * TILE_N;
    const int thread = threadIdx.y * BLOCK_X + threadIdx.x;

    float sums[MICRO][MICRO] = {};
    for (size_t deep = 0; deep < k; deep += DEPTH) {
#pragma unroll
        for (int i = thread; i < TILE_M * DEPTH; i += THREADS) {
            const size_t row = top + i / DEPTH, column = deep + i % DEPTH;
            a_piece[i % DEPTH][i / DEPTH] = row < m && column < k ? float(a[row * k + column]) : 0.0f;
        }
#pragma unroll
        for (int i = thread; i < DEPTH * TILE_N; i += THREADS) {
            const size_t row = deep + i / TILE_N, column = left + i % TILE_N;
            b_piece[i / TILE_N][i % TILE_N] = row < k && column < n ? float(b[row * n + column]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            float a_part[MICRO], b_part[MICRO];
#pragma unroll
            for (int i = 0; i < MICRO; ++i) {
                a_part[i] = a_piece[d][place<BLOCK_Y>(i, threadIdx.y)];
                b_part[i] = b_piece[d][place<BLOCK_X>(i, threadIdx.x)];
            }
#pragma unroll
            for (int i = 0; i < MICRO; ++i)
#pragma unroll
                for (int j = 0; j < MICRO; ++j)
                    sums[i][j] += a_part[i] * b_part[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < MICRO; ++i)
#pragma unroll
        for (int j = 0; j < MICRO; ++j) {
            const size_t row = top + place<BLOCK_Y>(i, threadIdx.y), column = left + place<BLOCK_X>(j, threadIdx.x);
            if (row < m && column < n)
                c[row * n + column] = scalar_t(sums[i][j]);
        }
}
