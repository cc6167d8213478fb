"""Chooses and makes the headers that a .cu file needs beside its own."""

from __future__ import annotations

import re
from pathlib import Path

# A header, and what the names look like that are in it.
NAMES = {
    "softcuda/intrinsics/integers.h":
        r"__(?:brev(?:ll)?|byte_perm|fns|nv_bswap\d+|funnelshift_\w+|u?mul24|u?mulhi|u?mul64hi|u?sad|u?r?hadd|dp[24]a\w*)"
        r"|u?mul(?:24|hi|64hi)",
    "softcuda/intrinsics/bits.h":
        r"__double2(?:hi|lo)int|__hiloint2double|__is(?:Global|Shared|Constant|Local)|__cvta_\w+",
    "softcuda/intrinsics/simd.h": r"__v(?:abs|add|avg|cmp|hadd|iadd|ibm|imax|imin|max|min|neg|sad|set|sub)\w+",
    "softcuda/intrinsics/rounding.h": r"__\w+_r[nzud]",
    "softcuda/intrinsics/special_functions.h":
        r"(?:rcbrt|rhypot|(?:sin|cos|sincos)pi|erfcx|erfc?inv|normcdf(?:inv)?|r?norm(?:[34]d)?|cyl_bessel_i[01])f?"
        r"|(?:u|ll|ull)(?:min|max)",
    "softcuda/textures.h":
        r"cuda(?:Texture|Surface|AddressMode|FilterMode|ReadMode|ChannelFormat|BoundaryMode)\w+"
        r"|CU(?:tex|surf)Object|(?:tex|surf)(?:[123]D|Cubemap)\w*",
    "softcuda/ptx_matrices.h": r"[nt]?(?:mma|(?:ld|st)matrix|movmatrix)|rna",  # n, t: of \\n and \\t in front
    # nvcc includes it unasked.
    "cuda/type_traits": r"enable_if(?:_t)?|is_(?:same|integral|floating_point|arithmetic|base_of)(?:_v)?"
                        r"|conditional(?:_t)?|(?:decay|remove_\w+)(?:_t)?|void_t|true_type|false_type",
    "softcuda/ptx.h": r"asm|__asm|__asm__|__barrier_sync(?:_count)?",
}  # fmt: skip


# CUDA's headers of cuBLAS include these, and so does the stand-in for them where it matters: it has the word.
BROUGHT = {"cuda_fp16.h": r"(?:__)?half2?", "cuda_bf16.h": r"(?:__)?nv_bfloat16\w*"}
BRINGS = "softcuda_brings_narrow_floats"


def chosen(text: str) -> list[str]:
    """Return the headers that define a name of the text, in the order of the table."""
    words = "\n".join({*re.findall(r"\w+", text.replace("mma.h", ""))})  # which is no instruction's name
    table = {**BROUGHT, **NAMES} if BRINGS in words else NAMES
    return [header for header, names in table.items() if re.search(f"^(?:{names})$", words, re.MULTILINE)]


# Headers that CUDA's own bring, and that are included where g++ does not know a name of theirs.
BRINGING = {"std": ["algorithm", "cmath", "limits", "utility"], "thrust": ["thrust/tuple.h", "thrust/functional.h"],
            "__": ["softcuda/without_mask.h"]}  # fmt: skip
UNKNOWN = re.compile(
    r"(?:is not a member of|in namespace) [‘'](std|thrust)[’']"
    r"|(?:no arguments to|error:) [‘'](__)(?:shfl(?:_up|_down|_xor)?|ballot|any|all)[’']"
)


def brought(errors: str) -> list[str]:
    """Return the headers that define a name which g++ does not know."""
    spaces = dict.fromkeys(one or other for one, other in UNKNOWN.findall(errors))
    return [header for space in spaces for header in BRINGING[space]]


# What is in cuda_dialect.h already.
COVERED = ["builtin_types.h", "cuda_device_runtime_api.h", "device_atomic_functions.h", "device_double_functions.h",
           "device_types.h", "driver_types.h", "host_config.h", "host_defines.h", "math_functions.h",
           "sm_20_atomic_functions.h", "sm_20_intrinsics.h", "sm_30_intrinsics.h", "sm_32_intrinsics.h",
           "sm_35_intrinsics.h", "sm_60_atomic_functions.h", "sm_61_intrinsics.h", "vector_functions.h",
           "vector_functions.hpp", "driver_functions.h", "library_types.h", "channel_descriptor.h",
           "texture_types.h", "surface_types.h", "cuda_texture_types.h", "cuda_surface_types.h",
           "texture_fetch_functions.h", "texture_indirect_functions.h", "surface_functions.h",
           "surface_indirect_functions.h", "crt/host_defines.h", "cudaTypedefs.h"]  # fmt: skip
