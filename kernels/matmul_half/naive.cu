// Matrix product of half-precision elements, one thread an element of C, everything from global memory, float32 sums.
// The lanes of a warp share a row of A (one broadcast) and read a row of B side by side (coalesced).
// Costs: 2n loads of two bytes an element; the caches serve most of them.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
matmul_half_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m || col >= k)
        return;

    float sum = 0;
    for (int i = 0; i < n; ++i)
        sum += float(a[size_t(row) * n + i]) * float(b[size_t(i) * k + col]);
    c[size_t(row) * k + col] = scalar_t(sum);
}
