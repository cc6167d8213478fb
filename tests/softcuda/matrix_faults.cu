// Matrix instructions that go wrong, and one that does not: kernels of two warps, which take zeros.
// tests/softcuda/test_products.py says which line must be named.
#include <mma.h>

#define MMA(d, a, b) \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%0, %1, %2, %3};" \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(b))
#define LDMATRIX(w, address) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(w) : "r"((unsigned)__cvta_generic_to_shared(address)))

// Each warp reads what the other has written.
template <bool waits> __device__ void exchange(unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[2][8][8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    tile[warp][lane / 4][lane % 4 * 2] = tile[warp][lane / 4][lane % 4 * 2 + 1] = 0;
    __syncthreads();
    tile[warp][lane / 4][lane % 4 * 2 + 1] = lane; // wrote
    if (waits)
        __syncthreads();
    LDMATRIX(out[threadIdx.x], tile[1 - warp][lane % 8]); // read
}
extern "C" __global__ void with_barrier(unsigned* out) { exchange<true>(out); }
extern "C" __global__ void without_barrier(unsigned* out) { exchange<false>(out); }

extern "C" __global__ void past_the_end(unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[7][8];
    for (int i = threadIdx.x; i < 7 * 8; i += 64)
        tile[i / 8][i % 8] = i;
    __syncthreads();
    LDMATRIX(out[threadIdx.x], tile[threadIdx.x % 8]); // past_the_end
}
extern "C" __global__ void never_written(unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[8][8];
    if (threadIdx.x < 28)
        tile[threadIdx.x / 4][threadIdx.x % 4 * 2] = tile[threadIdx.x / 4][threadIdx.x % 4 * 2 + 1] = 1;
    __syncthreads();
    LDMATRIX(out[threadIdx.x], tile[threadIdx.x % 8]); // never_written
}
extern "C" __global__ void unaligned(unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[8][10];
    for (int i = threadIdx.x; i < 80; i += 64)
        tile[i / 10][i % 10] = i;
    __syncthreads();
    LDMATRIX(out[threadIdx.x], tile[threadIdx.x % 8]); // unaligned
}
extern "C" __global__ void half_of_a_warp(float* out)
{
    float d[4] = {};
    if (threadIdx.x % 32 < 16)
        MMA(d, 0, 0); // half_of_a_warp
    out[threadIdx.x] = d[0];
}
extern "C" __global__ void lanes_that_returned(float* out)
{
    if (threadIdx.x == 40)
        return;
    float d[4] = {};
    MMA(d, 0, 0); // lanes_that_returned
    out[threadIdx.x] = d[0];
}
extern "C" __global__ void short_warp(float* out)
{
    float d[4] = {};
    MMA(d, 0, 0); // short_warp
    out[threadIdx.x] = d[0];
}
extern "C" __global__ void two_instructions(unsigned* out)
{
    __shared__ __align__(16) unsigned short tile[8][8];
    tile[threadIdx.x / 8][threadIdx.x % 8] = 0;
    __syncthreads();
    float d[4] = {};
    if (threadIdx.x % 32 == 3)
        LDMATRIX(out[threadIdx.x], tile[threadIdx.x % 8]); // two_instructions
    else
        MMA(d, 0, 0); // two_instructions
    out[threadIdx.x] = d[0];
}
extern "C" __global__ void leading_dimension(const half* in)
{
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::load_matrix_sync(a, in, 20); // leading_dimension
}
extern "C" __global__ void too_many_rows(float* out)
{
    using namespace nvcuda;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::store_matrix_sync(out, sum, 16, wmma::mem_col_major); // too_many_rows
}
