// Warp functions of ATen/cuda/DeviceUtils.cuh, where PyTorch's headers are missing.
#ifndef SOFTCUDA_TORCH_WARPS_H
#define SOFTCUDA_TORCH_WARPS_H

#include "types.h"

template <typename T>
__device__ __forceinline__ T WARP_SHFL(T value, int lane, int width = 32, unsigned mask = 0xffffffff)
{
    return __shfl_sync(mask, value, lane, width);
}

template <typename T>
__device__ __forceinline__ T WARP_SHFL_XOR(T value, int lanes, int width = 32, unsigned mask = 0xffffffff)
{
    return __shfl_xor_sync(mask, value, lanes, width);
}

template <typename T>
__device__ __forceinline__ T WARP_SHFL_UP(T value, unsigned delta, int width = 32, unsigned mask = 0xffffffff)
{
    return __shfl_up_sync(mask, value, delta, width);
}

template <typename T>
__device__ __forceinline__ T WARP_SHFL_DOWN(T value, unsigned delta, int width = 32, unsigned mask = 0xffffffff)
{
    return __shfl_down_sync(mask, value, delta, width);
}

__device__ __forceinline__ unsigned WARP_BALLOT(int predicate, unsigned mask = 0xffffffff)
{
    return __ballot_sync(mask, predicate);
}

__device__ __forceinline__ unsigned ACTIVE_MASK() { return __activemask(); }

__device__ __forceinline__ void WARP_SYNC(unsigned mask = 0xffffffff) { __syncwarp(mask); }

// Half and BFloat16 are exchanged as their bits.
#define SOFTCUDA_TORCH_SHUFFLES(T)                                                                      \
    template <>                                                                                         \
    __device__ __forceinline__ T WARP_SHFL<T>(T value, int lane, int width, unsigned mask)              \
    {                                                                                                   \
        return T(static_cast<unsigned short>(__shfl_sync(mask, (int)value.x, lane, width)), T::from_bits()); \
    }                                                                                                   \
    template <>                                                                                         \
    __device__ __forceinline__ T WARP_SHFL_XOR<T>(T value, int lanes, int width, unsigned mask)         \
    {                                                                                                   \
        return T(static_cast<unsigned short>(__shfl_xor_sync(mask, (int)value.x, lanes, width)), T::from_bits()); \
    }                                                                                                   \
    template <>                                                                                         \
    __device__ __forceinline__ T WARP_SHFL_UP<T>(T value, unsigned delta, int width, unsigned mask)     \
    {                                                                                                   \
        return T(static_cast<unsigned short>(__shfl_up_sync(mask, (int)value.x, delta, width)), T::from_bits()); \
    }                                                                                                   \
    template <>                                                                                         \
    __device__ __forceinline__ T WARP_SHFL_DOWN<T>(T value, unsigned delta, int width, unsigned mask)   \
    {                                                                                                   \
        return T(static_cast<unsigned short>(__shfl_down_sync(mask, (int)value.x, delta, width)), T::from_bits()); \
    }
SOFTCUDA_TORCH_SHUFFLES(c10::Half)
SOFTCUDA_TORCH_SHUFFLES(c10::BFloat16)
#endif
