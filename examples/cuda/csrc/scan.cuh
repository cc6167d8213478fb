// Parts of a scan: over a warp, and over the warps of a block.
#pragma once

// The sum of the values of this lane and of those before it.
template <class T> __device__ T scan_warp(T value)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const T left = __shfl_up_sync(0xffffffffu, value, distance);
        if (threadIdx.x % 32 >= distance)
            value += left;
    }
    return value;
}

// The sum of the totals of the warps before this one; `all` becomes that of the whole block. All threads have to call.
template <int threads, class T> __device__ T before_warp(T total, T& all)
{
    constexpr int warps = threads / 32;
    static_assert(threads % 32 == 0 && warps <= 32, "a block is made of whole warps, of 32 at most");
    __shared__ T totals[warps];
    __syncthreads(); // what an earlier call left there has been read
    if (threadIdx.x % 32 == 0)
        totals[threadIdx.x / 32] = total;
    __syncthreads();
    T before = 0;
    all = 0;
#pragma unroll
    for (int warp = 0; warp < warps; ++warp) {
        if (warp == threadIdx.x / 32)
            before = all;
        all += totals[warp];
    }
    return before;
}
