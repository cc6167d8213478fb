"""Holds T1 files and their kernels, written for the tests of their import."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

import warpwatch as ww
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.validation import problems

SPEC, SPACE, ARGUMENT = "KernelSpecification", "ConfigurationSpace", "KernelSpecification Arguments"
# As Kernel Tuner reads it: with a ProblemSize that blocks divide.
WEIGHTED: dict[str, Any] = {
    "General": {"BenchmarkName": "Weighted sums", "FormatVersion": 1},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block_size_x", "Type": "int", "Values": "[2**i for i in range(4, 8)]", "Default": 64},
            {"Name": "tile_size_x", "Type": "int", "Values": "[1, 2, 3]", "Default": 1},
            {"Name": "fused", "Type": "bool", "Values": "[True, False]"},
        ],
        "Conditions": [
            {"Parameters": ["block_size_x", "tile_size_x"], "Expression": "block_size_x * tile_size_x <= 256"},
            {"Parameters": ["tile_size_x", "fused"], "Expression": "fused or tile_size_x not in [3]"},
        ],
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "CompilerOptions": ["-std=c++11", "--use_fast_math"],
        "KernelName": "weighted",
        "KernelFile": "weighted.cu",
        "LocalSize": {"X": "block_size_x", "Y": "1", "Z": "1"},
        "GlobalSize": {"X": "1"},
        "GlobalSizeType": "CUDA",
        "GridDivX": ["block_size_x", "tile_size_x"],
        "ProblemSize": [1000],
        "SharedMemory": 0,
        "Stream": None,
        "Arguments": [
            {
                "Name": "y",
                "Type": "float",
                "MemoryType": "Vector",
                "AccessType": "WriteOnly",
                "FillType": "Constant",
                "FillValue": 0.0,
                "Size": "ProblemSize[0]",
                "Output": 1,
            },
            {
                "Name": "x",
                "Type": "float",
                "MemoryType": "Vector",
                "AccessType": "ReadOnly",
                "FillType": "Random",
                "FillValue": 2.0,
                "Size": "ProblemSize[0] + max(tile_size_x) - 2",
            },
            {"Name": "alpha", "Type": "float", "MemoryType": "Scalar", "FillValue": 1.5},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": "ProblemSize[0]"},
            {
                "Name": "weights",
                "Type": "float",
                "MemoryType": "Symbol",
                "FillType": "Constant",
                "FillValue": 0.25,
                "Size": 2,
            },
        ],
    },
}
WEIGHTED_CU = """
__constant__ float weights[2];

__global__ void weighted(float *y, const float *x, float alpha, int n)
{
    for (int t = 0; t < tile_size_x; t++) {
        int i = (blockIdx.x * tile_size_x + t) * block_size_x + threadIdx.x;
        if (i < n)
            y[i] = alpha * (weights[0] * x[i] + weights[1] * x[i + 1]);
    }
}
"""
# As KTT and BAT read it: with a GlobalSize, and no ProblemSize.
REVERSED: dict[str, Any] = {
    "ConfigurationSpace": {
        "TuningParameters": [{"Name": "BLOCK", "Type": "uint", "Values": "[32, 64]", "Default": 64}]
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "KernelName": "reversed_parts",
        "KernelTypeNames": ["int"],
        "KernelFile": "reversed.cu",
        "GlobalSizeType": "OpenCL",
        "GlobalSize": {"X": "512 * 2", "Y": 1},
        "LocalSize": {"X": "BLOCK"},
        "SharedMemory": "4 * BLOCK",
        "Arguments": [
            {
                "Name": "state",
                "Type": "int32",
                "MemoryType": "Vector",
                "AccessType": "ReadWrite",
                "FillType": "Random",
                "FillValue": 9,
                "Size": 1024,
            }
        ],
    },
}
REVERSED_CU = """
template <typename T> __global__ void reversed_parts(T *state)
{
    extern __shared__ int part[];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    part[threadIdx.x] = state[i];
    __syncthreads();
    state[i] = part[BLOCK - 1 - threadIdx.x];
}
"""


def weighted(x: Array, weights: Array, alpha: float, problem_x: int) -> Array:
    x = x.astype(np.float64)
    result: Array = alpha * (weights[0] * x[:problem_x] + weights[1] * x[1 : problem_x + 1])
    return result


def changed(given: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of a file with one member changed; ``path``: its names and places, joined by blanks."""
    made: Any = deepcopy(given)
    *names, last = (int(name) if name.isdigit() else name for name in path.split())
    inner = made
    for name in names:
        inner = inner[name]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return made  # type: ignore[no-any-return]


def import_file(folder: Path, given: Any = WEIGHTED, reference: Callable[..., Any] = weighted, **fields: Any) -> Family:
    """Write a file and the kernels, and import it."""
    (folder / "weighted.cu").write_text(WEIGHTED_CU)
    (folder / "reversed.cu").write_text(REVERSED_CU)
    (folder / "file.json").write_text(given if isinstance(given, str) else json.dumps(given))
    return ww.from_t1(folder / "file.json", reference=reference, **fields)


def cases(family: Family) -> list[Case]:
    """The cases of a sound family on the shapes that are tested."""
    assert problems((family,)) == ()
    (variant,), (dtype,) = family.variants, family.dtypes_of(family.variants[0])
    return [Case(Build(family, variant, each, dtype), shape) for each in variant.listed for shape in family.tests]
