// What kernels use of CUDA C++, a kernel each. tests/devices/test_dialect.py says what each must leave in `out`.

#include <cuda_pipeline_primitives.h>

#define FULL 0xffffffffu

extern "C" __global__ void indices(int* __restrict__ out) { out[blockIdx.x * blockDim.x + threadIdx.x] = gridDim.x * 100 + warpSize; }

extern "C" __global__ void shuffle(int* __restrict__ out) { out[threadIdx.x] = __shfl_sync(FULL, int(threadIdx.x), 5, 16); }
extern "C" __global__ void shuffle_up(int* __restrict__ out) { out[threadIdx.x] = __shfl_up_sync(FULL, int(threadIdx.x), 3); }
extern "C" __global__ void shuffle_down(int* __restrict__ out) { out[threadIdx.x] = __shfl_down_sync(FULL, int(threadIdx.x), 3, 8); }
extern "C" __global__ void shuffle_xor(int* __restrict__ out) { out[threadIdx.x] = __shfl_xor_sync(FULL, int(threadIdx.x), 7); }
extern "C" __global__ void shuffle_double(int* __restrict__ out) { out[threadIdx.x] = int(4 * __shfl_sync(FULL, threadIdx.x * 0.25, 31)); }
extern "C" __global__ void ballot(int* __restrict__ out) { out[threadIdx.x] = __ballot_sync(FULL, threadIdx.x % 3 == 0); }
extern "C" __global__ void votes(int* __restrict__ out) { out[threadIdx.x] = __any_sync(FULL, threadIdx.x == 9) + 2 * __all_sync(FULL, threadIdx.x < 31); }

extern "C" __global__ void half_a_warp(int* __restrict__ out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __ballot_sync(0xffffu, threadIdx.x & 1);
    else
        out[threadIdx.x] = __any_sync(0xffff0000u, 0);
}

extern "C" __global__ void early_return(int* __restrict__ out)
{
    if (threadIdx.x >= 8)
        return;
    out[threadIdx.x] = __ballot_sync(0xffu, 1);
}

extern "C" __global__ void counting_barriers(int* __restrict__ out) // of 64 threads
{
    const int count = __syncthreads_count(threadIdx.x < 40), any = __syncthreads_or(threadIdx.x == 63);
    out[threadIdx.x] = count + 1000 * any + 2000 * __syncthreads_and(threadIdx.x < 63);
}

extern "C" __global__ void shared(int* __restrict__ out)
{
    __shared__ int reversed[64];
    reversed[63 - threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = reversed[threadIdx.x];
}

extern "C" __global__ void dynamic_shared(int* __restrict__ out)
{
    extern __shared__ int reversed_too[];
    reversed_too[63 - threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = reversed_too[threadIdx.x];
}

// Four copies a thread in groups of two; the second of each is half zeros.
extern "C" __global__ void asynchronous_copies(int* __restrict__ out) // 32 threads
{
    __shared__ __align__(16) int tiles[4][64];
    for (int i = 0; i < 2; ++i)
        out[2 * threadIdx.x + i] = 1 + 2 * threadIdx.x + i;
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
        __pipeline_memcpy_async(&tiles[i][2 * threadIdx.x], out + 2 * threadIdx.x, 8, i % 2 ? 4 : 0);
        if (i % 2)
            __pipeline_commit();
    }
    __pipeline_wait_prior(1); // the second group may still be on its way
    __syncthreads();
    const int other = 31 - threadIdx.x, first = tiles[0][2 * other] + tiles[1][2 * other + 1];
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = 100 * first + tiles[2][2 * other + 1] + tiles[3][2 * other + 1];
    out[32 + threadIdx.x] = tiles[3][2 * other];
}

// As above by PTX, once to what the kernel declares and once to what the launch adds; the second copy is half zeros.
extern "C" __global__ void asynchronous_ptx(int* __restrict__ out) // 32 threads
{
    __shared__ __align__(16) int declared[64];
    extern __shared__ __align__(16) int added[];
    int* const tiles[] = {declared, added};
    for (int i = 0; i < 2; ++i)
        out[2 * threadIdx.x + i] = 1 + 2 * threadIdx.x + i;
    for (int i = 0; i < 2; ++i) {
        int* const to = tiles[i] + 2 * threadIdx.x;
#if __CUDA_ARCH__ >= 800
        const unsigned target = __cvta_generic_to_shared(to);
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;\n"
                     "cp.async.commit_group;" ::"r"(target),
            "l"(out + 2 * threadIdx.x), "r"(i ? 4 : 8), "n"(8)
            : "memory");
#else
        for (int j = 0; j < 2; ++j)
            to[j] = i && j ? 0 : out[2 * threadIdx.x + j];
#endif
    }
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(1) : "memory"); // the second may still be on its way
#endif
    __syncthreads();
    const int other = 31 - threadIdx.x, first = declared[2 * other] + declared[2 * other + 1];
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
    out[threadIdx.x] = 100 * first + added[2 * other];
    out[32 + threadIdx.x] = added[2 * other + 1];
}

