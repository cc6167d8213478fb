// Adds up the mixed words of ranges of memory (digest.h), so that a change shows without a copy to the host.
// The grid's y is the number of ranges; its x may be any. Costs: each word read once, one atomic addition a thread. The
// threads of a warp add to addresses of their own: 500,000 additions to one would take longer than to read 64 MB.
#include "digest.h"

#define SUMS 32

struct Range {
    const unsigned* words;
    unsigned long long bytes, sums[SUMS];
};

extern "C" __global__ void digest(Range* ranges)
{
    Range& range = ranges[blockIdx.y];
    const unsigned long long count = range.bytes / 4, rest = range.bytes % 4;
    const unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    const unsigned long long step = blockDim.x * (unsigned long long)gridDim.x;
    unsigned long long own = 0;
#pragma unroll 4 // so many loads are under way at a time
    for (unsigned long long i = first; i < count; i += step)
        own += mixed(range.words[i], i);
    if (first == 0 && rest) { // elements smaller than a word
        unsigned last = 0;
        for (unsigned long long i = 0; i < rest; ++i)
            last |= unsigned(reinterpret_cast<const unsigned char*>(range.words + count)[i]) << 8 * i;
        own += mixed(last, count);
    }
    if (own)
        atomicAdd(&range.sums[threadIdx.x % SUMS], own);
}
