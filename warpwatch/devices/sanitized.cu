// A kernel for each tool of compute-sanitizer, of that name, with a fault that it must find. In 64 threads, on 256 bytes.

extern "C" __global__ void memcheck(float* x)
{
    if (threadIdx.x == 0)
        x[64] = 1;
}

extern "C" __global__ void racecheck(float* x)
{
    __shared__ float shared[64];
    shared[threadIdx.x] = float(threadIdx.x);
    x[threadIdx.x] = shared[63 - threadIdx.x];
}

extern "C" __global__ void initcheck(float* x)
{
    if (threadIdx.x == 0)
        x[0] += 1;
}

extern "C" __global__ void synccheck(float* x)
{
    if (threadIdx.x < 32) {
        __syncthreads();
        x[threadIdx.x] = 1;
    } else {
        x[threadIdx.x] = 2;
        __syncthreads();
        x[threadIdx.x] += 1;
    }
}
