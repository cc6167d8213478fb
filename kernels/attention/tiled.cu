// Attention, tiles in shared memory: a block has BLOCK_X rows of q, and takes KEYS rows of k and of v at a time, which
// lie in the same place one after the other. 16 x 16 threads compute a tile of scores, two rows and four keys each, and
// as many rows of o. The 16 lanes of a row share its maximum and its sum.
// Costs: two barriers for each tile of k and of v, and all products by float32 arithmetic.

#include "rows.h"

constexpr int side = 16, threads = side * side, rows = BLOCK_X / side, keys = KEYS / side;

template <int d>
__device__ __forceinline__ void attend(
    const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    // A spare pair of columns keeps lanes that read the same column of several rows from one bank.
    __shared__ scalar_t queries[BLOCK_X][d + 2], others[KEYS][d + 2];
    __shared__ float weights[BLOCK_X][KEYS + 1];

    int head, first;
    find_rows(n, head, first);
    const int x = threadIdx.x % side, y = threadIdx.x / side, last = causal ? min(n, first + BLOCK_X) : n;
    const size_t start = size_t(head) * n * d;
    for (int i = threadIdx.x; i < BLOCK_X * d; i += threads)
        queries[i / d][i % d] = first + i / d < n ? q[start + size_t(first) * d + i] : scalar_t(0.0f);
    float sums[rows][d / side] = {}, most[rows], total[rows] = {};
#pragma unroll
    for (int r = 0; r < rows; ++r)
        most[r] = -INFINITY;
    const auto bring = [&](const scalar_t* from, int key) { // zeros beyond the last row
        __syncthreads();
        for (int i = threadIdx.x; i < KEYS * d; i += threads)
            others[i / d][i % d] = key + i / d < n ? from[start + size_t(key) * d + i] : scalar_t(0.0f);
        __syncthreads();
    };

    for (int key = 0; key < last; key += KEYS) {
        bring(k, key);
        float scores[rows][keys] = {};
#pragma unroll 4
        for (int i = 0; i < d; ++i)
#pragma unroll
            for (int r = 0; r < rows; ++r)
#pragma unroll
                for (int j = 0; j < keys; ++j)
                    scores[r][j] += float(queries[y * rows + r][i]) * float(others[j * side + x][i]);
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            const int row = first + y * rows + r;
            float more = most[r];
#pragma unroll
            for (int j = 0; j < keys; ++j) {
                const int other = key + j * side + x;
                scores[r][j] = other >= n || (causal && other > row) ? -INFINITY : scores[r][j] * scale<d>;
                more = fmaxf(more, scores[r][j]);
            }
#pragma unroll
            for (int apart = side / 2; apart > 0; apart /= 2)
                more = fmaxf(more, __shfl_xor_sync(0xffffffff, more, apart));
            const float factor = power(most[r] - more);
            most[r] = more, total[r] *= factor;
#pragma unroll
            for (int j = 0; j < keys; ++j) {
                const float weight = power(scores[r][j] - more);
                total[r] += weight;
                weights[y * rows + r][j * side + x] = weight;
            }
#pragma unroll
            for (int i = 0; i < d / side; ++i)
                sums[r][i] *= factor;
        }
        bring(v, key);
#pragma unroll 4
        for (int j = 0; j < KEYS; ++j)
#pragma unroll
            for (int r = 0; r < rows; ++r)
#pragma unroll
                for (int i = 0; i < d / side; ++i)
                    sums[r][i] += weights[y * rows + r][j] * float(others[j][i * side + x]);
    }

#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
        for (int apart = side / 2; apart > 0; apart /= 2)
            total[r] += __shfl_xor_sync(0xffffffff, total[r], apart);
        const int row = first + y * rows + r;
        if (row < n)
#pragma unroll
            for (int i = 0; i < d / side; ++i)
                o[start + size_t(row) * d + i * side + x] = scalar_t(sums[r][i] / total[r]);
    }
}

extern "C" __global__ void __launch_bounds__(threads)
attention_tiled_64(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    attend<64>(q, k, v, o, n);
}

extern "C" __global__ void __launch_bounds__(threads)
attention_tiled_128(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* o, int n)
{
    attend<128>(q, k, v, o, n);
}
