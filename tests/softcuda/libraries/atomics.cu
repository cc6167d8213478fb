// What cuda::atomic orders: each kernel is right, and with BROKEN (a number) it is not.
#include <cuda/atomic>
#ifndef BROKEN
#define BROKEN 0
#endif

// The last block adds up what the others left. 1: the counter hands nothing on. 2: a plain counter.
extern "C" __global__ void last_block(int* out)
{
    __shared__ bool is_last;
    int *const parts = out + 1, *const counter = out;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = 7 * int(blockIdx.x);
        cuda::atomic_ref<int, cuda::thread_scope_device> count(*counter);
        if (BROKEN == 2)
            is_last = (*counter)++ == int(gridDim.x) - 1;
        else
            is_last = count.fetch_add(1, BROKEN == 1 ? cuda::memory_order_relaxed : cuda::memory_order_acq_rel) == int(gridDim.x) - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        int sum = 0;
        for (unsigned i = 0; i < gridDim.x; ++i)
            sum += parts[i];
        out[63] = sum;
    }
}

// A block takes what an earlier one has published, where it is there. 1: relaxed. 2: of the block's scope alone.
extern "C" __global__ void published(int* out)
{
    constexpr auto scope = BROKEN == 2 ? cuda::thread_scope_block : cuda::thread_scope_device;
    if (threadIdx.x)
        return;
    cuda::atomic_ref<int, scope> ready(out[0]);
    if (ready.load(cuda::memory_order_acquire))
        out[63] = out[1] - 5;
    else {
        out[1] = 19;
        ready.store(1, BROKEN == 1 ? cuda::memory_order_relaxed : cuda::memory_order_release);
    }
}
