"""Makes kernels of this checkout slower by a given share: ``python -m tools.planted_waits RUN SHARE VARIANT...``.

RUN: a saved run of this GPU model, for the time of each case. VARIANT: such as ``matmul-tensor``; its source file is
changed in place. Blocks of the first wave wait SHARE of the case's time, as in compare/self_check.py, with cycles
written into the source. A comparison of the changed checkout with the commit before shows what is found. Needs a GPU,
for the number of blocks of a first wave.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.by_hand import leave, load_case
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import load_project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.devices.opening import Settings, open_device
from warpwatch.runs.identity import Scalar
from warpwatch.runs.record import CaseRecord, read_run

KERNEL = re.compile(r"__global__[^{;]*\(([^(){;]*)\)\s*\{")
WAIT = """
    { // planted
        const unsigned planted_block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        if (planted_block < %du) {
            const long long planted_start = clock64();
            if (threadIdx.x == 0 && threadIdx.y == 0)
                while (%s)
                    ;
            __syncthreads();
        }
    }
"""
HOLDS = "(%s && planted_block < %du && clock64() - planted_start < %dll)"


def condition(case: Case, timed: CaseRecord, parameters: Sequence[str]) -> str:
    """Return what holds in a kernel's source for this case alone: element type, block and arguments by value."""
    steps = timed.facts.identity.steps if timed.facts.identity else None
    assert steps, f"{case.id}: the run does not say what its work was"
    (step,) = steps
    block, dtype = case.build.block, case.build.dtype
    half = "scalar_t(0.5) == scalar_t(0)" if "int" in dtype else "scalar_t(0.5) != scalar_t(0)"
    words = [f"sizeof(scalar_t) == {case.itemsize}", half, f"BLOCK_X == {block[0]}", f"BLOCK_Y == {block[1]}"]
    pairs = zip(parameters, step.arguments, strict=True)
    words += [f"{name} == {value.value}" for name, value in pairs if isinstance(value, Scalar)]
    return " && ".join(words)


def parameters_of(text: str) -> list[str]:
    """Return the names of the parameters of the one kernel in a source. Raises ValueError where there is not one."""
    kernels = KERNEL.findall(text)
    if len(kernels) != 1:
        raise ValueError(f"waits are planted in sources of one kernel, and here are {len(kernels)}: take another")
    return re.findall(r"(\w+)\s*(?:,|$)", kernels[0])


def planted(text: str, waits: Mapping[str, tuple[int, int]]) -> str:
    """Return a source whose kernel waits: by each condition, the blocks of the first wave, and cycles."""
    any_of = " || ".join(HOLDS % (holds, blocks, cycles) for holds, (blocks, cycles) in waits.items())
    return KERNEL.sub(lambda match: match[0] + WAIT % (max(blocks for blocks, _ in waits.values()), any_of), text)


def plant(run: Path, share: float, names: Sequence[str]) -> None:
    """Change the sources of the variants, and print the wait of each case."""
    timed = read_run(run).cases
    families = load_project(Path.cwd(), "kernels").families
    device = open_device(Settings(kind="gpu"))
    for name in names:
        cases = [case for case in timed_cases(families) if f"{case.family.name}-{case.variant.name}" == name]
        if not cases:
            raise SystemExit(f"{name}: no such variant is timed; give FAMILY-VARIANT, such as matmul-tensor")
        waits, source = dict[str, tuple[int, int]](), cases[0].build.source
        parameters = parameters_of(source.read_text())
        for case in cases:
            loaded, seconds = load_case(device, case), statistics.median(timed[case.id].samples)
            blocks = (device.resident_blocks(loaded.function, case.launch) or 1) * device.info.multiprocessors
            waits[condition(case, timed[case.id], parameters)] = blocks, round(share * seconds * device.info.clock_hz)
            loaded.free_own()
            print(f"{case.id}: {share:.2%} of {seconds * 1e6:.1f} µs")
        source.write_text(planted(source.read_text(), waits))


def main() -> None:
    if len(sys.argv) < 4:
        raise SystemExit(str(__doc__))
    plant(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
    leave()


if __name__ == "__main__":
    main()
