"""Estimates the host's memory that a case takes and that this process may have, before anything is allocated.

Where memory runs out, the operating system ends the whole run. A case that is refused beforehand fails alone.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

from warpwatch.catalogue.declaration import Case
from warpwatch.devices.machine import DeviceError

# Memory that the reference and its bound take besides their results, for each element of an operand: copies in float64
# and magnitudes; an int32 product is made of four float64 products of halves. Measured with matmul, whose references
# take the most.
WORK_BYTES = {"float32": 14, "float64": 18, "int32": 52}
# Memory for each element of the result that is compared: reference, bound, and the partial sums of convolutions.
COMPARED_BYTES = 44


def available(root: Path = Path("/")) -> int:
    """Return the bytes that this process may still take: those free, or less where a control group limits them."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    figures = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":", 1) for line in lines)}
    return min([figures["MemAvailable"], *_left_in_groups(root)])


def _left_in_groups(root: Path) -> list[int]:
    """Return the bytes left in each control group, version 1 or 2, that this process is in and that has a limit."""
    left = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            top, limit, usage, cache = "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        elif not controllers:
            top, limit, usage, cache = "", "memory.max", "memory.current", "inactive_file"
        else:
            continue
        base = root / "sys/fs/cgroup" / top
        group = base / path.lstrip("/")
        # In a container the path may be the host's, and the container's own group is at the top.
        for folder in (group, *group.parents):
            if folder.is_relative_to(base) and (most := _text(folder / limit).strip()).isdigit():
                used = int(_text(folder / usage) or 0) - _figure(_text(folder / "memory.stat"), cache)
                left.append(max(0, int(most) - used))
    return left


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _figure(text: str, name: str) -> int:
    return next((int(line.split()[1]) for line in text.splitlines() if line.split()[:1] == [name]), 0)


def peak_bytes(case: Case, *, copies: int, rows: int | None = None) -> int:
    """Estimate the most bytes of the host's memory that running and checking a case takes at a time.

    ``copies``: how often operands and result exist besides the operands that are drawn, in a machine whose memory is
    the host's and on their way to another process. ``rows``: how many rows of the result are compared; None means all.
    """
    operands = sum(prod(shape) for shape in case.family.operands(case.shape).values())
    compared = prod(case.family.result(case.shape)[1]) if case.family.result else 0
    if rows is not None and case.family.result:
        compared = compared // case.family.result(case.shape)[1][0] * rows
    # A reference without arithmetic is a view of an operand.
    work = WORK_BYTES.get(case.dtype, 0) * operands + COMPARED_BYTES * compared if case.work.operations else 0
    return operands * case.itemsize + copies * case.array_bytes + compared * case.itemsize + work


def require(case: Case, needed: int) -> None:
    """Raise DeviceError where the host has fewer free bytes than a case needs."""
    there = available()
    if needed > there:
        raise DeviceError(
            f"{case.id} needs about {needed:,} bytes of the host's memory, and {there:,} are available: "
            "choose a smaller shape, or a machine with more memory"
        )
