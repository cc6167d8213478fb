// A product on tensor cores of operands that copies bring while the one before is computed: cuda/barrier, cuda/pipeline
// and mma.h in one file. A is 32 x 64 and B 64 x 16, by rows; each of two warps makes 16 rows of C.
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_fp16.h>
#include <mma.h>

#ifndef BROKEN
#define BROKEN 0
#endif

namespace wmma = nvcuda::wmma;
constexpr int DEPTH = 64, STEP = 16, STEPS = DEPTH / STEP, STAGES = 2;

extern "C" __global__ void staged_products(const half* a, const half* b, float* c)
{
    __shared__ alignas(32) half a_tiles[STAGES][32 * STEP];
    __shared__ alignas(32) half b_all[DEPTH * 16];
    __shared__ cuda::barrier<cuda::thread_scope_block> b_here;
    const unsigned thread = threadIdx.x, warp = thread / 32;
    const auto piece = cuda::aligned_size_t<16>(16);
    if (thread == 0)
        init(&b_here, blockDim.x);
    __syncthreads();

    auto pipeline = cuda::make_pipeline();
    const unsigned row = 31 - thread / 2, column = thread % 2 * 8; // of the other warp's half
    auto fetch = [&](int step) {
        pipeline.producer_acquire();
        if (step < STEPS)
            cuda::memcpy_async(
                a_tiles[step % STAGES] + row * STEP + column, a + row * DEPTH + step * STEP + column, piece, pipeline);
        pipeline.producer_commit();
    };
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    wmma::fill_fragment(sums, 0.0f);
    fetch(0);
    for (unsigned i = thread; i < DEPTH * 2; i += blockDim.x)
        cuda::memcpy_async(b_all + 8 * i, b + 8 * i, piece, b_here);
    if (BROKEN != 1)
        b_here.arrive_and_wait();
    for (int step = 0; step < STEPS; ++step) {
        fetch(step + 1);
        cuda::pipeline_consumer_wait_prior<BROKEN == 2 ? 2 : 1>(pipeline);
        if (BROKEN != 3)
            __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
        wmma::load_matrix_sync(left, a_tiles[step % STAGES] + warp * 16 * STEP, STEP);
        wmma::load_matrix_sync(right, b_all + step * STEP * 16, 16);
        wmma::mma_sync(sums, left, right, sums);
        if (BROKEN != 4)
            __syncthreads();
        pipeline.consumer_release();
    }
    wmma::store_matrix_sync(c + warp * 16 * 16, sums, 16, wmma::mem_row_major);
}
