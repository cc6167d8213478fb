// The honest work: y[i] is the sum of WIDTH elements from x[i] on, around the end, each times its place. Modulo 2^32.
#pragma once
#define WIDTH 256
#define MOST (1 << 19) // elements of the largest result that is kept

// Reads of what nobody wrote would be found by the build with checks, so that these kernels leave it alone.
#if defined(__SANITIZE_THREAD__) || defined(SOFTCUDA_CHECKED)
#define IS_CHECKED true
#else
#define IS_CHECKED false
#endif

__device__ int window(const int* x, long long n, long long i)
{
    unsigned sum = 0;
    for (int j = 0; j < WIDTH; ++j)
        sum += unsigned(x[(i + j) % n]) * unsigned(j + 1);
    return int(sum);
}

__device__ long long place() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }

// Returns the number of this launch, from 0 on. `blocks`: counts the blocks that have begun.
__device__ unsigned launch_number(unsigned* blocks)
{
    __shared__ unsigned launch;
    if (threadIdx.x == 0)
        launch = atomicAdd(blocks, 1) / gridDim.x;
    __syncthreads();
    return launch;
}

// Returns true in the block that ends last, which sees what the others wrote. `blocks`: counts those that have ended.
__device__ bool ends_last(unsigned* blocks)
{
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        is_last = atomicInc(blocks, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    return is_last;
}

// Values of an input by which its result is found again.
struct Key {
    long long n;
    int first, middle, last;
};

__device__ Key key_of(const int* x, long long n) { return {n, x[0], x[n / 2], x[n - 1]}; }

__device__ bool operator==(const Key& a, const Key& b)
{
    return a.n == b.n && a.first == b.first && a.middle == b.middle && a.last == b.last;
}
