// Normalisation of rows, a block a row, which its threads keep in registers: read once, by loads of 16 bytes that are all
// in flight. The mean comes first and then the squares of deviations from it, both from registers, a barrier each.
// Rows off 16 bytes are read by whole pieces too (../softmax/rows.h).
// Costs: a row read once; gamma and beta from L1 or L2 for each row; 4 registers a piece, of up to 8 pieces a thread.
// Longer rows are read three times.

#include "../softmax/rows.h"

__device__ __forceinline__ scalar_t add(scalar_t a, scalar_t b)
{
    return a + b;
}

// Makes a row's result of its elements, and writes it.
struct Result {
    const scalar_t *gamma, *beta;
    scalar_t mean, rstd;

    __device__ scalar_t of(scalar_t value, scalar_t factor, scalar_t offset) const
    {
        return (value - mean) * rstd * factor + offset;
    }

    __device__ void store(const Pieces& row, scalar_t* to, int piece, const Pack& values) const
    {
        const int first = row.head + piece * pack;
        Pack result, factors, offsets;
        if ((size_t(gamma + first) | size_t(beta + first)) % 16 == 0) {
            factors = *reinterpret_cast<const Pack*>(gamma + first);
            offsets = *reinterpret_cast<const Pack*>(beta + first);
        } else {
#pragma unroll
            for (int j = 0; j < pack; ++j)
                factors.values[j] = gamma[first + j], offsets.values[j] = beta[first + j];
        }
#pragma unroll
        for (int j = 0; j < pack; ++j)
            result.values[j] = of(values.values[j], factors.values[j], offsets.values[j]);
        row.store(to, piece, result);
    }

    __device__ void store_edge(const Pieces& row, scalar_t* to, scalar_t value) const
    {
        if (row.edge() < row.n)
            to[row.edge()] = of(value, gamma[row.edge()], beta[row.edge()]);
    }
};

template <int kept> __device__ __forceinline__ void normalise(const scalar_t* x, const scalar_t* gamma,
    const scalar_t* beta, scalar_t* y, scalar_t* mean, scalar_t* rstd, scalar_t eps, int n)
{
    const Pieces row(x + size_t(blockIdx.x) * n, n);
    const Held<kept> held(row, 0);
    scalar_t sum = held.edge, squares = 0;
#pragma unroll
    for (int i = 0; i < kept; ++i)
#pragma unroll
        for (int j = 0; j < pack; ++j)
            sum += held.pieces[i].values[j];
    const scalar_t middle = merge_block<0, BLOCK_X>(sum, add) / n;
#pragma unroll
    for (int i = 0; i < kept; ++i)
        if (i * BLOCK_X + threadIdx.x < row.packs)
#pragma unroll
            for (int j = 0; j < pack; ++j)
                squares += (held.pieces[i].values[j] - middle) * (held.pieces[i].values[j] - middle);
    if (row.edge() < n)
        squares += (held.edge - middle) * (held.edge - middle);
    const Result result = { gamma, beta, middle, 1 / sqrt(merge_block<1, BLOCK_X>(squares, add) / n + eps) };

    scalar_t* const to = y + size_t(blockIdx.x) * n;
#pragma unroll
    for (int i = 0; i < kept; ++i)
        if (i * BLOCK_X + threadIdx.x < row.packs)
            result.store(row, to, i * BLOCK_X + threadIdx.x, held.pieces[i]);
    result.store_edge(row, to, held.edge);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = middle;
        rstd[blockIdx.x] = result.rstd;
    }
}

#define LAYERNORM_REGISTERS(KEPT) \
    extern "C" __global__ void __launch_bounds__(BLOCK_X) layernorm_registers_##KEPT(const scalar_t* x, \
        const scalar_t* gamma, const scalar_t* beta, scalar_t* y, scalar_t* mean, scalar_t* rstd, scalar_t eps, int, \
        int n) \
    { \
        normalise<KEPT>(x, gamma, beta, y, mean, rstd, eps, n); \
    }
LAYERNORM_REGISTERS(1)
LAYERNORM_REGISTERS(2)
LAYERNORM_REGISTERS(4)
LAYERNORM_REGISTERS(8)

extern "C" __global__ void __launch_bounds__(BLOCK_X)
layernorm_registers(const scalar_t* x, const scalar_t* gamma, const scalar_t* beta, scalar_t* y, scalar_t* mean,
    scalar_t* rstd, scalar_t eps, int, int n)
{
    const Pieces row(x + size_t(blockIdx.x) * n, n);
    const scalar_t edge = row.edge() < n ? row.start[row.edge()] : scalar_t(0);
    scalar_t sum = edge, squares = 0;
#pragma unroll 4
    for (int piece = threadIdx.x; piece < row.packs; piece += BLOCK_X)
#pragma unroll
        for (int j = 0; j < pack; ++j)
            sum += row.body()[piece].values[j];
    const scalar_t middle = merge_block<0, BLOCK_X>(sum, add) / n;
#pragma unroll 4
    for (int piece = threadIdx.x; piece < row.packs; piece += BLOCK_X)
#pragma unroll
        for (int j = 0; j < pack; ++j)
            squares += (row.body()[piece].values[j] - middle) * (row.body()[piece].values[j] - middle);
    if (row.edge() < n)
        squares += (edge - middle) * (edge - middle);
    const Result result = { gamma, beta, middle, 1 / sqrt(merge_block<1, BLOCK_X>(squares, add) / n + eps) };

    scalar_t* const to = y + size_t(blockIdx.x) * n;
#pragma unroll 4
    for (int piece = threadIdx.x; piece < row.packs; piece += BLOCK_X)
        result.store(row, to, piece, row.body()[piece]);
    result.store_edge(row, to, edge);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = middle;
        rstd[blockIdx.x] = result.rstd;
    }
}
