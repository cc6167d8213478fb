// Tells whether ranges of memory have changed without copying them to the host. Any grid will do whose y counts the ranges.
#include "digest.h"

struct Range {
    const unsigned* words;
    unsigned long long count, sum;
};

extern "C" __global__ void digest(Range* ranges)
{
    Range& range = ranges[blockIdx.y];
    const unsigned long long step = blockDim.x * (unsigned long long)gridDim.x;
    unsigned long long own = 0;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < range.count; i += step)
        own += mixed(range.words[i], i);
    if (own)
        atomicAdd(&range.sum, own);
}
