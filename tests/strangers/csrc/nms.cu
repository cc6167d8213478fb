#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/types.h>

using at::Tensor;

#define THREADS_PER_BLOCK 64
#define CUDA_KERNEL_LOOP(i, n) \
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)

inline int GET_BLOCKS(const int N, const int num_threads = THREADS_PER_BLOCK) {
  int optimal_block_num = (N + num_threads - 1) / num_threads;
  return std::min(optimal_block_num, 4096);
}

__device__ inline bool devIoU(float const *const a, float const *const b, const int offset, const float threshold) {
  float left = fmaxf(a[0], b[0]), right = fminf(a[2], b[2]);
  float top = fmaxf(a[1], b[1]), bottom = fminf(a[3], b[3]);
  float width = fmaxf(right - left + offset, 0.f), height = fmaxf(bottom - top + offset, 0.f);
  float interS = width * height;
  float Sa = (a[2] - a[0] + offset) * (a[3] - a[1] + offset);
  float Sb = (b[2] - b[0] + offset) * (b[3] - b[1] + offset);
  return interS > threshold * (Sa + Sb - interS);
}

__global__ void nms_cuda(const int n_boxes, const float iou_threshold, const int offset, const float *dev_boxes, int *overlaps) {
  CUDA_KERNEL_LOOP(i, n_boxes) {
    int count = 0;
    for (int j = 0; j < n_boxes; j++)
      if (devIoU(dev_boxes + i * 4, dev_boxes + j * 4, offset, iou_threshold)) count++;
    overlaps[i] = count;
  }
}

Tensor NMSCUDAKernelLauncher(Tensor boxes, Tensor scores, float iou_threshold, int offset) {
  at::cuda::CUDAGuard device_guard(boxes.device());
  if (boxes.numel() == 0) {
    return at::empty({0}, boxes.options().dtype(at::kLong));
  }
  auto order_t = std::get<1>(scores.sort(0, /*descending=*/true));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  Tensor mask = at::empty({boxes.size(0)}, boxes.options().dtype(at::kInt));
  nms_cuda<<<GET_BLOCKS(boxes.size(0)), THREADS_PER_BLOCK, 0, stream>>>(
      boxes.size(0), iou_threshold, offset, boxes.data_ptr<float>(), mask.data_ptr<int>());
  AT_CUDA_CHECK(cudaGetLastError());
  return mask;
}
