"""Finds differences in machine code that were asked to fail: more spills or registers, less occupancy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpwatch.compare.code_difference import NO_CODE, BuildChange, Kernel, KernelChange, State
from warpwatch.machine_code.disassembler import Code

Gate = Callable[[Kernel, Kernel], str]


def local_accesses(code: Code, word: str) -> int:
    """Count the instructions that load or store local memory. ``word``: load or store."""
    every = (*code.inside.items(), *code.outside.items())
    return sum(count for kind, count in every if kind.startswith(f"local {word}"))


def _spills(old: Kernel, new: Kernel) -> str:
    if new.needs.local_bytes > old.needs.local_bytes:
        return f"local memory of a thread grew from {old.needs.local_bytes:,} to {new.needs.local_bytes:,} bytes"
    if old.code and new.code:
        for word in ("load", "store"):
            before, after = local_accesses(old.code, word), local_accesses(new.code, word)
            if after > before:
                return f"{word}s of local memory grew from {before:,} to {after:,}"
    return ""


def _registers(old: Kernel, new: Kernel) -> str:
    before, after = old.needs.registers, new.needs.registers
    return f"registers grew from {before} to {after}" if after > before else ""


def least_share(kernel: Kernel) -> float | None:
    """Return the lowest occupancy of a kernel at the block sizes that it is launched with; None where it is unknown."""
    known = [each.occupancy.share for each in kernel.occupancies if each.occupancy]
    return min(known, default=None)


def _occupancy(old: Kernel, new: Kernel) -> str:
    """Compare at each block size that both sides have; the lowest ones where they have none in common."""
    before = {(e.threads, e.dynamic_bytes): e.occupancy for e in old.occupancies}
    for each in new.occupancies:
        earlier = before.get((each.threads, each.dynamic_bytes))
        if earlier and each.occupancy and each.occupancy.share < earlier.share:
            shares = f"{earlier.share:.2f} to {each.occupancy.share:.2f}"
            return f"occupancy at {each.threads} threads fell from {shares}"
    lowest = least_share(old), least_share(new)
    if lowest[0] is not None and lowest[1] is not None and lowest[1] < lowest[0]:
        return f"the lowest occupancy fell from {lowest[0]:.2f} to {lowest[1]:.2f}"
    return ""


GATES: dict[str, Gate] = {"spills": _spills, "registers": _registers, "occupancy": _occupancy}


def exceeded(changes: Sequence[BuildChange], gates: Sequence[str]) -> list[str]:
    """List what was asked to fail and has happened, a sentence each."""
    found = []
    for change in changes:
        for kernel in change.kernels:
            said = filter(None, (_said(kernel, gate) for gate in gates))
            found += [f"{change.id} ({change.arch}): {each}" for each in said]
    return found


def _said(kernel: KernelChange, gate: str) -> str:
    return GATES[gate](kernel.old, kernel.new) if kernel.old and kernel.new else ""


def unknown(changes: Sequence[BuildChange], gates: Sequence[str]) -> list[str]:
    """List what could not be compared although it was asked to fail, a sentence each; and that there was no build."""
    if not changes:
        return ["no build was compared: there is none, or -k chose none (`warpwatch list` shows the cases)"]
    if not gates:
        return []
    if not any(change.compared for change in changes):
        return ["no build was compared"]
    found = []
    for change in changes:
        name = f"{change.id} ({change.arch})"
        if change.state == State.FAILED:
            found.append(f"{name}: not compared, because a side does not compile")
        pairs = [kernel for kernel in change.kernels if kernel.old and kernel.new]
        if change.state == State.DIFFERENT and NO_CODE in change.notes:
            found.append(f"{name}: {NO_CODE}")
        if "spills" in gates and any(not (k.old and k.old.code and k.new and k.new.code) for k in pairs):
            found.append(f"{name}: loads and stores of local memory are not known without nvdisasm")
        if "occupancy" in gates and any(least_share(k.new) is None for k in pairs if k.new):
            found.append(f"{name}: occupancy is not known for {change.arch}")
    return found
