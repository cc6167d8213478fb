"""Chooses and makes the headers that a .cu file needs beside its own."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from messages import SOFTCUDA, BadKernel

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
NARROW = ["#ifndef __SOFTCUDA__", *(f"#include <{name}>" for name in BROUGHT), "#endif"]


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
# Headers of PyTorch, and what of ours has what kernels use of them: types.h, but for these.
TORCH = ("torch/", "ATen/", "c10/", "caffe2/", "THC/", "TH/")
TORCH_PARTS = {r".*(?:Atomic|KernelUtils).*": "atomics.h", r".*DeviceUtils\.cuh": "warps.h"}
PYTHON = ("pybind11/", "Python.h")
# A path with these characters cannot stand in #include: headers are searched for there.
NAMEABLE = not {'"', "\n"} & set(str(SOFTCUDA))
# What the headers of the system hold, in a preprocessed text.
SYSTEMS = re.compile(r'^# \d+ "/usr/[^\n]*\n(?:(?!# \d)[^\n]*\n)*', re.MULTILINE)
FOLDER = "host/beside/a/kernel"  # so deep that "../common/header.h" stays in the folder of the compilation
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
MISSING = re.compile(r"^(\S.*): fatal error: (\S+): No such file or directory", re.MULTILINE)
TOOLKIT = re.compile(r'^# 1 "(.*/)cuda_runtime\.h"', re.MULTILINE)
# What -dU says: where a file begins or goes on, and macros that are asked for and not defined.
ASKED = re.compile(r'^(?:# (?P<line>\d+) "(?P<file>.*)"(?P<flags>[ \d]*)|#undef (?P<macro>\w+))$', re.MULTILINE)
UNDEFINED = re.compile(r'^(\S[^:\n]*):(\d+):\d+: error: "(\w+)" is not defined', re.MULTILINE)
# Macros that command lines define, and no header; and the compiler's, which begin with _.
GIVEN = re.compile(r"NDEBUG|USE_ROCM|WIN32|_.*")


@dataclass(frozen=True, kw_only=True)
class StandIns:
    """Headers in the place of those of host code, in a ``folder`` that is searched last.

    ``missing``: headers that nothing is known of, and where the first was asked for: they are empty. ``flags``: of the
    compilation; a macro that -U names is not asked about.
    """

    folder: Path
    flags: Sequence[str]
    missing: dict[str, str] = field(default_factory=dict)

    def preprocessed(self, preprocess: Callable[..., str], text: str, source: Path) -> str:
        """Return a source as a compiler preprocesses it, with headers of host code where it asks for some.

        ``preprocess``: calls the compiler with further flags. Raises BadKernel.
        """
        self._write_known(text)
        while True:
            try:
                preprocessed = preprocess()
                break
            except BadKernel as error:
                if not self._write_missing(str(error)):
                    raise
        if not all(map(is_cudas, self.missing)):
            self._refuse_questions(preprocess, of_others(preprocessed), text, source)
        return preprocessed

    def _write_known(self, text: str) -> None:
        for name in INCLUDE.findall(text):
            self._write(name, content_of(name))

    def _write_missing(self, errors: str) -> bool:
        """Write the headers that a compiler has not found. Returns whether there are new ones."""
        new = False
        for place, name in MISSING.findall(errors):
            content = content_of(name)
            guard = re.sub(r"\W", "_", name).upper()  # which others ask for, as gflags/gflags.h's GFLAGS_GFLAGS_H_
            written = self._write(name, content or f"#pragma once\n#define {guard}\n#define {guard}_\n")
            if written and not content:
                self.missing[name] = place
            new |= written
            self._write_known(read(place.partition(":")[0]))  # all of a file at once, because each takes a call
        return new

    def _write(self, name: str, content: str) -> bool:
        path = self.folder / name
        inside = Path(os.path.normpath(path)).is_relative_to(self.folder.parents[FOLDER.count("/") - 1])
        if not content or not inside or path.exists():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return True

    def _refuse_questions(
        self, preprocess: Callable[..., str], others: tuple[str, ...], text: str, source: Path
    ) -> None:
        """Raise BadKernel if a missing header may define a macro by which device code is chosen.

        ``others``: beginnings of the paths of headers that are not the user's. ``text``: of the ``source``.
        """
        asked = [*self._asked_for(preprocess("-dU"), others)]
        try:
            preprocess("-Werror=undef")
        except BadKernel as error:
            asked += [(macro, file, int(line)) for file, line, macro in UNDEFINED.findall(str(error))]
        places: dict[str, str] = {}
        for macro, file, line in asked:
            written = text if file == str(source) else read(file)
            own = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{macro}\b", written, re.MULTILINE)
            if (
                not own
                and not GIVEN.fullmatch(macro)
                and f"-U{macro}" not in self.flags
                and not file.startswith(others)
            ):
                places.setdefault(macro, f"{file}:{line}")
        if places:
            name, place = next(each for each in self.missing.items() if not is_cudas(each[0]))
            self.missing.clear()  # said here
            (macro, at), *more = places.items()
            rest = f"; so for {', '.join(f'{other} ({there})' for other, there in more)}" if more else ""
            raise BadKernel(
                f"{place}: error: {name} is missing, and may define {macro}, which {at} asks for: give its folder with"
                f" -I (include=), or say -D{macro} or -U{macro} (flags=){rest}\n"
            )

    def _asked_for(self, preprocessed: str, others: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
        """Yield macros of which a text asks in vain whether they are defined, behind the first missing header."""
        begun, theirs, file, line, end = False, True, "", 0, 0
        for match in ASKED.finditer(preprocessed):
            if match["file"]:
                file, line, end = match["file"], int(match["line"]), match.end() + 1
                theirs = "3" in match["flags"].split() or file[:1] == "<" or file.startswith(others)
                begun |= any(file.endswith(f"{FOLDER}/{name}") for name in self.missing)
            elif begun and not theirs:
                yield match["macro"], file, line + preprocessed.count("\n", end, match.start())


def notes(missing: Mapping[str, str]) -> str:
    """Return a note for each missing header, by the place that asks for it, behind errors that may come of it."""
    folder = "give its folder with -I (include=) if it is needed"
    own = "of cuda/ softcuda has a part (docs/softcuda.md)"
    return "".join(
        f"{place}: note: {name} is missing, and was left out: {own if is_cudas(name) else folder}\n"
        for name, place in missing.items()
    )


def is_cudas(name: str) -> bool:
    """Return whether a header is of CUDA's C++ library, which defines no macro of a user's."""
    return name.startswith(("cuda/", "nv/"))


def is_torchs(folder: Path) -> bool:
    """Return whether a folder has PyTorch's own headers, which g++ does not take behind softcuda's dialect."""
    return any((folder / name).is_file() for name in ("torch/extension.h", "ATen/ATen.h", "torch/torch.h"))


def of_others(preprocessed: str) -> tuple[str, ...]:
    """Return how the paths of headers begin that are softcuda's, or CUDA's where nvcc has preprocessed a text."""
    return (f"{SOFTCUDA}/", *TOOLKIT.findall(preprocessed)[:1])


def read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="surrogateescape")
    return ""


def content_of(name: str) -> str:
    """Return the header of that name; "" if it is not one of these."""
    lines = ["#pragma once"]
    if name in HANDLES:
        lines += [f"typedef struct softcuda_{handle}* {handle};" for handle in HANDLES[name].split()]
        lines += CUFFT if name.startswith("cufft") else []
        lines += [f"struct {BRINGS};", *NARROW] if name.startswith("cublas") else []
    elif name.startswith(TORCH) and ".." not in name:
        part = next((part for names, part in TORCH_PARTS.items() if re.fullmatch(names, name)), "types.h")
        path = f"softcuda/torch/{part}"
        lines.append(f'#include "{SOFTCUDA}/include/{path}"' if NAMEABLE else f"#include <{path}>")
    elif (space := name.partition("/")[0]) in SPACES and "/" in name and ".." not in name:
        lines.append(SPACES[space])
    elif name.startswith(GROUPS) and name.removeprefix(GROUPS) in PARTS:
        lines.append(f"#include <cooperative_groups{PARTS[name.removeprefix(GROUPS)]}.h>")
    elif name not in COVERED and not name.startswith(PYTHON):
        return ""
    return "\n".join(lines) + "\n"
