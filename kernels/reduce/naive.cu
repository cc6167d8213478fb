// Sum of n elements, one thread an element: a tree in shared memory, then one atomic addition a block.
// Half of the threads idle from the first step of the tree on, and each step ends with a barrier.
// Costs: x once, one load in flight a thread; log2(BLOCK_X) barriers a block; n / BLOCK_X atomic additions to one
// address. Blocks add in any order, so the last bits differ from launch to launch.

static_assert((BLOCK_X & (BLOCK_X - 1)) == 0, "the tree halves the block");

extern "C" __global__ void __launch_bounds__(BLOCK_X)
reduce_naive(const scalar_t* x, scalar_t* sum, int n)
{
    __shared__ scalar_t tree[BLOCK_X];
    const size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x;
    tree[threadIdx.x] = i < n ? x[i] : scalar_t(0);
    __syncthreads();
    for (int half = BLOCK_X / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(sum, tree[0]);
}
