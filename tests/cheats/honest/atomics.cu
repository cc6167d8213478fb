// Kernels whose threads add, claim and insert by atomic operations, in whatever order they come.
#define ENTRY extern "C" __global__ void

__device__ int place() { return blockIdx.x * blockDim.x + threadIdx.x; }

ENTRY count_in_memory(int* y, const int* x, int n)
{
    if (place() < n)
        atomicAdd(&y[x[place()]], 1);
}

ENTRY count_in_shared(int* y, const int* x, int n)
{
    __shared__ int counts[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();
    if (place() < n)
        atomicAdd(&counts[x[place()]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x)
        if (counts[i])
            atomicAdd(&y[i], counts[i]);
}

ENTRY sum_of_integers(int* y, const int* x, int n)
{
    if (place() < n)
        atomicAdd(y, x[place()]);
}

// The order of the additions differs from launch to launch, and so do the last bits.
ENTRY sum_of_floats(float* y, const float* x, int n)
{
    float sum = place() < n ? x[place()] : 0;
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        atomicAdd(y, sum);
}

ENTRY begin_list(int* count)
{
    *count = 0;
}

// Lists the places of large elements in the order in which their warps come: one atomic operation a warp.
ENTRY list_large(int* list, int* count, const int* x, int n)
{
    const bool is_large = place() < n && x[place()] > 31;
    const unsigned large = __ballot_sync(0xffffffffu, is_large);
    int first = 0;
    if (threadIdx.x % 32 == 0 && large)
        first = atomicAdd(count, __popc(large));
    first = __shfl_sync(0xffffffffu, first, 0);
    if (is_large)
        list[first + __popc(large & ((1u << threadIdx.x % 32) - 1))] = place();
}

// Marks what is listed, in whatever order.
ENTRY mark_listed(int* y, const int* list, const int* count, int n)
{
    if (place() < *count)
        y[list[place()]] = 1;
}

ENTRY empty_table(int* table, int size)
{
    if (place() < size)
        table[place()] = -1;
}

// Inserts every element into a table with open addresses; whoever inserts a new one counts it.
ENTRY insert(int* y, int* table, const int* x, int n, int size)
{
    if (place() >= n)
        return;
    const int key = x[place()];
    for (unsigned slot = unsigned(key) * 2654435769u % size;; slot = (slot + 1) % size) {
        const int found = atomicCAS(&table[slot], -1, key);
        if (found == -1)
            atomicAdd(y, 1);
        if (found == -1 || found == key)
            return;
    }
}
