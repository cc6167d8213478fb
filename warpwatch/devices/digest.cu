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
    const unsigned* const words = range.words;
    unsigned long long own = 0;
    unsigned long long i = first;
    for (; i + 3 * step < count; i += 4 * step) { // so that four loads are under way at a time
        const unsigned one = words[i], two = words[i + step];
        const unsigned three = words[i + 2 * step], four = words[i + 3 * step];
        own += mixed(one, i) + mixed(two, i + step) + mixed(three, i + 2 * step) + mixed(four, i + 3 * step);
    }
    for (; i < count; i += step)
        own += mixed(words[i], i);
    if (first == 0 && rest) { // elements smaller than a word
        unsigned last = 0;
        for (unsigned long long byte = 0; byte < rest; ++byte)
            last |= unsigned(reinterpret_cast<const unsigned char*>(words + count)[byte]) << 8 * byte;
        own += mixed(last, count);
    }
    if (own)
        atomicAdd(&range.sums[threadIdx.x % SUMS], own);
}
