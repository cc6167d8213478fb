"""Estimates the host's memory that a case takes and that this process may have, before anything is allocated.

Where memory runs out, the operating system ends the whole run. A case that is refused beforehand fails alone.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from warpwatch.catalogue.cases import Case
from warpwatch.devices.machine import DeviceError

# Memory that the reference and its bound take besides their results, for each element of an input: copies in float64
# and magnitudes; an int32 product is made of four float64 products of halves. Measured with matmul, whose references
# take the most.
WORK_BYTES = {"float32": 14, "float64": 18, "int32": 52}
OTHER_WORK_BYTES = 18  # of other types, which are computed in float64 as well
# Memory for each element of the result that is compared: reference, bound, and the partial sums of convolutions.
COMPARED_BYTES = 44
RIGHT_BYTES = 16  # of these, what stays: reference and bound in float64
UNLIMITED = 2**63  # bytes of a control group that has no limit
# Control groups of version 1 and 2, by their controllers: folder, limit, usage, and what of that can be taken back.
GROUPS = {
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    "": ("", "memory.max", "memory.current", "inactive_file"),
}


def available(root: Path = Path("/")) -> int:
    """Return the bytes that this process may still take: those free, or less where a control group limits them."""
    return min([_memory(root)["MemAvailable"], *(_left(*group) for group in _limited_groups(root))])


def _memory(root: Path) -> dict[str, int]:
    figures = re.findall(r"^(MemTotal|MemAvailable): *(\d+)", (root / "proc/meminfo").read_text(), re.MULTILINE)
    return {name: int(kibibytes) * 1024 for name, kibibytes in figures}


@functools.cache  # these folders are many, and a test of a small kernel takes a millisecond
def _limited_groups(root: Path) -> tuple[tuple[Path, Path, Path, str], ...]:
    """Return the control groups, version 1 or 2, that this process is in and that limit it below the memory there is.

    Of each the files of its limit, its usage and its statistics, and the name of the figure there that counts what can
    be taken back. A limit that is set while the process runs is not seen; one that changes is.
    """
    total, groups = _memory(root).get("MemTotal", UNLIMITED), []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in GROUPS:
            top, limit, usage, cache = GROUPS[controllers]
            base = root / "sys/fs/cgroup" / top
            own = base / path.lstrip("/")
            # In a container the path may be the host's, and the container's own group is at the top.
            for folder in (own, *own.parents):
                if folder.is_relative_to(base) and _limit(folder / limit) < total:
                    groups.append((folder / limit, folder / usage, folder / "memory.stat", cache))
    return tuple(groups)


def _limit(path: Path) -> int:
    most = _text(path).strip()
    return int(most) if most.isdigit() else UNLIMITED


def _left(limit: Path, usage: Path, statistics: Path, cache: str) -> int:
    """Return the bytes that a control group may still take."""
    cached = re.search(rf"^{cache} (\d+)", _text(statistics), re.MULTILINE)
    used = int(_text(usage) or 0) - int(cached[1] if cached else 0)
    return max(0, _limit(limit) - used)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def peak_bytes(case: Case, *, copies: int, rows: int | None = None, sets: int = 1) -> int:
    """Estimate the most bytes of the host's memory that running and checking a case takes at a time.

    ``copies``: how often inputs and results exist besides the inputs that are drawn, in a machine whose memory is
    the host's and on their way to another process. ``rows``: how many rows of the result are compared; None means all.
    ``sets``: of inputs with their right results, which exist at a time; what a reference needs besides exists once.
    """
    inputs = sum(array.nbytes for array in case.inputs)
    compared, compared_bytes = sum(array.size for array in case.results), sum(array.nbytes for array in case.results)
    if rows is not None and case.results:
        share = rows / case.results[0].shape[0]
        compared, compared_bytes = int(compared * share), int(compared_bytes * share)
    work = 0
    if case.work.operations:  # otherwise the reference is a view of an input
        work = sum(WORK_BYTES.get(array.dtype, OTHER_WORK_BYTES) * array.size for array in case.inputs)
        work += COMPARED_BYTES * compared
    others = (sets - 1) * (inputs + RIGHT_BYTES * compared)
    return inputs + copies * case.array_bytes + compared_bytes + work + others


def require(case: Case, needed: int) -> None:
    """Raise DeviceError where the host has fewer free bytes than a case needs."""
    free = available()
    if needed > free:
        raise DeviceError(
            f"{case.id} needs about {needed:,} bytes of the host's memory, and {free:,} are available: "
            "choose a smaller shape, or a machine with more memory"
        )
