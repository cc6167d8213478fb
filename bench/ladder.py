"""How far each rung is from its reference: shares, and the tables of the README.

python -m bench.ladder RUN [RUN ...]     a table a family, in Markdown, from the runs of the newest commit among them

A share is a case's rate over that of its family's reference (``Family.roof``): cuBLAS's on the same shape where
there is arithmetic to do, else the bandwidth of the driver's copy of about as many bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from bench.baseline import Run
from bench.report import medians, print_runs
from kernels import FAMILIES
from kernels.catalogue import Case, Family, find_case
from kernels.selection import timed_cases

# What the README shows: a family, an element type, a shape.
SHOWN = (
    ("matmul", "float32", (4096, 4096, 4096)),
    ("matmul", "float64", (4096, 4096, 4096)),
    ("matvec", "float32", (8192, 8192)),
    ("transpose", "float32", (8192, 8192)),
    ("conv2d", "float32", (8192, 8192, 7)),
    ("separable", "float32", (8192, 8192, 7)),
)


def share(case: Case, times: Mapping[str, float]) -> float | None:
    """The case's rate over its reference's; None where there is none among ``times`` (seconds by case id)."""
    roof = case.family.roof(case.shape, case.dtype)
    if not roof or roof not in times or case.id not in times or case.variant.on_host:
        return None
    reference = find_case(FAMILIES, roof)
    same = reference.family is case.family and reference.shape == case.shape
    work, most = (1.0, 1.0) if same else (case.work.bytes, reference.work.bytes)
    return (work / times[case.id]) / (most / times[roof])


def table(run: Run, times: Mapping[str, float], family: Family, dtype: str, shape: tuple[int, ...]) -> str:
    """The family's rungs on one shape, each with its best block."""
    cases = [c for c in timed_cases([family]) if c.dtype == dtype and c.shape == shape and c.id in times]
    lines = [
        f"| {family.name} {'×'.join(map(str, shape))}, {dtype} | time, µs | {_unit(cases[0])} | share | gain | "
        "registers | shared, bytes |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    before = None
    for case in best(cases, times):
        seconds, facts = times[case.id], run.cases[case.id].facts
        reached = share(case, times)
        shared = facts.get("shared_bytes", 0) + facts.get("dynamic_shared_bytes", 0)
        resources = f"{facts.get('registers', 0)} | {shared:,}" if not case.variant.library else "|"
        gain = f"{before / seconds:.2f}×" if before and not case.variant.library else ""
        name = case.variant.name if case.variant.library else f"{case.variant.name}, {case.build.block_name}"
        name += f" ({facts['fallback']})" if facts.get("fallback") else ""
        work = case.work.operations or case.work.bytes
        lines.append(
            f"| {name} | {seconds * 1e6:,.1f} | {work / seconds / 1e9:,.0f} | "
            f"{'' if reached is None else f'{reached:.2f}'} | {gain} | {resources} |"
        )
        before = before if case.variant.library else seconds
    return "\n".join(lines)


def _unit(case: Case) -> str:
    return "GFLOP/s" if case.work.operations else "GB/s"


def best(cases: Sequence[Case], times: Mapping[str, float]) -> Iterator[Case]:
    """For each variant, in the catalogue's order, its fastest block; the host's left out."""
    for variant in dict.fromkeys(case.variant for case in cases if not case.variant.on_host):
        yield min((case for case in cases if case.variant is variant), key=lambda case: times[case.id])


def newest(runs: Sequence[Run]) -> list[Run]:
    """Those of the commit that the last of them has."""
    return [run for run in runs if run.commit.get("id") == runs[-1].commit.get("id")]


def tables(runs: Sequence[Run]) -> str:
    """All that the README shows, from the runs of the commit that the last of them has."""
    chosen = newest(runs)
    times = medians(chosen)
    families = {family.name: family for family in FAMILIES}
    return "\n\n".join(table(chosen[-1], times, families[name], dtype, shape) for name, dtype, shape in SHOWN)


if __name__ == "__main__":
    sys.exit(print_runs("python -m bench.ladder", "The rungs of each family, in Markdown.", tables))
