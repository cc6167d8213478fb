// Faults that the software device does not see, a line of "where it is blind" each. An array of ints that are zero.
#include <cuda/atomic>
#include <cuda/barrier>

#define KERNEL(name) extern "C" __global__ void name(int* data)

KERNEL(branch_not_taken)
{
    if (data[63])
        data[1 << 24] = 1;
}

// Beyond the first 256 pages of 64 KiB that a launch touches.
__device__ short* far_away(int* data, int pages)
{
    if (threadIdx.x == 0)
        for (int i = 0; i < pages; ++i)
            data[i << 14] = 1;
    __syncthreads();
    return reinterpret_cast<short*>(data + (pages << 14));
}
KERNEL(far_halves) { far_away(data, 256)[0] = threadIdx.x; }
KERNEL(near_halves) { far_away(data, 255)[0] = threadIdx.x; }
KERNEL(far_word_that_an_earlier_block_read)
{
    int* far = reinterpret_cast<int*>(far_away(data + 64 * blockIdx.x, 256));
    far += 512 - 64 * blockIdx.x;
    if (threadIdx.x == 0)
        blockIdx.x ? void(*far = 1) : void(data[1] = *far);
}

KERNEL(ordered_by_a_vote)
{
    __shared__ int row[32];
    row[threadIdx.x] = threadIdx.x;
    __ballot_sync(0xffffffff, 1);
    data[threadIdx.x] = row[threadIdx.x ^ 1];
}
KERNEL(plain_write_behind_an_atomic)
{
    if (threadIdx.x == 0)
        data[0] = 5;
    __syncwarp();
    if (threadIdx.x % 32 == 1)
        atomicAdd(data, 1);
}

__device__ int shared_by_all;
KERNEL(device_variable) { shared_by_all = threadIdx.x; }

__device__ void follow(float* __restrict__ to, const float* __restrict__ from)
{
    for (int i = 1; i < 4; ++i)
        to[i] = from[i - 1] + 1;
}
KERNEL(restrict_of_one_thread)
{
    float* row = reinterpret_cast<float*>(data + 2 * threadIdx.x - 2 * threadIdx.x % 4);
    if (threadIdx.x % 4 == 0)
        follow(row, row);
}
extern "C" __global__ void restrict_of_lanes(int* __restrict__ data)
{
    data[threadIdx.x] = threadIdx.x;
    __syncwarp();
    data[32 + threadIdx.x] = data[threadIdx.x ^ 1];
}

KERNEL(equal_values) { data[0] = data[threadIdx.x + 1]; }
KERNEL(around_a_barrier)
{
    if (threadIdx.x < 16)
        __syncthreads();
    if (!data[0])
        return;
    data[threadIdx.x] = 1;
}
KERNEL(flag_of_nothing)
{
    bool found;
    if (data[0])
        found = true;
    data[1] = found;
}
KERNEL(many_threads_of_nothing)
{
    int level;
    if (blockIdx.x == 2000)
        level = 3;
    if (!threadIdx.x && blockIdx.x == 1999)
        data[1] = level > 2;
}
KERNEL(wraps_unsigned) { data[(0x80000000u + blockIdx.x) * 2 + threadIdx.x] = 1; }
KERNEL(blocks_that_took_turns)
{
    volatile int* flag = data + 60;
    if (threadIdx.x)
        return;
    if (blockIdx.x)
        *flag = 1;
    else
        while (!*flag)
            ;
    data[0] = 2 + blockIdx.x;
}
KERNEL(behind_a_pointer)
{
    int own[4] = {};
    int* pointer = own;
    asm volatile("" : "+l"(pointer));
    data[0] = pointer[4 + data[1]] & 0;
}
KERNEL(end_of_a_row)
{
    __shared__ int rows[2][32];
    rows[0][threadIdx.x] = rows[1][threadIdx.x] = threadIdx.x;
    __syncthreads();
    data[threadIdx.x] = rows[0][threadIdx.x + 1 + data[60]];
}

__shared__ cuda::barrier<cuda::thread_scope_block> all;
KERNEL(copy_not_waited_for)
{
    __shared__ int row[32];
    if (threadIdx.x == 0)
        init(&all, 32);
    __syncthreads();
    cuda::memcpy_async(&row[threadIdx.x], data + threadIdx.x, sizeof(int), all);
    (void)all.arrive();
    __syncthreads();
    data[32 + threadIdx.x] = row[31 - threadIdx.x];
}
// Two warps read 32,768 words, of which it is kept who they were, and the one that is written.
KERNEL(word_of_too_many)
{
    if (threadIdx.x == 0)
        init(&all, 64);
    __syncthreads();
    all.arrive_and_wait();
    int sum = 0;
    for (int i = 0; threadIdx.x % 32 == 0 && i < 32768 + 64; ++i)
        sum += data[64 + i];
    if (threadIdx.x == 32)
        data[64 + 32768 + 32] = 1 + sum;
}
