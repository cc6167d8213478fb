// y = A x with A sparse, in compressed rows: row i has values[row_start[i]] to values[row_start[i + 1] - 1].
// A warp a row: its lanes read 32 neighbouring values and columns at a time, and add up by shuffles.
// Costs: values and columns once, 8 bytes a row for row_start; x by 4 bytes each, from L2 where it fits there, and a
// sector of 32 bytes for each of them.
// Limits: rows with far fewer than 32 values leave lanes idle; one row that is much longer than all others keeps its
// warp busy alone. 2^31 - 1 columns; any number of values, since row_start has 64 bits.

#include "reduce.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_X)
spmv_warp(const long long* row_start, const int* columns, const float* values, const float* x, float* y, int rows)
{
    const size_t row = (size_t(blockIdx.x) * BLOCK_X + threadIdx.x) / 32;
    if (row >= rows)
        return; // a whole warp

    const long long end = row_start[row + 1];
    float sum = 0;
    for (long long i = row_start[row] + threadIdx.x % 32; i < end; i += 32)
        sum += values[i] * x[columns[i]];
    sum = reduce_warp(sum, Add());
    if (threadIdx.x % 32 == 0)
        y[row] = sum;
}
