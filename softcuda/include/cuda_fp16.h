// Half precision: IEEE 754 binary16, as CUDA's header of this name has it.
#pragma once

#include "softcuda/narrow_floats.h"

#define SOFTCUDA_T __half
#define SOFTCUDA_T2 __half2
#define SOFTCUDA_BITS __half_raw
#define SOFTCUDA_BITS2 __half2_raw
#define SOFTCUDA_NAME half
#define SOFTCUDA_FRACTION 10
#include "softcuda/narrow_type.h"

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half nv_half;
typedef __half2 __nv_half2;
typedef __half2 nv_half2;
#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000U)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
