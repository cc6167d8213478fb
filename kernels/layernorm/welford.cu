// Normalisation of rows, a warp a row, in two passes over it: mean and squares of deviations in one, the result in another.
// Each lane updates mean and squares with each element as Welford does, so that no difference of large sums is left over,
// and pairs of lanes are merged as Chan, Golub and LeVeque do, by shuffles.
// Costs: a row read twice, from L2 or L1 the second time, by loads of one element; a product by 1 / count an element,
// which the mean waits for. BLOCK_X rows a block.

struct Moments {
    scalar_t mean, squares;
    int count;
};

__device__ __forceinline__ Moments merge(Moments a, Moments b)
{
    const int count = a.count + b.count;
    const scalar_t share = count ? scalar_t(b.count) / count : scalar_t(0), apart = b.mean - a.mean;
    return { a.mean + apart * share, a.squares + b.squares + apart * apart * share * a.count, count };
}

extern "C" __global__ void __launch_bounds__(BLOCK_X * 32)
layernorm_welford(const scalar_t* x, const scalar_t* gamma, const scalar_t* beta, scalar_t* y, scalar_t* mean,
    scalar_t* rstd, scalar_t eps, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m)
        return; // a whole warp
    const scalar_t* const from = x + size_t(row) * n;
    scalar_t* const to = y + size_t(row) * n;

    Moments own = {};
    for (int col = lane; col < n; col += 32) {
        const scalar_t value = from[col], apart = value - own.mean;
        own.mean += apart / ++own.count;
        own.squares += apart * (value - own.mean);
    }
    for (int distance = 16; distance > 0; distance /= 2)
        own = merge(own,
            { __shfl_down_sync(0xffffffffu, own.mean, distance), __shfl_down_sync(0xffffffffu, own.squares, distance),
                __shfl_down_sync(0xffffffffu, own.count, distance) });
    const scalar_t middle = __shfl_sync(0xffffffffu, own.mean, 0);
    const scalar_t factor = 1 / sqrt(__shfl_sync(0xffffffffu, own.squares, 0) / n + eps);

    for (int col = lane; col < n; col += 32)
        to[col] = (from[col] - middle) * factor * gamma[col] + beta[col];
    if (lane == 0) {
        mean[row] = middle;
        rstd[row] = factor;
    }
}
