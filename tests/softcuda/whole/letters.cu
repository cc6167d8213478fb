// Macros of single letters before everything, as many files have them.
#define A 2.0f
#define B 3
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define K 4
#define M 5
#define N 7
#define S 1
#define T float
#define V 6
#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <time.h>
#if defined(__NVCC__) || 1
__device__ __noinline__ T shifted(T value) { return __shfl_xor_sync(0xffffffffu, value, S) + max(K, M); }
#else
#error not here
#endif
__global__ void kernel(const T* in, T* out, int n)
{
    const T other = __shfl_xor_sync(0xffffffffu, in[I], S);
    const clock_t begin = clock();
    if (I < n)
        out[I] = A * other + B + max(K, M) + min(V, N) + __half2float(__float2half(1.0f)) + (clock() < begin);
}
int main()
{
    printf("%ld\n", (long)clock());
    kernel<<<B, K>>>(nullptr, nullptr, N);
}
