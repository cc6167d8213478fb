"""Declares cuBLASLt's algorithms for products of half-precision elements: is the best quicker than cuBLAS's choice?

Its heuristics name them, the one that they take for the quickest first. Each is a variant, next to cublasGemmEx::

    pytest bench --warpwatch-kernels tools.cublaslt
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import replace

import warpwatch as ww
from kernels import matmul_half
from kernels.conv2d.cudnn import workspace
from kernels.matmul.cublas import one_and_zero
from kernels.matmul_half.cublas import COMPUTE_32F, ELEMENTS
from warpwatch import CallError, DeviceArray, Queue, SharedLibrary, check_status

CUBLASLT = SharedLibrary("cublasLt", "cuBLASLt", "nvidia-cublas", (13, 12))
ALGORITHMS, UNALIGNED = 8, 2  # requested; returned at least if rows do not start at multiples of 16 bytes
LARGEST_WORKSPACE = 2**25  # bytes, as many as cuBLAS has on an H200
FLOAT32 = 0  # CUDA_R_32F
# CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
WORKSPACE_BYTES, REDUCTION_SCHEMES = 1, 3
WIDE_REDUCTIONS = 2  # CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of a sum are added up in float32


class Result(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t of cublasLt.h."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def _preparing(rank: int) -> Callable[..., Queue]:
    """Return a function that prepares a product by the algorithm of that rank."""

    def prepare(
        A: DeviceArray, B: DeviceArray, C: DeviceArray, stream: int, m: int, n: int, k: int, dtype: str
    ) -> Queue:
        # Matrices are stored by columns there, so its product B A is this family's A B.
        kind, operation = ELEMENTS[dtype], _create("MatmulDesc", COMPUTE_32F, FLOAT32)
        b, a, c = (
            _create("MatrixLayout", kind, *map(ctypes.c_int64, sizes)) for sizes in ((k, n, k), (n, m, n), (k, m, k))
        )
        results = _results(operation, b, a, c)
        if rank >= len(results):
            raise CallError(
                f"cuBLASLt returned {len(results)} algorithms for this product; number {rank} is not among them"
            )
        one, zero = map(ctypes.byref, one_and_zero("float32"))
        into = ctypes.c_void_p(C.address)
        product = (one, ctypes.c_void_p(B.address), b, ctypes.c_void_p(A.address), a, zero, into, c, into, c)
        result = results[rank]
        memory, size = workspace(result.workspace), ctypes.c_size_t(result.workspace)

        def queue() -> None:
            _call("Matmul", _handle(), operation, *product, ctypes.byref(result), memory, size, ctypes.c_void_p(stream))

        return queue

    return prepare


def _results(operation: ctypes.c_void_p, *layouts: ctypes.c_void_p) -> list[Result]:
    """Return the algorithms that the heuristics name for an operation on matrices of these layouts, the best first."""
    preference, results, count = _create("MatmulPreference"), (Result * ALGORITHMS)(), ctypes.c_int()
    for attribute, value in (
        (WORKSPACE_BYTES, ctypes.c_uint64(LARGEST_WORKSPACE)),
        (REDUCTION_SCHEMES, ctypes.c_uint32(WIDE_REDUCTIONS)),
    ):
        size = ctypes.c_size_t(ctypes.sizeof(value))
        _call("MatmulPreferenceSetAttribute", preference, attribute, ctypes.byref(value), size)
    answer = (ALGORITHMS, results, ctypes.byref(count))
    _call("MatmulAlgoGetHeuristic", _handle(), operation, *layouts, layouts[-1], preference, *answer)
    return results[: count.value]


def _call(name: str, *arguments: object) -> None:
    check_status(f"cublasLt{name}", getattr(CUBLASLT.load(), f"cublasLt{name}")(*arguments))


@functools.cache
def _handle() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    _call("Create", ctypes.byref(handle))
    return handle


def _create(kind: str, *values: object) -> ctypes.c_void_p:
    """Create a descriptor of cuBLASLt, such as a MatrixLayout. Descriptors are few, and none is destroyed."""
    descriptor = ctypes.c_void_p()
    _call(f"{kind}Create", ctypes.byref(descriptor), *values)
    return descriptor


MATMUL_CUBLASLT = replace(
    matmul_half.MATMUL_HALF,
    name="matmul_cublaslt",
    reference_case=lambda m, n, k, dtype: f"matmul_cublaslt-cublas-vendor-{m}x{n}x{k}-{dtype}",
    variants=(
        *(variant for variant in matmul_half.MATMUL_HALF.variants if variant.name == "cublas"),
        *(
            ww.call(
                f"algorithm_{rank}",
                "by one algorithm of cuBLASLt",
                prepare=_preparing(rank),
                needs=CUBLASLT,
                benchmarks=matmul_half.HIGH if rank < UNALIGNED else matmul_half.HIGH[:2],
            )
            for rank in range(ALGORITHMS)
        ),
    ),
)
