// Each thread waits for the one that it depends on, in a tree, and thread 0 tells all when it has begun.
// Broken: no fence between a value and its flag.

#ifdef BROKEN
#define FENCE()
#else
#define FENCE() __threadfence()
#endif

extern "C" __global__ void flags_of_a_warp(int* out)
{
    volatile int *begun = out, *flags = out + 1;
    int* values = out + 1 + blockDim.x;
    const int t = threadIdx.x, needs = t ^ (t & -t); // without the lowest bit that is set
    const bool is_mine = flags[t] == 0;              // until it sets that itself
    if (t == 0 && is_mine) {
        values[0] = 1;
        FENCE();
        flags[0] = 1;
        FENCE();
        *begun = 1;
    }
    while (flags[needs] == 0 || *begun == 0)
        ;
    __threadfence(); // what it orders lies before it
    if (t > 0 && is_mine) {
        values[t] = values[needs] + t;
        FENCE();
        flags[t] = 1;
    }
}