# Libraries that host code calls, with the types of their handles.
HANDLES = {
    "cublas.h": "",
    "cublas_v2.h": "cublasHandle_t",
    "cublas_api.h": "cublasHandle_t",
    "cublasLt.h": "cublasLtHandle_t cublasLtMatmulDesc_t cublasLtMatrixLayout_t cublasLtMatmulPreference_t",
    "cublasXt.h": "cublasXtHandle_t",
    "cuda_profiler_api.h": "",
    "cudaGL.h": "",
    "cudaEGL.h": "CUeglStreamConnection",
    "cuda_egl_interop.h": "",
    "cuda_gl_interop.h": "cudaGraphicsResource_t",
    "cudnn.h": "cudnnHandle_t cudnnTensorDescriptor_t cudnnFilterDescriptor_t cudnnConvolutionDescriptor_t"
               " cudnnActivationDescriptor_t cudnnPoolingDescriptor_t cudnnDropoutDescriptor_t",
    "cudnn_frontend.h": "",
    "cufft.h": "",
    "cufftXt.h": "",
    "curand.h": "curandGenerator_t",
    "cusolverDn.h": "cusolverDnHandle_t",
    "cusolverSp.h": "cusolverSpHandle_t",
    "cusparse.h": "cusparseHandle_t cusparseSpMatDescr_t cusparseDnMatDescr_t cusparseDnVecDescr_t cusparseMatDescr_t",
    "cusparse_v2.h": "cusparseHandle_t cusparseMatDescr_t",
    "nccl.h": "ncclComm_t",
    "npp.h": "",
    "nppi.h": "",
    "nvToolsExt.h": "",
    "nvToolsExtCuda.h": "",
    "nvtx3/nvToolsExt.h": "",
    "nvtx3/nvToolsExtCudaRt.h": "",
    "nvtx3/nvtx3.hpp": "",
    "nvml.h": "nvmlDevice_t",
    "nvrtc.h": "nvrtcProgram",
}  # fmt: skip
CUFFT = ["#include <cuComplex.h>", "typedef int cufftHandle;", "typedef float cufftReal;",
         "typedef double cufftDoubleReal;", "typedef cuComplex cufftComplex;",
         "typedef cuDoubleComplex cufftDoubleComplex;"]  # fmt: skip
# Parts of cooperative_groups.h, which some include one by one, and what of softcuda's has what they have.
GROUPS = "cooperative_groups/details/"
PARTS = {"async.h": "/memcpy_async", "memory.h": "/memcpy_async", "reduce.h": "/reduce",
         "coalesced_reduce.h": "/reduce", "scan.h": "/scan", "coalesced_scan.h": "/scan", "partitioning.h": "",
         "functional.h": "/reduce", "sync.h": "", "helpers.h": "", "info.h": "", "invoke.h": "",
         "driver_abi.h": ""}  # fmt: skip
# Libraries whose headers lie in a folder of that name.
SPACES = {"thrust": "namespace thrust { }", "cub": "namespace cub { }"}
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
MISSING = re.compile(r"fatal error: (\S+): No such file or directory")


def write_for(text: str, folder: Path) -> bool:
    """Write the headers that a source, or g++'s complaint, asks for. Returns whether there were new ones."""
    new = False
    for name in {*INCLUDE.findall(text), *MISSING.findall(text)}:
        content, path = content_of(name), folder / name
        if content and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            new = True
    return new


def content_of(name: str) -> str:
    """Return the header of that name; "" if it is not one of these."""
    lines = ["#pragma once"]
    if name in HANDLES:
        lines += [f"typedef struct softcuda_{handle}* {handle};" for handle in HANDLES[name].split()]
        lines += CUFFT if name.startswith("cufft") else []
        lines += [f"struct {BRINGS};"] if name.startswith("cublas") else []
    elif (space := name.partition("/")[0]) in SPACES and "/" in name and ".." not in name:
        lines.append(SPACES[space])
    elif name.startswith(GROUPS) and name.removeprefix(GROUPS) in PARTS:
        lines.append(f"#include <cooperative_groups{PARTS[name.removeprefix(GROUPS)]}.h>")
    elif name not in COVERED:
        return ""
    return "\n".join(lines) + "\n"
