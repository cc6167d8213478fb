// Mixes words and their places into one number: the same words in the same places give the same sum, in whatever
// order they are added.
#pragma once

#ifdef __CUDACC__
#define DIGEST_FUNCTION __device__ inline
#else
#define DIGEST_FUNCTION inline
#endif

// The finaliser of splitmix64: every bit of the sum depends on every bit of word and place.
DIGEST_FUNCTION unsigned long long mixed(unsigned long long word, unsigned long long place)
{
    unsigned long long x = word + 0x9e3779b97f4a7c15ull * (place + 1);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}
