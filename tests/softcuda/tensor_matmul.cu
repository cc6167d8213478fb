// C = A B of 32 x 32 x 64 half-precision numbers on the tensor cores, with sums in float32: by a block of two warps, each of
// which computes 16 rows. tests/softcuda/test_wmma.py also runs it without its first or its second barrier.
#include <mma.h>

using namespace nvcuda;

constexpr int N = 32, K = 64, STEP = 16;
#ifndef FIRST
#define FIRST __syncthreads()
#endif
#ifndef SECOND
#define SECOND __syncthreads()
#endif

// The next columns of A and rows of B: each warp brings what the other one needs too.
__device__ void stage(const half* a, const half* b, half (*tile_a)[STEP], half (*tile_b)[N], int from)
{
    for (int i = threadIdx.x; i < N * STEP; i += blockDim.x) {
        tile_a[N - 1 - i / STEP][i % STEP] = a[(N - 1 - i / STEP) * K + from + i % STEP];
        tile_b[i / N][i % N] = b[(from + i / N) * N + i % N];
    }
}

extern "C" __global__ void by_wmma(const half* a, const half* b, float* c)
{
    __shared__ __align__(32) half tile_a[N][STEP], tile_b[STEP][N];
    const int warp = threadIdx.x / 32;
    wmma::fragment<wmma::accumulator, 16, 16, STEP, float> sums[2];
    for (auto& sum : sums)
        wmma::fill_fragment(sum, 0.0f);
    for (int from = 0; from < K; from += STEP) {
        stage(a, b, tile_a, tile_b, from);
        FIRST;
        wmma::fragment<wmma::matrix_a, 16, 16, STEP, half, wmma::row_major> of_a;
        wmma::load_matrix_sync(of_a, tile_a[16 * warp], STEP);
        for (int i = 0; i < 2; ++i) {
            wmma::fragment<wmma::matrix_b, 16, 16, STEP, half, wmma::row_major> of_b;
            wmma::load_matrix_sync(of_b, &tile_b[0][16 * i], N);
            wmma::mma_sync(sums[i], of_a, of_b, sums[i]);
        }
        SECOND;
    }
    for (int i = 0; i < 2; ++i)
        wmma::store_matrix_sync(c + 16 * warp * N + 16 * i, sums[i], N, wmma::mem_row_major);
}

__device__ unsigned shared_address(const void* pointer) { return unsigned(__cvta_generic_to_shared(pointer)); }

extern "C" __global__ void by_ptx(const half* a, const half* b, float* c)
{
    __shared__ __align__(16) half tile_a[N][STEP], tile_b[STEP][N];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float sums[4][4] = {};
    for (int from = 0; from < K; from += STEP) {
        stage(a, b, tile_a, tile_b, from);
        FIRST;
        unsigned of_a[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(of_a[0]), "=r"(of_a[1]), "=r"(of_a[2]), "=r"(of_a[3])
                     : "r"(shared_address(&tile_a[16 * warp + lane % 16][lane / 16 * 8])));
        for (int i = 0; i < 4; ++i) {
            unsigned of_b[2];
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
                         : "=r"(of_b[0]), "=r"(of_b[1]) : "r"(shared_address(&tile_b[lane % 16][8 * i])));
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                         : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])
                         : "r"(of_a[0]), "r"(of_a[1]), "r"(of_a[2]), "r"(of_a[3]), "r"(of_b[0]), "r"(of_b[1]));
        }
        SECOND;
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            c[(16 * warp + lane / 4 + j / 2 * 8) * N + 8 * i + lane % 4 * 2 + j % 2] = sums[i][j];
}
