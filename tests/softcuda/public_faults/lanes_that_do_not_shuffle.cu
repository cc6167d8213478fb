// A shuffle inside a branch names the whole warp, and some of its lanes go around it to the barrier behind.
// As in moderngpu/moderngpu pull request #36
// Must be found: barrier error
// Launch: 1 block of 32 threads, 32 ints

extern "C" __global__ void lanes_that_do_not_shuffle(int* data)
{
    const int t = int(threadIdx.x);
#ifdef FIXED
    const unsigned mask = 0xffffu;
#else
    const unsigned mask = 0xffffffffu;
#endif
    int value = t;
    if (t < 16)
        value += __shfl_down_sync(mask, value, 1, 16); // here
    __syncthreads();
    data[t] = value;
}
