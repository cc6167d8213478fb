// Puts new inputs together from two draws, in pieces of one sector of memory, which are as quick to read as whole lines.
#define PIECE 32

__device__ unsigned long long mixed(unsigned long long x) // the finaliser of splitmix64
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Fills ``bytes`` of an array: each piece is one of either draw, ``drawn`` bytes. ``seed`` decides which.
extern "C" __global__ void choose(unsigned char* to, const unsigned char* one, const unsigned char* other, size_t bytes,
    size_t drawn, unsigned long long seed)
{
    const size_t whole = bytes / PIECE, pieces = (bytes + PIECE - 1) / PIECE, step = gridDim.x * size_t(blockDim.x);
    const size_t there = drawn / PIECE;
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < pieces; i += step) {
        const unsigned long long chosen = mixed(seed + 0x9e3779b97f4a7c15ull * (i + 1));
        const unsigned char* const from = (chosen & 1 ? other : one) + (there ? (chosen >> 1) % there * PIECE : 0);
        if (i < whole)
            for (int part = 0; part < PIECE / 16; ++part)
                reinterpret_cast<uint4*>(to + i * PIECE)[part] = reinterpret_cast<const uint4*>(from)[part];
        else
            for (size_t byte = 0; byte < bytes % PIECE; ++byte)
                to[i * PIECE + byte] = from[byte];
    }
}
