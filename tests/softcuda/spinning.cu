// Threads and blocks that wait for one another's writes, for test_spinning.py. Each kernel takes 64 ints that are zero.
extern "C" __global__ void waits_for_a_later_block(int* data)
{
    volatile int* flag = data + 63;
    if (threadIdx.x)
        return;
    if (blockIdx.x == 0) {
        while (*flag == 0)
            ;
        __threadfence();
        data[0] = data[1] + 1;
    } else if (blockIdx.x == gridDim.x - 1) {
        data[1] = 41;
        __threadfence();
        *flag = 1;
    }
}

extern "C" __global__ void all_blocks_meet(int* data)
{
    const int last = int(gridDim.x) - 1, block = int(blockIdx.x);
    for (int round = 1; round <= 3; ++round) {
        if (threadIdx.x == 0)
            data[block] = round + data[block];
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(data + 63, 1);
            while (atomicAdd(data + 63, 0) < round * int(gridDim.x))
                ;
            __threadfence();
        }
        __syncthreads();
    }
    if (threadIdx.x == 0)
        data[32 + block] = data[last - block];
}

extern "C" __global__ void warps_of_a_block(int* data)
{
    __shared__ int ready;
    __shared__ int value;
    if (threadIdx.x == 0)
        ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        while (atomicAdd(&ready, 0) == 0)
            ;
        __threadfence_block();
        data[blockIdx.x] = value;
    } else if (threadIdx.x == 32) {
        value = 7;
        __threadfence_block();
        atomicExch(&ready, 1);
    }
}

extern "C" __global__ void lock_in_turns(int* data)
{
    if (threadIdx.x)
        return;
    const int me = int(blockIdx.x), blocks = int(gridDim.x);
    while (atomicAdd(data + 63, 0) != blocks - 1 - me) // the last block first
        ;
    __threadfence();
    data[0] = data[0] * 3 + me;
    __threadfence();
    atomicAdd(data + 63, 1);
}

extern "C" __global__ void flag_that_nobody_sets(int* data)
{
    __shared__ int value;
    if (threadIdx.x == 0) {
        while (atomicAdd(data + 5, 0) == 0) // line 75
            ;
        value = 1;
    }
    __syncthreads(); // line 79
    data[threadIdx.x] = value;
}

extern "C" __global__ void each_waits_for_the_other(int* data)
{
    if (threadIdx.x)
        return;
    volatile int *mine = data + blockIdx.x, *other = data + 1 - blockIdx.x;
    while (*other == 0) // line 88
        ;
    *mine = 1;
}

extern "C" __global__ void gives_up(int* data)
{
    if (threadIdx.x)
        return;
    int tries = 0;
    while (atomicAdd(data + 63, 0) == 0 && tries < 100000)
        ++tries;
    const long long begin = clock64();
    while (atomicAdd(data + 63, 0) == 0 && clock64() - begin < 20000000)
        ;
    data[blockIdx.x] = tries;
}
