#include "ATen/ATen.h"
#include "ATen/AccumulateType.h"
#include "ATen/cuda/CUDAContext.h"
#include "ATen/cuda/DeviceUtils.cuh"

#include <cuda.h>
#include <cuda_runtime.h>

namespace {
template <typename T>
struct SharedMemory;

template <>
struct SharedMemory<float> {
    __device__ float* getPointer() {
        extern __shared__ float s_float[];
        return s_float;
    }
};

template <typename U>
__device__ U warp_sum(U value) {
    for (int offset = C10_WARP_SIZE / 2; offset > 0; offset >>= 1)
        value += WARP_SHFL_XOR(value, offset);
    return value;
}
}  // namespace

template <typename T, typename U, typename V = T>
__global__ void C10_LAUNCH_BOUNDS_1(1024) cuApplyLayerNorm(
    V* __restrict__ output, U* __restrict__ mean, const T* __restrict__ vals, int n1, int n2, U epsilon,
    const V* __restrict__ gamma)
{
    SharedMemory<U> shared;
    U* buf = shared.getPointer();
    for (int i1 = blockIdx.x; i1 < n1; i1 += gridDim.x) {
        const T* lvals = vals + i1 * n2;
        U sum = 0, square = 0;
        for (int i = threadIdx.x; i < n2; i += C10_WARP_SIZE) {
            U curr = static_cast<U>(lvals[i]);
            sum += curr;
        }
        U mu = warp_sum(sum) / n2;
        for (int i = threadIdx.x; i < n2; i += C10_WARP_SIZE)
            square += (static_cast<U>(lvals[i]) - mu) * (static_cast<U>(lvals[i]) - mu);
        if (threadIdx.x == 0)
            buf[0] = rsqrt(warp_sum(square) / n2 + epsilon);
        else
            warp_sum(square);
        __syncthreads();
        for (int i = threadIdx.x; i < n2; i += C10_WARP_SIZE)
            output[i1 * n2 + i] = gamma[i] * static_cast<V>(buf[0] * (static_cast<U>(lvals[i]) - mu));
        if (threadIdx.x == 0) mean[i1] = mu;
        __syncthreads();
    }
}

#define DISPATCH_FLOAT_AND_HALF(TYPE, LEVEL, NAME, ...) \
    switch (TYPE) { \
        case at::ScalarType::Float: { using scalar_t_##LEVEL = float; __VA_ARGS__; break; } \
        case at::ScalarType::Half: { using scalar_t_##LEVEL = at::Half; __VA_ARGS__; break; } \
        default: AT_ERROR(#NAME, " not implemented for '", toString(TYPE), "'"); \
    }

template <typename T, typename U, typename V = T>
void HostApplyLayerNorm(V* output, U* mean, const T* input, int n1, int n2, double epsilon, const V* gamma) {
    auto stream = at::cuda::getCurrentCUDAStream().stream();
    const uint64_t maxGridY = at::cuda::getCurrentDeviceProperties()->maxGridSize[1];
    cuApplyLayerNorm<<<n1, 32, sizeof(U), stream>>>(output, mean, input, n1, n2, U(epsilon), gamma);
}

void cuda_layer_norm(at::Tensor* output, at::Tensor* mean, at::Tensor* input, int n1, int n2,
#ifdef VERSION_GE_1_1
                     at::IntArrayRef normalized_shape,
#else
                     at::IntList normalized_shape,
#endif
                     at::Tensor* gamma, double epsilon) {
    using namespace at;
    DISPATCH_FLOAT_AND_HALF(input->scalar_type(), 0, "layer_norm_cuda_kernel",
        using accscalar_t = at::acc_type<scalar_t_0, true>;
        HostApplyLayerNorm<scalar_t_0, accscalar_t>(output->data_ptr<scalar_t_0>(), mean->data_ptr<accscalar_t>(),
            input->data_ptr<scalar_t_0>(), n1, n2, epsilon, gamma->data_ptr<scalar_t_0>());)
}
