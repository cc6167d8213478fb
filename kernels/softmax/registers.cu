// Softmax, a block a row, which its threads keep in registers: read once, by loads of 16 bytes that are all in flight.
// Threads take exponentials relative to their own largest element, so that one merge of pairs, with one barrier, is all
// that they have to tell each other. Rows off 16 bytes are read by whole pieces too (rows.h).
// Costs: a row read once; one exponential an element; 4 registers a piece, of up to 8 pieces a thread. Longer rows are
// read twice.

#include "pair.h"

template <int kept> __device__ __forceinline__ void softmax(const scalar_t* x, scalar_t* y, int n)
{
    const Pieces row(x + size_t(blockIdx.x) * n, n);
    Held<kept> held(row, -INFINITY);
    const Pair own = raise(held), whole = merge_block<0, BLOCK_X>(own, merge);
    const scalar_t factor = exp(own.largest - whole.largest) / whole.sum;
    held.each([&](scalar_t& value) { value *= factor; });
    held.store(row, y + size_t(blockIdx.x) * n);
}

#define SOFTMAX_REGISTERS(KEPT) \
    extern "C" __global__ void __launch_bounds__(BLOCK_X) softmax_registers_##KEPT( \
        const scalar_t* x, scalar_t* y, int, int n) \
    { \
        softmax<KEPT>(x, y, n); \
    }
SOFTMAX_REGISTERS(1)
SOFTMAX_REGISTERS(2)
SOFTMAX_REGISTERS(4)
SOFTMAX_REGISTERS(8)

extern "C" __global__ void __launch_bounds__(BLOCK_X)
softmax_registers(const scalar_t* x, scalar_t* y, int, int n)
{
    const Pieces row(x + size_t(blockIdx.x) * n, n);
    finish(row, y + size_t(blockIdx.x) * n, merge_block<0, BLOCK_X>(pair_of(row), merge));
}
