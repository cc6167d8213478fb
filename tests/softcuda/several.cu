// Kernels with several faults each, for test_several.py. Each takes 64 ints.
extern "C" __global__ void three_kinds(int* out)
{
    __shared__ int tile[64], other[64];
    const int i = int(threadIdx.x);
    tile[i] = i;
    const int near = tile[i ^ 32]; // line 7: a race with line 6
    __syncthreads();
    const int unset = other[i ^ 1]; // line 9: nothing writes it
    out[i + (i == 63)] = near + unset; // line 10: past the end, and a race with itself
    tile[i + 1] = i; // line 11: past the end
}

extern "C" __global__ void far_away(int* out)
{
    const int i = int(threadIdx.x);
    out[i + 100000000] = i; // line 17: dropped
    const int there = out[i + 50000000]; // line 18
    out[i ^ 1] = there + 1;
    out[i] = 2; // line 20: a race
}

extern "C" __global__ void wild(int* out)
{
    const int i = int(threadIdx.x);
    out[64 + i] = 1; // line 26
    reinterpret_cast<int*>(16)[i] = 1; // line 27: the launch ends
    out[-1] = 1;
}

extern "C" __global__ void many(int* out)
{
    const int i = int(threadIdx.x) + 64;
    out[i] = 1;
    out[i + 1] = 2;
    out[i + 2] = 3;
    out[i + 3] = 4;
    out[i + 4] = 5;
    out[i + 5] = 6;
    out[i + 6] = 7;
    out[i + 7] = 8;
    out[i + 8] = 9;
    out[i + 9] = 10;
}

extern "C" __global__ void goes_wrong_at_a_barrier(int* out)
{
    const int i = int(threadIdx.x);
    out[i] = i;
    out[i ^ 1] = i; // line 50
    if (i < 32)
        __syncthreads(); // line 52
}

extern "C" __global__ void one_missing_barrier(int* out)
{
    __shared__ int tile[64];
    const int i = int(threadIdx.x);
    for (int k = 0; k < 3; ++k) {
        tile[i] = i; // line 60
        out[i] = tile[i ^ 32]; // line 61
    }
}

extern "C" __global__ void runs_on(int* out)
{
    const int i = int(threadIdx.x);
    out[i + 64] = 1; // line 68
    for (volatile unsigned k = 0; out[0] != 5; k = k + 1)
        ;
}
