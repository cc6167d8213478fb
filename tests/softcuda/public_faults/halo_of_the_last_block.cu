// The halo of a window lies a whole block further on, and a short block's threads do not fill that.
// As in dlsys-course/examples issue #1
// Must be found: uninitialised memory
// Launch: 1 block of 64 threads, 64 ints

extern "C" __global__ void halo_of_the_last_block(int* data)
{
    __shared__ int window[64 + 6];
    const int t = int(threadIdx.x), n = 40;
    if (t < n) {
        window[t + 3] = data[t]; // here
        if (t < 3) {
            window[t] = 0;
#ifdef FIXED
            window[t + 3 + n] = 0;
#else
            window[t + 3 + 64] = 0;
#endif
        }
    }
    __syncthreads();
    int sum = 0;
    if (t < n)
        for (int i = 0; i < 7; ++i)
            sum += window[t + i]; // here
    data[t] = sum;
}
