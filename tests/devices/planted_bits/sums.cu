// Sums and other results whose last bits depend on the order of threads, blocks or time: each is within tolerance every
// time, and no two threads race. The last two are honest: their order is fixed, or does not matter.
#define FULL 0xffffffffu

__device__ float warp_sum(float value)
{
    for (int step = 16; step; step /= 2)
        value += __shfl_down_sync(FULL, value, step);
    return value;
}

__device__ float block_sum(float value) // of 64 threads, in thread 0
{
    __shared__ float other;
    value = warp_sum(value);
    if (threadIdx.x == 32)
        other = value;
    __syncthreads();
    return value + other;
}

__device__ float own(const float* x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    return i < n ? x[i] : 0;
}

extern "C" __global__ void atomic_sum(const float* x, float* total, float*, int n) { atomicAdd(total, own(x, n)); }

extern "C" __global__ void warp_atomics(const float* x, float* total, float*, int n)
{
    const float sum = warp_sum(own(x, n));
    if (threadIdx.x % 32 == 0)
        atomicAdd(total, sum);
}

extern "C" __global__ void split_k(const float* x, float* total, float*, int n)
{
    const float sum = block_sum(own(x, n));
    if (threadIdx.x == 0)
        atomicAdd(total, sum);
}

// The last block adds up what the others left, in the order in which they came.
__device__ int came, left;

extern "C" __global__ void arrivals(const float* x, float* total, float* parts, int n)
{
    const float sum = block_sum(own(x, n));
    if (threadIdx.x)
        return;
    parts[atomicAdd(&came, 1)] = sum;
    __threadfence();
    if (atomicAdd(&left, 1) < int(gridDim.x) - 1)
        return;
    __threadfence();
    float all = 0;
    for (int i = 0; i < int(gridDim.x); ++i)
        all += __ldcg(&parts[i]);
    *total = all;
    atomicExch(&came, 0);
    atomicExch(&left, 0);
}

// Who finds another one's sum takes it along.
extern "C" __global__ void exchange(const float* x, float* total, float*, int n)
{
    float sum = block_sum(own(x, n));
    if (threadIdx.x == 0)
        do
            sum += atomicExch(total, 0.0f);
        while ((sum = atomicExch(total, sum)) != 0);
}

// The time says with which number the sum begins.
extern "C" __global__ void by_the_clock(const float* x, float* total, float*, int n)
{
    if (blockIdx.x || threadIdx.x)
        return;
    const int first = int(clock64() / 64 % n);
    float sum = 0;
    for (int i = 0; i < n; ++i)
        sum += x[(first + i) % n];
    *total = sum;
}

// Thread 0 adds up a list that the threads of a block have filled as they came.
extern "C" __global__ void list_order(const float* x, float* total, float*, int n)
{
    __shared__ float list[1024];
    __shared__ int length;
    if (threadIdx.x == 0)
        length = 0;
    __syncthreads();
    for (int i = threadIdx.x; blockIdx.x == 0 && i < n; i += blockDim.x)
        list[atomicAdd(&length, 1)] = x[i];
    __syncthreads();
    if (blockIdx.x || threadIdx.x)
        return;
    float sum = 0;
    for (int i = 0; i < length; ++i)
        sum += list[i];
    *total = sum;
}

extern "C" __global__ void in_order(const float* x, float* total, float*, int n)
{
    float sum = 0;
    for (int i = threadIdx.x; blockIdx.x == 0 && i < n; i += blockDim.x)
        sum += x[i];
    sum = block_sum(sum);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *total = sum;
}

// Whole numbers can be added in any order.
__device__ int whole, done;

extern "C" __global__ void fixed_point(const float* x, float* total, float*, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    atomicAdd(&whole, __float2int_rn(x[i] * (1 << 20)));
    __threadfence();
    if (atomicAdd(&done, 1) < n - 1)
        return;
    *total = float(atomicExch(&whole, 0)) / (1 << 20);
    atomicExch(&done, 0);
}
