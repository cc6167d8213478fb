// The largest of some numbers, and the sum of the exponentials of their differences from it: what softmax has to know of
// a row. Pairs of parts of a row are merged in any order.

#pragma once

#include "rows.h"

constexpr scalar_t lowest = sizeof(scalar_t) == 4 ? -3.402823466e38 : -1.7976931348623157e308; // finite: lowest - lowest is 0

struct Pair {
    scalar_t largest, sum;
};

__device__ __forceinline__ Pair shuffle(Pair value, int distance)
{
    return { shuffle(value.largest, distance), shuffle(value.sum, distance) };
}

__device__ __forceinline__ Pair merge(Pair a, Pair b)
{
    const scalar_t largest = max(a.largest, b.largest);
    return { largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest) };
}

// Adds elements to a pair.
template <int count> __device__ __forceinline__ void add(Pair& pair, const scalar_t (&values)[count])
{
    scalar_t largest = pair.largest;
#pragma unroll
    for (int j = 0; j < count; ++j)
        largest = max(largest, values[j]);
    pair.sum *= exp(pair.largest - largest);
#pragma unroll
    for (int j = 0; j < count; ++j)
        pair.sum += exp(values[j] - largest);
    pair.largest = largest;
}

// Puts exponentials in the place of what a thread holds, and returns their pair.
template <int kept> __device__ __forceinline__ Pair raise(Held<kept>& held)
{
    Pair own = { lowest, 0 };
    held.each([&](scalar_t value) { own.largest = max(own.largest, value); });
    held.each([&](scalar_t& value) { own.sum += value = exp(value - own.largest); });
    return own;
}

// Returns the pair of a thread's part of a row that is not kept.
__device__ __forceinline__ Pair pair_of(const Pieces& row)
{
    Pair own = { lowest, 0 };
#pragma unroll 4
    for (int piece = threadIdx.x; piece < row.packs; piece += BLOCK_X)
        add(own, row.body()[piece].values);
    if (row.edge() < row.n)
        add(own, { row.start[row.edge()] });
    return own;
}

// Reads a row once more, and writes its result.
__device__ __forceinline__ void finish(const Pieces& row, scalar_t* to, Pair whole)
{
    const scalar_t factor = 1 / whole.sum;
#pragma unroll 4
    for (int piece = threadIdx.x; piece < row.packs; piece += BLOCK_X) {
        Pack values = row.body()[piece];
#pragma unroll
        for (int j = 0; j < pack; ++j)
            values.values[j] = exp(values.values[j] - whole.largest) * factor;
        row.store(to, piece, values);
    }
    if (row.edge() < row.n)
        to[row.edge()] = exp(row.start[row.edge()] - whole.largest) * factor;
}
