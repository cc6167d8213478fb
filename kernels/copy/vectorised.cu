// Copy by loads of 16 bytes, several of them in flight a thread.
// A block copies BLOCK_X elements with BLOCK_X / 16 threads. Where an array starts off 16 bytes, and at the end,
// elements go one by one: same threads, same order, a quarter of the bytes a load.
// Costs: as naive.cu; 4 loads in flight a thread for float32, 8 for float64.
// Share on an H200, predicted: 0.98; reached: 0.95 of a copy's bandwidth by the driver at 2^26 elements (float32).

struct alignas(16) Pack {
    scalar_t values[16 / sizeof(scalar_t)];
};
constexpr int pack = 16 / sizeof(scalar_t), threads = BLOCK_X / 16, packs = BLOCK_X / pack / threads;

extern "C" __global__ void __launch_bounds__(threads)
copy_vectorised(const scalar_t* a, scalar_t* b, int n)
{
    const size_t first = size_t(blockIdx.x) * BLOCK_X;
    const bool aligned = (size_t(a) | size_t(b)) % 16 == 0;
    if (aligned && first + BLOCK_X <= n) {
        const Pack* from = reinterpret_cast<const Pack*>(a + first);
        Pack* to = reinterpret_cast<Pack*>(b + first);
        Pack held[packs];
#pragma unroll
        for (int i = 0; i < packs; ++i)
            held[i] = from[i * threads + threadIdx.x];
#pragma unroll
        for (int i = 0; i < packs; ++i)
            to[i * threads + threadIdx.x] = held[i];
    } else {
        for (size_t i = first + threadIdx.x; i < min(first + BLOCK_X, size_t(n)); i += threads)
            b[i] = a[i];
    }
}
