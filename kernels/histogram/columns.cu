// Histogram of bytes, 32 of each block in shared memory: lane i of every warp counts in column i, which is bank i.
// So no two lanes of a warp meet in a bank, whatever the bytes are; warps that share a column add by atomic operations.
// Four equal bytes in a word, which only uneven data have often, are one addition. A block has an equal share of the
// bytes, read by pieces of 16 with four in flight, also where the array starts off 16 bytes.
// Costs: one conflict-free atomic addition in shared memory a byte; 32 KiB of shared memory; 256 additions in global
// memory a block.

constexpr int in_flight = 4, lanes = 32, line = 128 / 16;

extern "C" __global__ void __launch_bounds__(BLOCK_X)
histogram_columns(const scalar_t* keys, unsigned* counts, int n)
{
    __shared__ unsigned bins[256][lanes];
    for (int i = threadIdx.x; i < 256 * lanes; i += BLOCK_X)
        bins[i / lanes][i % lanes] = 0;
    __syncthreads();

    unsigned* const column = &bins[0][threadIdx.x % lanes];
    const auto count = [&](unsigned word) {
        if (word == __byte_perm(word, 0, 0)) {
            atomicAdd(column + word % 256 * lanes, 4u);
            return;
        }
#pragma unroll
        for (int byte = 0; byte < 4; ++byte)
            atomicAdd(column + (word >> 8 * byte) % 256 * lanes, 1u);
    };
    const int head = min(n, int((16 - size_t(keys) % 16) % 16)), packs = (n - head) / 16;
    const uint4* const body = reinterpret_cast<const uint4*>(keys + head);
    const int share = ((packs - 1) / int(gridDim.x) / line + 1) * line;
    const int first = min(packs, share * int(blockIdx.x)), end = min(packs, first + share);
    for (int i = first + threadIdx.x; i < end; i += in_flight * BLOCK_X) {
        uint4 held[in_flight];
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
            held[j] = i + j * BLOCK_X < end ? body[i + j * BLOCK_X] : uint4 {};
#pragma unroll
        for (int j = 0; j < in_flight; ++j)
            if (i + j * BLOCK_X < end) {
                count(held[j].x);
                count(held[j].y);
                count(held[j].z);
                count(held[j].w);
            }
    }
    const int edge = threadIdx.x < head ? threadIdx.x : threadIdx.x + packs * 16; // those outside of whole pieces
    if (blockIdx.x == 0 && edge < n)
        atomicAdd(column + keys[edge] * lanes, 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += BLOCK_X) {
        unsigned sum = 0;
#pragma unroll
        for (int lane = 0; lane < lanes; ++lane)
            sum += bins[bin][(bin + lane) % lanes]; // each lane of a warp from another bank
        if (sum)
            atomicAdd(counts + bin, sum);
    }
}
