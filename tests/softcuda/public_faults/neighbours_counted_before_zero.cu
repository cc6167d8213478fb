// A thread sets its counter to zero while others already count there atomically.
// As in brucefan1983/CUDA-Programming before b084342
// Must be found: race between blocks|race
// Launch: 2 blocks of 32 threads, 64 ints

extern "C" __global__ void neighbours_counted_before_zero(int* data)
{
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
#ifndef FIXED
    data[i] = 0; // here
#endif
    for (int other = i + 1; other < 64; other += 7)
        atomicAdd(&data[other], 1); // here
}
