// Reductions over a warp and over a block. Every thread gets the result, and every thread of the block has to call.
#pragma once

struct Add {
    template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};

struct Larger {
    template <class T> __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};

template <class T, class Operation> __device__ T reduce_warp(T value, Operation operation)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value = operation(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}

// Costs one element of shared memory a warp and two barriers. `threads` is the size of the block, a multiple of 32.
template <int threads, class T, class Operation> __device__ T reduce_block(T value, Operation operation)
{
    static_assert(threads % 32 == 0 && threads <= 1024, "a block is made of whole warps, of 32 at most");
    __shared__ T of_warps[threads / 32];
    value = reduce_warp(value, operation);
    __syncthreads(); // what an earlier call left there has been read
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[0];
#pragma unroll
    for (int warp = 1; warp < threads / 32; ++warp)
        value = operation(value, of_warps[warp]);
    return value;
}
