#include <cuda_fp16.h>
#include <stdio.h>
#include <torch/extension.h>
#include "gemv_cuda.h"

#define WARP_SIZE 32

__device__ __forceinline__ float warp_reduce_sum(float sum) {
#pragma unroll
    for (int i = 4; i >= 0; i--)
        sum += __shfl_down_sync(0xffffffff, sum, 1 << i);
    return sum;
}

__device__ __forceinline__ int make_divisible(int c, int divisor) { return (c + divisor - 1) / divisor; }

// 4 bit weights, 8 of them in a word
__global__ void gemv_kernel(const half* inputs, const uint32_t* weight, const half* scales, half* outputs, const int IC,
                            const int OC) {
    const int oc = blockIdx.x * blockDim.y + threadIdx.y;
    if (oc >= OC) return;
    float psum = 0;
    for (int w = threadIdx.x; w < make_divisible(IC, 8); w += WARP_SIZE) {
        uint32_t packed = weight[oc * make_divisible(IC, 8) + w];
        for (int i = 0; i < 8; i++) {
            float value = __half2float(scales[oc]) * ((float)(packed & 0xF) - 8.f);
            if (w * 8 + i < IC)
                psum += value * __half2float(inputs[w * 8 + i]);
            packed = packed >> 4;
        }
    }
    psum = warp_reduce_sum(psum);
    if (threadIdx.x == 0)
        outputs[oc] = __float2half(psum);
}

torch::Tensor gemv_forward_cuda(torch::Tensor _in_feats, torch::Tensor _kernel, torch::Tensor _scaling_factors) {
    int num_out_channels = _kernel.size(0);
    auto in_feats = reinterpret_cast<half*>(_in_feats.data_ptr<at::Half>());
    auto kernel = reinterpret_cast<uint32_t*>(_kernel.data_ptr<int>());
    auto scaling_factors = reinterpret_cast<half*>(_scaling_factors.data_ptr<at::Half>());
    auto options = torch::TensorOptions().dtype(_in_feats.dtype()).device(_in_feats.device());
    at::Tensor _out_feats = torch::empty({num_out_channels}, options);
    dim3 num_threads(32, 4);
    gemv_kernel<<<(num_out_channels + 3) / 4, num_threads>>>(in_feats, kernel, scaling_factors,
        reinterpret_cast<half*>(_out_feats.data_ptr<at::Half>()), _in_feats.size(0), num_out_channels);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return _out_feats;
}
