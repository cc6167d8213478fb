// Kernels that tests/softcuda/streams.py launches in several streams: of 256 threads, a number each.
__constant__ int step[4];
__device__ int total;

extern "C" __global__ void produce(int* to, int first)
{
    to[first + threadIdx.x] = threadIdx.x;
}

extern "C" __global__ void consume(int* to, const int* from)
{
    to[threadIdx.x] = from[threadIdx.x];
}

extern "C" __global__ void count(int* counter)
{
    atomicAdd(counter, 1);
}

extern "C" __global__ void scale(int* to)
{
    to[threadIdx.x] = step[threadIdx.x % 2];
}

extern "C" __global__ void add_up()
{
    if (threadIdx.x == 0)
        total = 1;
}

extern "C" __global__ void count_up()
{
    if (threadIdx.x == 0)
        total += 1;
}

extern "C" __global__ void fill_bytes(char* to, int first, int count)
{
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        to[first + i] = 1;
}

// Of programmatic dependent launches.

extern "C" __global__ void produce_early(int* to)
{
    to[threadIdx.x] = threadIdx.x;
    cudaTriggerProgrammaticLaunchCompletion();
}

extern "C" __global__ void consume_after_wait(int* to, const int* from)
{
    cudaGridDependencySynchronize();
    to[threadIdx.x] = from[threadIdx.x];
}

extern "C" __global__ void consume_before_wait(int* to, const int* from)
{
    const int value = from[threadIdx.x];
    asm volatile("griddepcontrol.wait;" ::: "memory");
    to[threadIdx.x] = value;
}

extern "C" __global__ void consume_where_one_waits(int* to, const int* from)
{
    if (threadIdx.x == 77)
        asm volatile("griddepcontrol.wait;" ::: "memory");
    __syncthreads();
    to[threadIdx.x] = from[threadIdx.x];
    asm volatile("griddepcontrol.launch_dependents;");
}

extern "C" __global__ void consume_where_a_warp_waits(int* to, const int* from)
{
    if (threadIdx.x < 32)
        cudaGridDependencySynchronize();
    to[threadIdx.x] = from[threadIdx.x];
}

extern "C" __global__ void consume_where_a_block_waits(int* to, const int* from)
{
    if (blockIdx.x == 0)
        cudaGridDependencySynchronize();
    const unsigned i = blockIdx.x * blockDim.x / gridDim.x + threadIdx.x;
    if (threadIdx.x < blockDim.x / gridDim.x)
        to[i] = from[i];
}

// With a grid for a large array, of which the checker remembers less from 16 MiB on.
extern "C" __global__ void fill_large(int* to)
{
    to[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
