// Adds to an array in place, counts the additions, and finds the largest number: each by atomic operations.
extern "C" __global__ void add_atomic(const int* x, unsigned* state, int* count, int* largest, int n)
{
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    if (i < n) {
        state[i] += x[i];
        atomicAdd(count, 1);
        atomicMax(largest, x[i]);
    }
}
