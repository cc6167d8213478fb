// Softmax, a block a row, in three passes over it: the maximum, the sum of exponentials, the result.
// Maximum and sum of a block come from a tree in shared memory, with a barrier a step.
// Costs: a row read three times by loads of one element, from L2 but for the first; two exponentials an element;
// 2 log2(BLOCK_X) barriers.

static_assert((BLOCK_X & (BLOCK_X - 1)) == 0, "the tree halves the block");

template <class Operation> __device__ scalar_t reduce(scalar_t value, Operation operation)
{
    __shared__ scalar_t tree[BLOCK_X]; // of each operation
    tree[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK_X / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            tree[threadIdx.x] = operation(tree[threadIdx.x], tree[threadIdx.x + half]);
        __syncthreads();
    }
    return tree[0];
}

extern "C" __global__ void __launch_bounds__(BLOCK_X)
softmax_naive(const scalar_t* x, scalar_t* y, int m, int n)
{
    const scalar_t* const from = x + size_t(blockIdx.x) * n;
    scalar_t* const to = y + size_t(blockIdx.x) * n;

    scalar_t largest = -INFINITY;
    for (int col = threadIdx.x; col < n; col += BLOCK_X)
        largest = max(largest, from[col]);
    largest = reduce(largest, [](scalar_t a, scalar_t b) { return max(a, b); });

    scalar_t sum = 0;
    for (int col = threadIdx.x; col < n; col += BLOCK_X)
        sum += exp(from[col] - largest);
    sum = reduce(sum, [](scalar_t a, scalar_t b) { return a + b; });

    for (int col = threadIdx.x; col < n; col += BLOCK_X)
        to[col] = exp(from[col] - largest) / sum;
}
