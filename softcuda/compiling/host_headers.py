"""Headers of which only host code uses anything: empty ones but for the types that declarations near kernels name.

They are written into a folder that is searched last, so that real ones come first where there are any.
"""

from __future__ import annotations

import re
from pathlib import Path

from chosen_headers import BRINGS

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
    """The header of that name; "" where it is none of these."""
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
