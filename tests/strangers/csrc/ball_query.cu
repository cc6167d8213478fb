#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ball_query.h"

__global__ void ball_query_kernel(int n, int m, float radius, const float *__restrict__ new_xyz,
    const float *__restrict__ xyz, int *__restrict__ count) {
    int pt_idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (pt_idx >= m) return;
    new_xyz += pt_idx * 3;
    float radius2 = radius * radius;
    int cnt = 0;
    for (int k = 0; k < n; ++k) {
        float x = new_xyz[0] - xyz[k * 3], y = new_xyz[1] - xyz[k * 3 + 1], z = new_xyz[2] - xyz[k * 3 + 2];
        cnt += x * x + y * y + z * z < radius2;
    }
    count[pt_idx] = cnt;
}

void ball_query_launcher(int n, int m, float radius, const float *new_xyz, const float *xyz, int *idx, cudaStream_t stream) {
    cudaError_t err;
    dim3 blocks(DIVUP(m, THREADS_PER_BLOCK)), threads(THREADS_PER_BLOCK);
    ball_query_kernel<<<blocks, threads, 0, stream>>>(n, m, radius, new_xyz, xyz, idx);
    err = cudaGetLastError();
    if (cudaSuccess != err) {
        fprintf(stderr, "CUDA kernel failed : %s\n", cudaGetErrorString(err));
        exit(-1);
    }
}

int ball_query_wrapper(int n, int m, float radius, at::Tensor new_xyz, at::Tensor xyz, at::Tensor idx) {
    CHECK_CUDA(new_xyz);
    cudaStream_t stream = THCState_getCurrentStream(state);
    ball_query_launcher(n, m, radius, new_xyz.data<float>(), xyz.data<float>(), idx.data<int>(), stream);
    return 1;
}
