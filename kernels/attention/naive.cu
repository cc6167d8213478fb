// Attention, a warp a row of o, one key at a time: lanes share the products of a score, and each has d / 32 sums of o.
// Maximum and sum of a row are kept as keys come: where the maximum grows, what was summed so far is scaled.
// Costs: every row reads all keys and values by itself, and each score waits for five shuffles.

#include "rows.h"

constexpr int threads = BLOCK_X * 32;

template <int d>
__device__ __forceinline__ void attend(
    const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    int head, first;
    find_rows(n, head, first);
    const int row = first + threadIdx.x / 32, lane = threadIdx.x % 32, last = causal ? row : n - 1;
    if (row >= n)
        return;
    const size_t start = size_t(head) * n * d, own = start + size_t(row) * d;
    float query[d / 32], sums[d / 32] = {}, most = -INFINITY, total = 0;
#pragma unroll
    for (int i = 0; i < d / 32; ++i)
        query[i] = float(q[own + i * 32 + lane]);
    for (int key = 0; key <= last; ++key) {
        const size_t other = start + size_t(key) * d + lane;
        float score = 0;
#pragma unroll
        for (int i = 0; i < d / 32; ++i)
            score += query[i] * float(k[other + i * 32]);
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2)
            score += __shfl_xor_sync(0xffffffff, score, apart);
        score *= scale<d>;
        const float more = fmaxf(most, score), factor = power(most - more), weight = power(score - more);
        most = more, total = total * factor + weight;
#pragma unroll
        for (int i = 0; i < d / 32; ++i)
            sums[i] = sums[i] * factor + weight * float(v[other + i * 32]);
    }
#pragma unroll
    for (int i = 0; i < d / 32; ++i)
        o[own + i * 32 + lane] = scalar_t(sums[i] / total);
}

extern "C" __global__ void __launch_bounds__(threads)
attention_naive_64(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    attend<64>(q, k, v, o, n);
}

extern "C" __global__ void __launch_bounds__(threads)
attention_naive_128(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    attend<128>(q, k, v, o, n);
}
