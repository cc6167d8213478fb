"""The host's memory: how much there is for this process, and how much a case takes, before anything is allocated.

The kernel of the operating system ends the whole run where memory is over; a case that is refused fails alone.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

from warpwatch.catalogue.declaration import Case
from warpwatch.devices.machine import DeviceError

# Of memory that the reference and its bound take besides their results, for each element of an operand: copies in
# float64 and magnitudes; the product of int32 is made of four float64 products of halves. Measured with matmul, whose
# references take the most.
WORK_BYTES = {"float32": 14, "float64": 18, "int32": 52}
# For each element of the result that is compared: reference, bound, and what the convolutions sum up by.
COMPARED_BYTES = 44


def available(root: Path = Path("/")) -> int:
    """Bytes that this process may still take: what the machine has, or less where a control group allows less."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    figures = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":", 1) for line in lines)}
    return min([figures["MemAvailable"], *_left_in_groups(root)])


def _left_in_groups(root: Path) -> list[int]:
    """Bytes left in each control group that this process is in and that has a limit: versions 1 and 2 of them."""
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
        # In a container the path may be the host's, and the container's own group lies at the top.
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
    """About the most that running and proving a case takes of the host's memory at a time.

    ``copies``: how many times operands and result are there besides the operands that are drawn: in a machine whose
    memory is the host's, and on the way to another process. ``rows``: of the result that are compared; all of them
    where None.
    """
    operands = sum(prod(shape) for shape in case.family.operands(case.shape).values())
    compared = prod(case.family.result(case.shape)[1]) if case.family.result else 0
    if rows is not None and case.family.result:
        compared = compared // case.family.result(case.shape)[1][0] * rows
    # A reference without arithmetic is a view of an operand.
    work = WORK_BYTES.get(case.dtype, 0) * operands + COMPARED_BYTES * compared if case.work.operations else 0
    return operands * case.itemsize + copies * case.array_bytes + compared * case.itemsize + work


def require(case: Case, needed: int) -> None:
    """Raise DeviceError where the host has not so many bytes for a case."""
    there = available()
    if needed > there:
        raise DeviceError(
            f"{case.id} needs about {needed:,} bytes of the host's memory, and {there:,} are available: "
            "choose a smaller shape, or a machine with more memory"
        )
