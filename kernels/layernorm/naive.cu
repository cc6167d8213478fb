// Normalisation of rows, a block a row, in three passes over it: the mean, the variance, the result.
// Sums of a block come from a tree in shared memory, with a barrier a step.
// Costs: a row read three times by loads of one element, from L2 but for the first; gamma and beta from L2 for each row;
// 2 log2(BLOCK_X) barriers.

static_assert((BLOCK_X & (BLOCK_X - 1)) == 0, "the tree halves the block");

__device__ scalar_t sum_block(scalar_t value)
{
    __shared__ scalar_t tree[BLOCK_X];
    __syncthreads(); // what an earlier call left has been read
    tree[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK_X / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    return tree[0];
}

extern "C" __global__ void __launch_bounds__(BLOCK_X)
layernorm_naive(const scalar_t* x, const scalar_t* gamma, const scalar_t* beta, scalar_t* y, scalar_t* mean,
    scalar_t* rstd, scalar_t eps, int m, int n)
{
    const scalar_t* const from = x + size_t(blockIdx.x) * n;
    scalar_t* const to = y + size_t(blockIdx.x) * n;

    scalar_t sum = 0;
    for (int col = threadIdx.x; col < n; col += BLOCK_X)
        sum += from[col];
    const scalar_t middle = sum_block(sum) / n;

    scalar_t squares = 0;
    for (int col = threadIdx.x; col < n; col += BLOCK_X)
        squares += (from[col] - middle) * (from[col] - middle);
    const scalar_t factor = 1 / sqrt(sum_block(squares) / n + eps);

    for (int col = threadIdx.x; col < n; col += BLOCK_X)
        to[col] = (from[col] - middle) * factor * gamma[col] + beta[col];
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = middle;
        rstd[blockIdx.x] = factor;
    }
}
