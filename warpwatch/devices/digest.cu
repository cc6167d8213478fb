// Adds up the mixed words of ranges of memory (digest.h), so that a change shows without a copy to the host.
// The grid's y is the number of ranges; its x may be any. Blocks are whole warps, at most 32.
// Costs: each word read once, one atomic addition a block.
#include "digest.h"

struct Range {
    const unsigned* words;
    unsigned long long bytes, sum;
};

extern "C" __global__ void digest(Range* ranges)
{
    __shared__ unsigned long long parts[32];
    Range& range = ranges[blockIdx.y];
    const unsigned long long count = range.bytes / 4, rest = range.bytes % 4;
    const unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    const unsigned long long step = blockDim.x * (unsigned long long)gridDim.x;
    unsigned long long own = 0;
    for (unsigned long long i = first; i < count; i += step)
        own += mixed(range.words[i], i);
    if (first == 0 && rest) { // elements smaller than a word
        unsigned last = 0;
        for (unsigned long long i = 0; i < rest; ++i)
            last |= unsigned(reinterpret_cast<const unsigned char*>(range.words + count)[i]) << 8 * i;
        own += mixed(last, count);
    }
    for (int apart = 16; apart; apart /= 2)
        own += __shfl_xor_sync(0xffffffffu, own, apart);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned warp = 1; warp < blockDim.x / 32; ++warp)
            own += parts[warp];
        atomicAdd(&range.sum, own);
    }
}
