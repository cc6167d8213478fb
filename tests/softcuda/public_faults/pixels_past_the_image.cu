// The last block's threads past the image are not held back.
// As in zjin-lcf/HeCBench before 2dcec8ad1 (urng)
// Must be found: out of bounds
// Launch: 2 blocks of 64 threads, 100 ints

extern "C" __global__ void pixels_past_the_image(int* data)
{
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
#ifdef FIXED
    if (i >= 100)
        return;
#endif
    data[i] += 1; // here
}
