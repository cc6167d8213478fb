// Holds a stream: one thread that spins until the host says go, so that everything queued behind it starts
// at the GPU's own pace and not at Python's.
// gate[0]: the last ticket that the host let pass; gate[1]: how often a hold ran into its limit. Both lie in
// page-locked host memory. The limit, in cycles, is what keeps a forgotten hold from spinning for ever.

extern "C" __global__ void hold(volatile unsigned int* gate, unsigned int ticket, long long limit)
{
    const long long start = clock64();
    while (gate[0] < ticket) {
        if (clock64() - start > limit) {
            gate[1] = gate[1] + 1;
            __threadfence_system();
            return;
        }
    }
}
