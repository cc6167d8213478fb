// The sum of an array, in two launches: PARTS blocks leave a sum each, and one block adds those up.
// The blocks of the first launch take turns along the array, so that any number of elements works and neighbouring
// threads read neighbouring elements; UNROLLED loads of a thread are in flight at a time.
// Costs: the array once, PARTS floats written and read, a second launch of about 2 us.
// Limits: the order of the sum, and so its last bits, depend on PARTS and BLOCK_X, and on nothing else.

#include "reduce.cuh"

constexpr int UNROLLED = 8;

extern "C" __global__ void __launch_bounds__(BLOCK_X) sum_parts(const float* x, float* parts, long long n)
{
    constexpr size_t stride = size_t(PARTS) * BLOCK_X;
    float sums[UNROLLED] = {};
    for (size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x; i < n; i += UNROLLED * stride)
#pragma unroll
        for (int j = 0; j < UNROLLED; ++j)
            sums[j] += i + j * stride < n ? x[i + j * stride] : 0.0f;

    float sum = 0;
#pragma unroll
    for (int j = 0; j < UNROLLED; ++j)
        sum += sums[j];
    sum = reduce_block<BLOCK_X>(sum, Add());
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK_X) sum_total(const float* parts, float* total)
{
    float sum = 0;
    for (int i = threadIdx.x; i < PARTS; i += BLOCK_X)
        sum += parts[i];
    sum = reduce_block<BLOCK_X>(sum, Add());
    if (threadIdx.x == 0)
        *total = sum;
}
