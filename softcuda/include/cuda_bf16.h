// bfloat16: the upper half of a float32, as CUDA's header of this name has it.
#pragma once

#include "softcuda/narrow_floats.h"

#define SOFTCUDA_T __nv_bfloat16
#define SOFTCUDA_T2 __nv_bfloat162
#define SOFTCUDA_BITS __nv_bfloat16_raw
#define SOFTCUDA_BITS2 __nv_bfloat162_raw
#define SOFTCUDA_NAME bfloat16
#define SOFTCUDA_FRACTION 7
#include "softcuda/narrow_type.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000U)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
