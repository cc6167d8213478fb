"""Arithmetic pipes of GPUs, and how many operations each does in a clock.

A fused multiply-add counts as two, and matrices of tensor cores are dense. The figures are the rates of NVIDIA's data
sheets over multiprocessors and clock, and a GPU that is not listed has none. Integers but those of
tensor cores are left out, because one instruction does up to four of their operations.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpwatch.catalogue.launches import Capability

VOLTA, TURING, A100, AMPERE = Capability(7, 0), Capability(7, 5), Capability(8, 0), Capability(8, 6)
ADA, HOPPER, B200, BLACKWELL = Capability(8, 9), Capability(9, 0), Capability(10, 0), Capability(12, 0)
# Operations of a multiprocessor in a clock, by what a declaration calls the pipe.
PIPES: Mapping[str, Mapping[Capability, int]] = {
    "fp32": {VOLTA: 128, TURING: 128, A100: 128, AMPERE: 256, ADA: 256, HOPPER: 256, B200: 256, BLACKWELL: 256},
    "fp64": {VOLTA: 64, TURING: 4, A100: 64, AMPERE: 4, ADA: 4, HOPPER: 128, B200: 128, BLACKWELL: 4},
    "fp16": {VOLTA: 256, TURING: 256, A100: 512, AMPERE: 256, ADA: 256, HOPPER: 512},
    "tensor fp16": {VOLTA: 1024, TURING: 1024, A100: 2048, AMPERE: 1024, ADA: 1024, HOPPER: 4096, B200: 8192},
    "tensor bf16": {A100: 2048, AMPERE: 1024, ADA: 1024, HOPPER: 4096, B200: 8192},
    "tensor tf32": {A100: 1024, AMPERE: 512, ADA: 512, HOPPER: 2048, B200: 4096},
    "tensor fp64": {A100: 128, HOPPER: 256},
    "tensor fp8": {ADA: 2048, HOPPER: 8192, B200: 16384},
    "tensor int8": {TURING: 2048, A100: 4096, AMPERE: 2048, ADA: 2048, HOPPER: 8192},
}
# The pipes that may do operations on such elements where a declaration names none: the fastest is the limit.
USUAL = {
    "float32": ("fp32",),
    "float64": ("fp64", "tensor fp64"),  # which compute alike, to the bit
    "float16": ("tensor fp16",),
    "bfloat16": ("tensor bf16",),
}
