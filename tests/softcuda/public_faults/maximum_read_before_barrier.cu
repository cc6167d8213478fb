// A thread takes the maximum from shared memory before the barrier that waits for its last step.
// As in karpathy/llm.c before c73fa88
// Must be found: race
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void maximum_read_before_barrier(int* data)
{
    __shared__ int most[64];
    const int t = int(threadIdx.x);
    most[t] = data[t] + t;
    for (int stride = 32; stride > 0; stride /= 2) {
        __syncthreads();
        if (t < stride)
            most[t] = max(most[t], most[t + stride]); // here
    }
#ifdef FIXED
    __syncthreads();
    const int offset = most[0];
#else
    const int offset = most[0]; // here
    __syncthreads();
#endif
    data[t] = data[t] - offset;
}
