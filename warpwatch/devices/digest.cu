// Tells whether an array has changed without copying it to the host. Any grid will do.
#include "digest.h"

extern "C" __global__ void digest(const unsigned* words, unsigned long long count, unsigned long long* sum)
{
    const unsigned long long step = blockDim.x * (unsigned long long)gridDim.x;
    unsigned long long own = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count; i += step)
        own += mixed(words[i], i);
    atomicAdd(sum, own);
}
