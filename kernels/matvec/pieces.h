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
    const auto add = [&](const Pack& piece, int number) {
        Pack factors;
        if (x_aligned)
            factors = reinterpret_cast<const Pack*>(x_body)[number];
        else
            for (int j = 0; j < pack; ++j)
                factors.values[j] = x_body[number * pack + j];
        for (int j = 0; j < pack; ++j)
            sum += piece.values[j] * factors.values[j];
    };
    int i = thread;
    for (; i + (in_flight - 1) * stride < packs; i += in_flight * stride) {
        Pack held[in_flight];
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
            held[j] = row_packs[i + j * stride];
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
            add(held[j], i + j * stride);
    }
    for (; i < packs; i += stride)
        add(row_packs[i], i);
    const int tail = head + packs * pack;
    if (thread < head)
        sum += start[thread] * x[thread];
    if (tail + thread < n)
        sum += start[tail + thread] * x[tail + thread];
    return sum;
}
