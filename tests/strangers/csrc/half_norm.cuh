#ifndef _half_norm_cuh
#define _half_norm_cuh

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cublas_v2.h>
#include <ATen/cuda/CUDAContext.h>

#include "exllama/tuning.h"

class CudaBuffers
{
public:
    int device;
    half* temp_state;
    cublasHandle_t handle;
    CudaBuffers(int _device, half* _temp_state);
    ~CudaBuffers();
    void zero_temp(at::Tensor t) { t.zero_(); cublasSetStream(handle, at::cuda::getCurrentCUDAStream()); }
};

CudaBuffers* get_buffers(const int device_index);
void rms_norm_cuda(ExLlamaTuning* tuningParams, half* x, const half* w, half* out, const float epsilon, const int rows,
                   const int dim, const int device_index);

#endif
