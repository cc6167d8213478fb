// CUDA sources include this by habit; everything is in cuda_dialect.h, which is included already.
#pragma once

#define CUDA_VERSION CUDART_VERSION
// How a bulk copy reads a tensor, which the driver encodes; a kernel only hands its address on.
struct alignas(64) CUtensorMap_st {
    unsigned long long opaque[16];
};
typedef CUtensorMap_st CUtensorMap; // as names of kernels have it
