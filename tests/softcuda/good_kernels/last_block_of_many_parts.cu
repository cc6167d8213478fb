// All threads of a block write parts; one of them counts the block; the last block adds up all parts.
// Broken: no barrier between writing and counting.

extern "C" __global__ void last_block_of_many_parts(int* out)
{
    __shared__ bool last;
    int* parts = out + 2;
    parts[blockIdx.x * blockDim.x + threadIdx.x] = int(threadIdx.x);
#ifndef BROKEN
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicInc(reinterpret_cast<unsigned*>(out + 1), gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        for (int i = int(threadIdx.x); i < int(gridDim.x * blockDim.x); i += int(blockDim.x))
            atomicAdd(out, parts[i]);
    }
}
