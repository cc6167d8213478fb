// Histogram of bytes in columns as columns.cu, with loads that never pause: software pipelining. A thread holds the next
// `depth` pieces of 16 bytes in registers, and loads one as soon as it counts another; the first are on their way while
// the bins are cleared. Blocks take their bytes in turns, and so are all done at about the same time. A block of 1,024
// threads has a multiprocessor to itself, and one histogram in place of two.
// Costs: as columns.cu, with four additions for a word of equal bytes too: equal bytes of a warp are in 32 banks all the
// same; 64 registers a thread, and so 1,024 threads a multiprocessor.

constexpr int depth = 4, columns = 32;

extern "C" __global__ void __launch_bounds__(BLOCK_X, 1024 / BLOCK_X)
histogram_pipelined(const scalar_t* keys, unsigned* counts, int n)
{
    __shared__ alignas(16) unsigned bins[256][columns];
    const int lane = threadIdx.x % 32;
    const int head = min(n, int((16 - size_t(keys) % 16) % 16)), packs = (n - head) / 16;
    const uint4* const body = reinterpret_cast<const uint4*>(keys + head);
    const int first = blockIdx.x * BLOCK_X + threadIdx.x, step = gridDim.x * BLOCK_X;

    uint4 held[depth] {};
#pragma unroll
    for (int j = 0; j < depth; ++j)
        if (const int at = first + j * step; at < packs)
            held[j] = __ldcs(body + at);
    for (int i = threadIdx.x; i < 256 * columns / 4; i += BLOCK_X)
        reinterpret_cast<uint4*>(bins)[i] = uint4 {};
    __syncthreads();

    const auto count = [&](unsigned word) {
#pragma unroll
        for (int byte = 0; byte < 4; ++byte)
            atomicAdd(&bins[word >> 8 * byte & 255][lane], 1u);
    };
    for (int i = first; i < packs; i += depth * step) {
#pragma unroll
        for (int j = 0; j < depth; ++j) {
            const int at = i + j * step, later = at + depth * step;
            const uint4 pack = held[j];
            if (later < packs)
                held[j] = __ldcs(body + later);
            if (at < packs) {
                count(pack.x);
                count(pack.y);
                count(pack.z);
                count(pack.w);
            }
        }
    }
    const int edge = threadIdx.x < head ? threadIdx.x : threadIdx.x + packs * 16; // those outside of whole pieces
    if (blockIdx.x == 0 && edge < n)
        atomicAdd(&bins[keys[edge]][lane], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += BLOCK_X) {
        unsigned sum = 0;
#pragma unroll
        for (int column = 0; column < columns; ++column)
            sum += bins[bin][(bin + column) % columns]; // each lane of a warp from another bank
        if (sum)
            atomicAdd(counts + bin, sum);
    }
}
