// Matrix-vector product, a warp a row, loads of 16 bytes, several of them in flight a lane.
// Rows off 16 bytes are read by whole pieces too (pieces.h).
// Costs: A once; 5 loads of A in flight a lane; five shuffles a row. BLOCK_X rows a block.
// Share on an H200, predicted: 0.85 to 0.95; reached: 1.02 of a copy's bandwidth at 8192^2 (float32).

#include "pieces.h"

constexpr int in_flight = 5;

extern "C" __global__ void __launch_bounds__(BLOCK_X * 32)
matvec_vectorised(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m)
        return; // a whole warp
    scalar_t sum = sum_pieces<32, in_flight>(a + size_t(row) * n, x, n, lane);
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0)
        y[row] = sum;
}
