// Matrix-vector product, a block a row: a row is split among BLOCK_X / 32 warps, loads of 16 bytes.
// For matrices of few rows, where a warp a row leaves most of the machine idle; with rows enough it costs a barrier
// and nothing else. Rows off 16 bytes are read by whole pieces too (pieces.h).
// Costs: A once; 5 loads of A in flight a lane; one sum of a warp in shared memory each, one barrier.
// Share on an H200, predicted: 0.90 to 0.98; reached: 1.03 of a copy's bandwidth at 8192^2 (float32).

#include "pieces.h"

constexpr int in_flight = 5, warps = BLOCK_X / 32;

extern "C" __global__ void __launch_bounds__(BLOCK_X)
matvec_split(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    __shared__ scalar_t partial[warps];
    const int row = blockIdx.x, thread = threadIdx.x;
    scalar_t sum = sum_pieces<BLOCK_X, in_flight>(a + size_t(row) * n, x, n, thread);
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (thread % 32 == 0)
        partial[thread / 32] = sum;
    __syncthreads();
    if (thread == 0) {
        for (int warp = 1; warp < warps; ++warp)
            sum += partial[warp];
        y[row] = sum;
    }
}