extern "C" __global__ void atomics(int* __restrict__ out) // 3 blocks of 32
{
    atomicAdd(out, 1);
    atomicMax(out + 1, int(threadIdx.x));
    atomicOr(out + 2, 1 << threadIdx.x % 8);
    atomicCAS(out + 3, 0, 7);
    atomicInc((unsigned*)out + 4, 9);
    atomicAdd((float*)out + 5, 0.5f);
    atomicExch(out + 6, 3);
}

extern "C" __global__ void vectors(int* __restrict__ out)
{
    const int4 four = make_int4(1, 2, 3, 4);
    *(int4*)(out + 4 * threadIdx.x) = four;
    const float2 two = make_float2(1, 2);
    if (sizeof(double2) != 16 || alignof(float4) != 16 || two.y != 2)
        out[0] = 0;
}

extern "C" __global__ void integers(int* __restrict__ out)
{
    const int i = threadIdx.x * 0x01234567;
    int* mine = out + 6 * threadIdx.x;
    mine[0] = __popc(i), mine[1] = __clz(i), mine[2] = __ffs(i);
    mine[3] = __mulhi(i, i), mine[4] = __umulhi(i, 77u), mine[5] = __brev(i);
}

extern "C" __global__ void bits_of_floats(int* __restrict__ out) { out[threadIdx.x] = __float_as_int(__int_as_float(0x3f800000 + threadIdx.x) * 2); }
extern "C" __global__ void math(int* __restrict__ out) { out[threadIdx.x] = int(1000 * rsqrtf(4.0f) + sqrtf(81.0f) + __fmaf_rn(2, 3, 4) + fminf(3, 4) + max(3, 5)); }

extern "C" __global__ void load_hints(int* __restrict__ out)
{
    out[threadIdx.x] = threadIdx.x;
    __threadfence();
    __syncwarp();
    const int other = __ldcg(out + (threadIdx.x ^ 1));
    __syncwarp();
    __stcg(out + threadIdx.x, other);
}

extern "C" __global__ void cooperative_loop(int* __restrict__ out) // of 64 threads
{
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < 1000; i += blockDim.x)
        atomicAdd(&sum, i);
    __syncthreads();
    out[threadIdx.x] = sum;
}

template <int N, class T> struct Times {
    T value;
    __device__ T result() const { return value * N; }
};
template <class T> __device__ __forceinline__ T twice(T x) { return x + x; }
extern "C" __global__ void __launch_bounds__(64, 2) templates(int* __restrict__ out)
{
    const Times<3, int> times = {int(threadIdx.x)};
    out[threadIdx.x] = twice(times.result());
}

#define KERNEL extern "C" __global__ void
KERNEL by_macro(int* out) { out[threadIdx.x] = 9; }

__device__ int counter = 5;
__constant__ int powers[4] = {1, 10, 100, 1000};
extern "C" __global__ void module_variables(int* __restrict__ out) // one block of 32
{
    atomicAdd(&counter, 1);
    __syncthreads();
    out[threadIdx.x] = counter * powers[threadIdx.x % 4];
}

__constant__ int weights[32];
extern "C" __global__ void filled_constant(int* __restrict__ out) { out[threadIdx.x] = 2 * weights[threadIdx.x]; }

extern "C" __global__ void local_arrays(int* __restrict__ out)
{
    int all[8], sum = 0;
    for (int i = 0; i < 8; ++i)
        all[i] = i * threadIdx.x;
    for (int i = 0; i < 8; ++i)
        sum += all[(i + threadIdx.x) % 8];
    out[threadIdx.x] = sum;
}
