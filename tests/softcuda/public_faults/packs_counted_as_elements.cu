// A loop over packs of two elements goes on as far as there are elements.
// As in BBuf/how-to-optim-algorithm-in-cuda before e03aa2e
// Must be found: out of bounds
// Launch: 1 block of 32 threads, 128 ints

struct Pack {
    int elements[2];
};

extern "C" __global__ void packs_counted_as_elements(int* data)
{
    const Pack* packs = reinterpret_cast<const Pack*>(data);
    int sum = 0, n = 128;
#ifdef FIXED
    n /= 2;
#endif
    for (int i = int(threadIdx.x); i < n; i += 32)
        sum += packs[i].elements[0] + packs[i].elements[1]; // here
    atomicAdd(&data[0], __reduce_add_sync(0xffffffffu, sum) * 0);
}
