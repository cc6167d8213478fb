"""Makes up kernels and differences in machine code, for tests that compile nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warpwatch.cli.json_file import JsonFile
from warpwatch.compare.code_difference import (
    BuildChange,
    CodeDifference,
    Kernel,
    KernelChange,
    LaunchOccupancy,
    State,
)
from warpwatch.machine_code.cubin import Needs, Occupancy
from warpwatch.machine_code.disassembler import Code


def kernel(
    *,
    registers: int = 32,
    local: int = 16,
    inside: Mapping[str, int] | None = None,
    shares: Mapping[int, float] | None = None,
) -> Kernel:
    """Make a kernel. ``shares``: its occupancy by threads of a block."""
    return Kernel(
        needs=Needs(registers=registers, local_bytes=local, shared_bytes=0, code="a hash"),
        occupancies=tuple(
            LaunchOccupancy(
                threads=threads, dynamic_bytes=0, occupancy=Occupancy(share=share, blocks=1, limited_by="registers")
            )
            for threads, share in (shares or {128: 0.5}).items()
        ),
        code=Code(instructions=9, loops=(), inside=inside or {}, outside={"local load 4 B": 2}, text="a hash"),
    )


def change(old: Kernel | None, new: Kernel, notes: tuple[str, ...] = (), name: str = "add-a-1-float32") -> BuildChange:
    both = KernelChange(entry="add", old=old, new=new)
    return BuildChange(id=name, arch="sm_90", state=State.DIFFERENT, kernels=(both,), notes=notes)


def difference(*builds: BuildChange, revision: str = "HEAD") -> CodeDifference:
    return CodeDifference(
        revision=revision,
        commit="0" * 40,
        tree="the working tree",
        architectures=("sm_90",),
        counts={"sm_90": {State.DIFFERENT: len(builds)}},
        builds=builds,
    )


def write(path: Path, code: CodeDifference) -> None:
    """Write the JSON of ``warpwatch diff``."""
    file = JsonFile(str(path))
    file.code = code
    file.end(0)
