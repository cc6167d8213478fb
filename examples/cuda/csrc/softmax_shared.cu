// Softmax of each row, a block a row, with the row in dynamic shared memory.
// The launch gives it room for the first HELD elements of a row, or for the whole row where that is shorter. What is
// beyond HELD is read three times. Each thread reads back only what it wrote itself, so the row needs no barrier.
// Costs: HELD elements of shared memory at most, which limits how many blocks share a multiprocessor; four barriers.
// Limits: as softmax_registers.cu; one maximum and one sum a thread, so it takes any block without more registers.

#include "reduce.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK_X)
softmax_shared(const scalar_t* x, scalar_t* y, int n)
{
    extern __shared__ __align__(16) char room[];
    scalar_t* held = reinterpret_cast<scalar_t*>(room);
    const scalar_t* from = x + size_t(blockIdx.x) * n;
    scalar_t* to = y + size_t(blockIdx.x) * n;
    const int first = threadIdx.x, end = min(n, HELD);
    const size_t rest = size_t(end) + first;

    scalar_t largest = -INFINITY;
#pragma unroll 8
    for (int column = first; column < end; column += BLOCK_X) {
        held[column] = from[column];
        largest = max(largest, held[column]);
    }
    for (size_t column = rest; column < n; column += BLOCK_X)
        largest = max(largest, from[column]);
    largest = reduce_block<BLOCK_X>(largest, Larger());

    scalar_t sum = 0;
    for (int column = first; column < end; column += BLOCK_X) {
        held[column] = exp(held[column] - largest);
        sum += held[column];
    }
    for (size_t column = rest; column < n; column += BLOCK_X)
        sum += exp(from[column] - largest);
    const scalar_t factor = 1 / reduce_block<BLOCK_X>(sum, Add());

    for (int column = first; column < end; column += BLOCK_X)
        to[column] = held[column] * factor;
    for (size_t column = rest; column < n; column += BLOCK_X)
        to[column] = exp(from[column] - largest) * factor;
}
