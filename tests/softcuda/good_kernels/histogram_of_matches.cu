// Lanes with the same key elect one of them, who adds for all.
// Broken: the addition is not atomic.

extern "C" __global__ void histogram_of_matches(int* out)
{
    const unsigned lane = threadIdx.x % 32, key = threadIdx.x * 7 % 5;
    const unsigned same = __match_any_sync(0xffffffffu, key);
    if (int(lane) == __ffs(int(same)) - 1) {
#ifdef BROKEN
        out[key] += __popc(same);
#else
        atomicAdd(&out[key], __popc(same));
#endif
    }
}
