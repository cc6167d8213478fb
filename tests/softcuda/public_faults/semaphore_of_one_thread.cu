// One thread hands on the block's work by a semaphore, and the other threads' writes had no fence.
// As in NVIDIA/Fuser pull request #2391
// Must be found: race between blocks
// Launch: 4 blocks of 32 threads, 64 ints

extern "C" __global__ void semaphore_of_one_thread(int* data)
{
    int *ticket = data + 62, *turn = data + 63;
    const int t = int(threadIdx.x);
    if (t == 0) {
        const int mine = atomicAdd(ticket, 1);
        while (atomicAdd(turn, 0) != mine)
            ;
#ifdef FIXED
        __threadfence();
#endif
    }
    __syncthreads();
    data[t] += 1; // here
#ifdef FIXED
    __threadfence();
#endif
    __syncthreads();
    if (t == 0)
        atomicAdd(turn, 1);
}
