// The lanes of a branch elect a leader among those that are active, who asks for places for all of them.
// Broken: the leader's addition is not atomic.

extern "C" __global__ void leader_of_active_lanes(int* out)
{
    const unsigned lane = threadIdx.x % 32;
    if (threadIdx.x % 3 == 0) {
        const unsigned active = __activemask();
        const int leader = __ffs(int(active)) - 1;
        int first = 0;
        if (int(lane) == leader) {
#ifdef BROKEN
            first = out[0];
            out[0] = first + __popc(active);
#else
            first = atomicAdd(out, __popc(active));
#endif
        }
        first = __shfl_sync(active, first, leader);
        out[1 + first + __popc(active & ((1u << lane) - 1))] = 1;
    }
}
