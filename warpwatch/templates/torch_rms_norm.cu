// Root mean square normalisation, as a source of a PyTorch extension: y[row][i] = x[row][i] * scale * weight[i], where
// scale is 1 / sqrt(mean of the row's squares + eps).
//
// A block computes one row. Each thread takes every blockDim.x-th element, and the block joins their sums by halves.
// Any n works; blockDim.x must be a power of two, at most 1024.

#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

template <typename scalar_t>
__global__ void rms_norm_kernel(scalar_t* y, const scalar_t* x, const scalar_t* weight, float eps, int n)
{
    __shared__ float partial[1024];
    const size_t row = (size_t)blockIdx.x * n;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float value = static_cast<float>(x[row + i]);
        sum += value * value;
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    const float scale = rsqrtf(partial[0] / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[row + i] = static_cast<scalar_t>(static_cast<float>(x[row + i]) * scale * static_cast<float>(weight[i]));
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight, double eps)
{
    auto y = torch::empty_like(x);
    const int n = x.size(-1);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "rms_norm", [&] {
        rms_norm_kernel<scalar_t><<<x.numel() / n, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
            y.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), float(eps), n);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("rms_norm", &rms_norm); }
