// Takes a part of the multiprocessors until the host says go, so that the blocks of a kernel beside it run in another
// order. gate[0]: other than 0 once they are to end, in page-locked host memory. The limit, in cycles, is what lets a
// kernel go on whose blocks have to be there all at once. One thread of a block asks; the others only take room.

extern "C" __global__ void occupy(volatile unsigned int* gate, long long limit)
{
    if (threadIdx.x == 0) {
        const long long start = clock64();
        while (gate[0] == 0 && clock64() - start < limit) {
        }
    }
    __syncthreads();
}
