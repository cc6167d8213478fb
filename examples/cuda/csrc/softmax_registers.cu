// Softmax of each row, a block a row, with the row in registers.
// A thread keeps KEPT elements, so rows of up to KEPT * BLOCK_X elements are read once and written once. What is beyond
// that in a longer row is read three times, the second and third time from L2 as long as the rows in work fit there.
// Costs: KEPT registers a thread (twice that for float64), four barriers a row.
// Limits: short rows leave most of a block idle; the grid has a block for each row, 2^31 - 1 of them at most.

#include "reduce.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_X)
softmax_registers(const scalar_t* x, scalar_t* y, int n)
{
    const scalar_t* from = x + size_t(blockIdx.x) * n;
    scalar_t* to = y + size_t(blockIdx.x) * n;
    const size_t rest = KEPT * BLOCK_X + threadIdx.x;

    scalar_t kept[KEPT], largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int column = i * BLOCK_X + threadIdx.x;
        kept[i] = column < n ? from[column] : scalar_t(-INFINITY);
        largest = max(largest, kept[i]);
    }
    for (size_t column = rest; column < n; column += BLOCK_X)
        largest = max(largest, from[column]);
    largest = reduce_block<BLOCK_X>(largest, Larger());

    scalar_t sum = 0;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        kept[i] = exp(kept[i] - largest);
        sum += kept[i];
    }
    for (size_t column = rest; column < n; column += BLOCK_X)
        sum += exp(from[column] - largest);
    const scalar_t factor = 1 / reduce_block<BLOCK_X>(sum, Add());

#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int column = i * BLOCK_X + threadIdx.x;
        if (column < n)
            to[column] = kept[i] * factor;
    }
    for (size_t column = rest; column < n; column += BLOCK_X)
        to[column] = exp(from[column] - largest) * factor;
}
