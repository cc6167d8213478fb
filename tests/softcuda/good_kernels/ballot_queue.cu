// Lanes append to their warp's queue, each at the place that a ballot gives it, and read it backwards.
// Broken: no __syncwarp between appending and reading.

extern "C" __global__ void ballot_queue(int* out)
{
    __shared__ int queue[2][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = 0;
    for (int round = 0; round < 3; ++round) {
        const bool has = (lane + round) % 3 == 0;
        const unsigned votes = __ballot_sync(0xffffffffu, has);
        if (has)
            queue[warp][__popc(votes & ((1u << lane) - 1))] = int(lane);
#ifndef BROKEN
        __syncwarp();
#endif
        const int length = __popc(votes);
        if (int(lane) < length)
            sum += queue[warp][length - 1 - lane];
        __syncwarp();
    }
    out[threadIdx.x] = sum;
}
