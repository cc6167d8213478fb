// Each thread writes four elements, and neighbours begin one element apart.
// As in xlite-dev/LeetCUDA before 4e45d31e
// Must be found: race|out of bounds
// Launch: 1 block of 16 threads, 64 ints

extern "C" __global__ void four_elements_a_thread_by_ones(int* data)
{
    int t = int(threadIdx.x);
#ifdef FIXED
    t *= 4;
#endif
    for (int i = 0; i < 4; ++i)
        data[t + i] = t; // here
}
