// What vectorised.cu and split.cu do alike: the part of a row's product with x that one of `stride` threads sums up, by
// pieces of 16 bytes, several of them in flight. A row that starts off 16 bytes has its first and its last elements
// taken one by one, so every row of every shape is read by whole pieces; x is then read by elements, from the caches.

#pragma once

constexpr int pack = 16 / sizeof(scalar_t);
struct alignas(16) Pack {
    scalar_t values[pack];
};

template <int stride, int in_flight>
__device__ __forceinline__ scalar_t sum_pieces(const scalar_t* start, const scalar_t* x, int n, int thread)
{
    const int head = min(n, int((16 - size_t(start) % 16) % 16 / sizeof(scalar_t)));
    const int packs = (n - head) / pack;
    const Pack* row_packs = reinterpret_cast<const Pack*>(start + head);
    const scalar_t* x_body = x + head;
    const bool x_aligned = size_t(x_body) % 16 == 0;

    scalar_t sum = 0;
    for (int i = thread; i < packs; i += in_flight * stride) {
        Pack held[in_flight] = {}, factors[in_flight] = {};
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
            if (i + j * stride < packs)
                reinterpret_cast<uint4&>(held[j]) = __ldcs(reinterpret_cast<const uint4*>(row_packs + i + j * stride));
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
            if (i + j * stride < packs) {
                if (x_aligned)
                    factors[j] = reinterpret_cast<const Pack*>(x_body)[i + j * stride];
                else
                    for (int k = 0; k < pack; ++k)
                        factors[j].values[k] = x_body[(i + j * stride) * pack + k];
            }
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
            for (int k = 0; k < pack; ++k)
                sum += held[j].values[k] * factors[j].values[k];
    }
    const int tail = head + packs * pack;
    if (thread < head)
        sum += start[thread] * x[thread];
    if (tail + thread < n)
        sum += start[tail + thread] * x[tail + thread];
    return sum;
}
