// Atomic functions of ATen/cuda/Atomic.cuh, where PyTorch's headers are missing.
#ifndef SOFTCUDA_TORCH_ATOMICS_H
#define SOFTCUDA_TORCH_ATOMICS_H

#include "types.h"

template <typename T>
inline __device__ T gpuAtomicAdd(T* address, T value)
{
    return atomicAdd(address, value);
}

inline __device__ c10::Half gpuAtomicAdd(c10::Half* address, c10::Half value)
{
    return atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value));
}

inline __device__ c10::BFloat16 gpuAtomicAdd(c10::BFloat16* address, c10::BFloat16 value)
{
    return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}

inline __device__ int64_t gpuAtomicAdd(int64_t* address, int64_t value)
{
    return (int64_t)atomicAdd(reinterpret_cast<unsigned long long*>(address), (unsigned long long)value);
}

inline __device__ c10::Half atomicAdd(c10::Half* address, c10::Half value) { return gpuAtomicAdd(address, value); }

inline __device__ c10::BFloat16 atomicAdd(c10::BFloat16* address, c10::BFloat16 value)
{
    return gpuAtomicAdd(address, value);
}

inline __device__ int64_t atomicAdd(int64_t* address, int64_t value) { return gpuAtomicAdd(address, value); }

template <typename T>
inline __device__ void gpuAtomicAddNoReturn(T* address, T value)
{
    gpuAtomicAdd(address, value);
}

namespace at {
namespace native {
template <typename T, typename index_t>
inline __device__ void fastAtomicAdd(T* tensor, index_t index, index_t numel, T value, bool fast_atomics)
{
    gpuAtomicAddNoReturn(tensor + index, value);
}
}  // namespace native
}  // namespace at
#endif
