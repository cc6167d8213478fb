// Layer normalisation of each row, a block a row: y = (x - mean) * rstd * gamma + beta, and mean and rstd themselves.
// A thread keeps KEPT elements as float, so rows of up to KEPT * BLOCK_X elements are read once; what is beyond that is
// read three times. The variance is the mean of (x - mean)^2, which loses nothing where the mean is large.
// Costs: KEPT registers a thread, four barriers a row; gamma and beta come from L2 for every row after the first.
// Limits: short rows leave most of a block idle; the grid has a block for each row, 2^31 - 1 of them at most.

#include <cuda_fp16.h>

#include "reduce.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_X)
layernorm_registers(const scalar_t* x, const float* gamma, const float* beta, scalar_t* y, float* mean, float* rstd,
    int n, float eps)
{
    const scalar_t* from = x + size_t(blockIdx.x) * n;
    scalar_t* to = y + size_t(blockIdx.x) * n;
    const size_t rest = KEPT * BLOCK_X + threadIdx.x;

    float kept[KEPT], sum = 0;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int column = i * BLOCK_X + threadIdx.x;
        kept[i] = column < n ? float(from[column]) : 0.0f;
        sum += kept[i];
    }
    for (size_t column = rest; column < n; column += BLOCK_X)
        sum += float(from[column]);
    const float centre = reduce_block<BLOCK_X>(sum, Add()) / n;

    float squares = 0;
#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int column = i * BLOCK_X + threadIdx.x;
        const float distance = column < n ? kept[i] - centre : 0.0f;
        squares += distance * distance;
    }
    for (size_t column = rest; column < n; column += BLOCK_X) {
        const float distance = float(from[column]) - centre;
        squares += distance * distance;
    }
    const float factor = 1 / sqrtf(reduce_block<BLOCK_X>(squares, Add()) / n + eps);

#pragma unroll
    for (int i = 0; i < KEPT; ++i) {
        const int column = i * BLOCK_X + threadIdx.x;
        if (column < n)
            to[column] = scalar_t((kept[i] - centre) * factor * gamma[column] + beta[column]);
    }
    for (size_t column = rest; column < n; column += BLOCK_X)
        to[column] = scalar_t((float(from[column]) - centre) * factor * gamma[column] + beta[column]);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = centre;
        rstd[blockIdx.x] = factor;
    }
}
