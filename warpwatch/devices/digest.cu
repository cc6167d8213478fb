// Adds up the mixed words of ranges of memory (digest.h), so that a change shows without a copy to the host.
// The grid's y is the number of ranges; its x may be any. Costs: each word read once, one atomic addition a thread.
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
