// Kernels that keep something between blocks, steps or launches, each for a good reason.
#define ENTRY extern "C" __global__ void

__device__ int place() { return blockIdx.x * blockDim.x + threadIdx.x; }

__device__ int block_sum(int own)
{
    __shared__ int sums[BLOCK_X];
    sums[threadIdx.x] = own;
    for (int step = BLOCK_X / 2; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    __syncthreads();
    return sums[0];
}

// Two steps: sums of blocks in scratch memory, then their sum.
ENTRY partial_sums(int* parts, const int* x, int n)
{
    const int sum = block_sum(place() < n ? x[place()] : 0);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

ENTRY sum_of_parts(int* y, const int* parts, int count)
{
    int own = 0;
    for (int i = threadIdx.x; i < count; i += BLOCK_X)
        own += parts[i];
    const int sum = block_sum(own);
    if (threadIdx.x == 0)
        *y = sum;
}

// One step: the block that ends last adds up. It sets the counter to zero for the next launch.
__device__ unsigned ended;
ENTRY last_adds(int* y, int* parts, const int* x, int n)
{
    __shared__ bool is_last;
    const int sum = block_sum(place() < n ? x[place()] : 0);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicInc(&ended, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!is_last)
        return;
    int own = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += BLOCK_X)
        own += parts[i];
    const int total = block_sum(own);
    if (threadIdx.x == 0)
        *y = total;
}

// The same with a counter that nobody sets back: every launch adds as many as it has blocks.
__device__ unsigned epochs;
ENTRY last_of_epoch(int* y, int* parts, const int* x, int n)
{
    __shared__ bool is_last;
    const int sum = block_sum(place() < n ? x[place()] : 0);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        is_last = (atomicAdd(&epochs, 1) + 1) % gridDim.x == 0;
        __threadfence();
    }
    __syncthreads();
    if (!is_last)
        return;
    int own = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += BLOCK_X)
        own += parts[i];
    const int total = block_sum(own);
    if (threadIdx.x == 0)
        *y = total;
}

// A scan in three steps: within blocks, over their sums, and both together.
ENTRY scan_blocks(int* y, int* parts, const int* x, int n)
{
    __shared__ int sums[BLOCK_X];
    sums[threadIdx.x] = place() < n ? x[place()] : 0;
    for (int step = 1; step < BLOCK_X; step *= 2) {
        __syncthreads();
        const int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
    }
    if (place() < n)
        y[place()] = sums[threadIdx.x];
    if (threadIdx.x == BLOCK_X - 1)
        parts[blockIdx.x] = sums[threadIdx.x];
}

ENTRY scan_parts(int* parts, int count)
{
    int sum = 0;
    for (int i = 0; i < count; ++i)
        parts[i] = sum += parts[i];
}

ENTRY add_parts(int* y, const int* parts, int n)
{
    if (place() < n && blockIdx.x)
        y[place()] += parts[blockIdx.x - 1];
}

// Split-K: four parts of each row's product with w in scratch memory, then their sum.
ENTRY product_parts(int* parts, const int* x, const int* w, int m)
{
    if (place() >= 4 * m)
        return;
    const int row = place() / 4, part = place() % 4;
    int sum = 0;
    for (int k = part * 8; k < part * 8 + 8; ++k)
        sum += x[row * 32 + k] * w[k];
    parts[place()] = sum;
}

ENTRY product_sum(int* y, const int* parts, int m)
{
    if (place() < m)
        y[place()] = parts[4 * place()] + parts[4 * place() + 1] + parts[4 * place() + 2] + parts[4 * place() + 3];
}
