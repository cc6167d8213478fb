// CUDA sources include this by habit; everything is in cuda_dialect.h, which is included already.
#pragma once

#define CUDA_VERSION CUDART_VERSION
