// CUDA's runtime as far as declarations beside kernels name it: types, and functions that are never called here.
#pragma once

#define SOFTCUDA_HANDLE(name, behind) typedef struct behind* name;
SOFTCUDA_HANDLE(cudaStream_t, CUstream_st)
SOFTCUDA_HANDLE(cudaEvent_t, CUevent_st)
SOFTCUDA_HANDLE(cudaGraph_t, CUgraph_st)
SOFTCUDA_HANDLE(cudaGraphExec_t, CUgraphExec_st)
SOFTCUDA_HANDLE(cudaGraphNode_t, CUgraphNode_st)
SOFTCUDA_HANDLE(cudaMemPool_t, CUmemPoolHandle_st)
SOFTCUDA_HANDLE(cudaArray_t, cudaArray)
SOFTCUDA_HANDLE(CUstream, CUstream_st)
SOFTCUDA_HANDLE(CUevent, CUevent_st)
SOFTCUDA_HANDLE(CUcontext, CUctx_st)
SOFTCUDA_HANDLE(CUmodule, CUmod_st)
SOFTCUDA_HANDLE(CUfunction, CUfunc_st)
#undef SOFTCUDA_HANDLE
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorUnknown = 999 };
typedef cudaError cudaError_t;
enum cudaError_enum { CUDA_SUCCESS = 0 };
typedef cudaError_enum CUresult;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_8I = 3, CUDA_R_32I = 10, CUDA_R_16BF = 14 };
typedef cudaDataType_t cudaDataType;
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };
struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };
struct cudaPitchedPtr { void* ptr; size_t pitch, xsize, ysize; };
struct cudaDeviceProp;

// A function of both sides may call them; what a kernel does with them is not linked.
#define SOFTCUDA_HOST(result, name) template <class... Softcuda_types> result name(Softcuda_types...);
SOFTCUDA_HOST(cudaError_t, cudaMalloc)
SOFTCUDA_HOST(cudaError_t, cudaMallocHost)
SOFTCUDA_HOST(cudaError_t, cudaMallocManaged)
SOFTCUDA_HOST(cudaError_t, cudaFree)
SOFTCUDA_HOST(cudaError_t, cudaFreeHost)
SOFTCUDA_HOST(cudaError_t, cudaMemcpy)
SOFTCUDA_HOST(cudaError_t, cudaMemcpyAsync)
SOFTCUDA_HOST(cudaError_t, cudaMemset)
SOFTCUDA_HOST(cudaError_t, cudaMemsetAsync)
SOFTCUDA_HOST(cudaError_t, cudaGetLastError)
SOFTCUDA_HOST(cudaError_t, cudaPeekAtLastError)
SOFTCUDA_HOST(cudaError_t, cudaGetDevice)
SOFTCUDA_HOST(cudaError_t, cudaDeviceGetAttribute)
SOFTCUDA_HOST(const char*, cudaGetErrorString)
SOFTCUDA_HOST(const char*, cudaGetErrorName)
#undef SOFTCUDA_HOST
