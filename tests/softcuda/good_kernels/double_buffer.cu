// Two buffers in turn, so that one __syncwarp a step is enough.
// Broken: one buffer for all steps.

extern "C" __global__ void double_buffer(int* out)
{
    __shared__ int buffers[2][2][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int value = int(lane);
    for (int step = 0; step < 6; ++step) {
#ifdef BROKEN
        int* buffer = buffers[warp][0];
#else
        int* buffer = buffers[warp][step % 2];
#endif
        buffer[lane] = value;
        __syncwarp();
        value = buffer[(lane + 1) % 32];
    }
    out[threadIdx.x] = value;
}
