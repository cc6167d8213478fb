"""Machine code of two revisions, build by build and kernel by kernel: both sides, their differences, and gates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from pathlib import Path
from typing import TypeVar

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Capability, read_capability
from warpwatch.catalogue.names import split_id
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.compare.comparison import listed
from warpwatch.devices.compile.background import images_or_errors, on_all_cores
from warpwatch.devices.compile.builds import compile_build, entries_of, symbols_in
from warpwatch.devices.compile.compiler import CompileError, Image, Target, read_image
from warpwatch.devices.machine import DeviceError
from warpwatch.machine_code.cubin import Needs, Occupancy, occupancy, read_cubin
from warpwatch.machine_code.disassembler import Code, NoDisassembler, read_code
from warpwatch.revision.commit import compile_other, read_other_kernels
from warpwatch.revision.declared import own_identity
from warpwatch.runs.identity import Identity, difference

Threads = tuple[int, int]  # of a block: how many, and its bytes of dynamic shared memory
ANY = Capability(0, 0)
K = TypeVar("K")  # a description of a kernel


@dataclass(frozen=True, kw_only=True)
class SideBuild:
    """A build of one side.

    ``entries``: the kernels that it is launched by. ``works``: the identity of each of its cases, without the machine
    code. ``needs``: the oldest GPUs that it runs on.
    """

    id: str
    compile: Callable[[Target], Image]
    entries: tuple[str, ...]
    works: Mapping[str, Identity]
    needs: Capability = ANY

    @property
    def launches(self) -> Mapping[str, list[Threads]]:
        """The different blocks that each kernel is launched with, smallest first."""
        steps = [step for work in self.works.values() for step in work.steps or ()]
        return {
            entry: sorted({(prod(step.block), step.shared_bytes) for step in steps if step.entry == entry})
            for entry in {step.entry for step in steps}
        }


def own_builds(project: Project) -> dict[str, SideBuild]:
    """List the working tree's builds by their ids: all that are timed, then those that are only tested."""
    timed = timed_cases(project.families)
    builds = {case.build for case in timed}
    cases_of: dict[str, list[Case]] = {}
    for case in (*timed, *(case for case in tested_cases(project.families) if case.build not in builds)):
        known = cases_of.setdefault(case.build.id, [])
        if case.build in builds or not known:  # of a build that is not timed, the first shape is enough
            known.append(case)
    return {
        name: SideBuild(
            id=name,
            compile=functools.partial(compile_build, build := cases[0].build),
            entries=entries_of(build),
            works={case.id: own_identity(case) for case in cases},
            needs=build.variant.capability,
        )
        for name, cases in cases_of.items()
        if not cases[0].variant.has_no_block
    }


def other_builds(tree: Path, module: str, revision: str, arch: str) -> dict[str, SideBuild]:
    """List the builds of another revision, which lies in ``tree``, by their ids. Raises BadRevision or BadCase."""
    names: dict[str, list[str]] = {}
    kernels = read_other_kernels(tree, module, revision, arch, every_build=True)
    for name, other in kernels.items():
        if not other.call:
            family, variant, block, _, dtype = split_id(name)
            names.setdefault(f"{family}-{variant}-{block}-{dtype}", []).append(name)
    return {
        build: SideBuild(
            id=build,
            compile=functools.partial(compile_other, kernels[cases[0]]),
            entries=kernels[cases[0]].kernels.entries,
            works={case: kernels[case].identity for case in cases},
        )
        for build, cases in names.items()
    }


def compile_sides(
    sides: Mapping[tuple[str, str], Sequence[SideBuild]], progress: Callable[[int, int], None]
) -> dict[tuple[str, str, str], Image | CompileError]:
    """Compile builds on all cores; machine code or the error by architecture, side and build.

    ``sides``: builds by architecture and name of the side. Those that come first are in the cache when the same source
    is asked for by another side.
    """
    calls = {
        (arch, side, build.id): functools.partial(build.compile, Target(arch))
        for (arch, side), builds in sides.items()
        for build in builds
    }
    return images_or_errors(calls, progress)


NO_CODE = "it is PTX or a fatbin, of which the driver makes machine code: nothing more can be said of it here"
ONLY_DATA = "the instructions are the same, and constants or variables of the file differ"
ONLY_LAUNCH = "the machine code is the same, and is launched in other blocks"
ONLY_SCHEDULE = "the instructions are the same, and their encoding differs, such as how they are scheduled"


class State(StrEnum):
    """Difference between the two sides of a build. ``FAILED``: one of them, or both, does not compile."""

    IDENTICAL = "identical"
    DIFFERENT = "different"
    NEW = "new"
    GONE = "gone"
    FAILED = "failed"
    TOO_NEW = "too new"


@dataclass(frozen=True, kw_only=True)
class LaunchOccupancy:
    """Occupancy of a kernel at a block size. ``dynamic_bytes``: dynamic shared memory of a block."""

    threads: int
    dynamic_bytes: int
    occupancy: Occupancy | None


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel of one side. ``code``: None where nothing could disassemble it."""

    needs: Needs
    occupancies: tuple[LaunchOccupancy, ...]
    code: Code | None = None

    def count(self, *beginnings: str) -> int:
        """Count the instructions whose kind begins with one of these, in loops and outside."""
        if not self.code:
            return 0
        every = (*self.code.inside.items(), *self.code.outside.items())
        return sum(count for kind, count in every if kind.startswith(beginnings))

    @property
    def least_share(self) -> float | None:
        """The lowest occupancy at the block sizes that the kernel is launched with; None where it is unknown."""
        return min((each.occupancy.share for each in self.occupancies if each.occupancy), default=None)


@dataclass(frozen=True, kw_only=True)
class KernelChange:
    """Both sides of a kernel; one of them may be missing."""

    entry: str
    old: Kernel | None = None
    new: Kernel | None = None

    @property
    def codes(self) -> tuple[Code, Code] | None:
        """The instructions of both sides, where both are known."""
        old, new = self.old, self.new
        return (old.code, new.code) if old and new and old.code and new.code else None


@dataclass(frozen=True, kw_only=True)
class BuildChange:
    """Difference of one build for one architecture.

    ``kernels``: those that differ, or all of a new build. ``notes``: sentences on what the figures do not say.
    """

    id: str
    arch: str
    state: State
    kernels: tuple[KernelChange, ...] = ()
    notes: tuple[str, ...] = ()
    broken: bool = False  # the working tree's side does not compile


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a build, compiled. ``image``: None where it was not, because the other side lacks it."""

    build: SideBuild
    image: Image | CompileError | None


def compare_all(
    pairs: Mapping[tuple[str, str], tuple[Side | None, Side | None]],
    *,
    disassemble: bool,
    progress: Callable[[int, int], None],
) -> list[BuildChange]:
    """Compare builds on all cores. ``pairs``: old and new side by build and architecture.

    Raises CompileError where machine code cannot be read.
    """
    calls = {
        (name, arch): functools.partial(compare_build, name, arch, old, new, disassemble=disassemble)
        for (name, arch), (old, new) in pairs.items()
    }
    jobs = on_all_cores(calls, progress)
    return [jobs[key].result() for key in calls]


def compare_build(name: str, arch: str, old: Side | None, new: Side | None, *, disassemble: bool) -> BuildChange:
    """Compare the two sides of a build. Raises CompileError where machine code cannot be read."""
    capability, change = read_capability(arch) or ANY, functools.partial(BuildChange, id=name, arch=arch)
    if new is None:
        return change(state=State.GONE)
    if new.build.needs > capability:
        return change(state=State.TOO_NEW, notes=(f"it needs compute capability {new.build.needs}",))
    images = [side.image for side in (old, new) if side]
    if any(isinstance(image, CompileError) for image in images):
        return change(state=State.FAILED, notes=_failures(old, new), broken=isinstance(new.image, CompileError))
    same = len({image.image_hash for image in images if isinstance(image, Image)}) < len(images)
    besides = _besides(old, new)
    if same and not besides:
        return change(state=State.IDENTICAL)
    state = State.DIFFERENT if old else State.NEW
    before, after = _read(old, capability), _read(new, capability)
    if not before or not after:
        return change(state=state, notes=besides if same else (*besides, NO_CODE))
    kernels, notes = _changed_kernels(before, after, disassemble=disassemble)
    if old and not kernels and before.data != after.data:
        notes = (ONLY_DATA,)
    if old and not (kernels or notes or besides):
        state = State.IDENTICAL
    return change(state=state, kernels=kernels, notes=(*besides, *notes))


def _besides(old: Side | None, new: Side) -> tuple[str, ...]:
    """Return lines on what the cases of a build do otherwise than on the other side, besides their machine code."""
    before, after = old.build.works if old else {}, new.build.works
    both = [name for name in after if name in before]
    return tuple(listed("changed", {name: difference(before[name], after[name]).besides("code") for name in both}))


def _failures(old: Side | None, new: Side) -> tuple[str, ...]:
    """Say which sides do not compile, and why."""
    sides = {"in the revision": old, "in the working tree": new}
    return tuple(
        f"{where}, {first_line(side.image)}"
        for where, side in sides.items()
        if side and isinstance(side.image, CompileError)
    )


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    """Kernels of one side of a build, by the names that its declaration has for them. ``data``: a hash of the rest."""

    image: Image | None
    symbols: Mapping[str, str]
    kernels: Mapping[str, Kernel]
    data: str

    def disassembled(self) -> Mapping[str, Kernel]:
        """Return the kernels with their instructions. Raises NoDisassembler."""
        codes = read_code(self.image) if self.image else {}
        return {entry: replace(kernel, code=codes.get(self.symbols[entry])) for entry, kernel in self.kernels.items()}


def _read(side: Side | None, capability: Capability) -> _Compiled | None:
    """Read a side's kernels; None where it is not a cubin. A missing side has none."""
    if side is None:
        return _Compiled(image=None, symbols={}, kernels={}, data="")
    assert isinstance(side.image, Image)
    if not (cubin := read_cubin(read_image(side.image.path), capability)):
        return None
    try:
        symbols = symbols_in(side.image.path, side.build.entries)
    except DeviceError as error:
        raise CompileError(f"{side.build.id}: {error}") from None
    launches = side.build.launches
    kernels = {
        entry: Kernel(
            needs=needs,
            occupancies=tuple(occupancy_at(needs, *block, capability) for block in launches.get(entry, ())),
        )
        for entry, symbol in symbols.items()
        if (needs := cubin.kernels.get(symbol))
    }
    return _Compiled(image=side.image, symbols=symbols, kernels=kernels, data=cubin.data)


def occupancy_at(needs: Needs, threads: int, dynamic: int, capability: Capability) -> LaunchOccupancy:
    """Return a kernel's occupancy in blocks of ``threads`` with ``dynamic`` bytes of shared memory."""
    known, shared = (capability.major, capability.minor), needs.shared_bytes + dynamic
    held = occupancy(known, threads=threads, registers=needs.registers, shared_bytes=shared)
    return LaunchOccupancy(threads=threads, dynamic_bytes=dynamic, occupancy=held)


def _changed_kernels(
    old: _Compiled, new: _Compiled, *, disassemble: bool
) -> tuple[tuple[KernelChange, ...], tuple[str, ...]]:
    """List the kernels that differ, and say what their figures do not show."""
    changed = [pair for pair in _changes(old.kernels, new.kernels) if pair.old != pair.new]
    names = {pair.entry for pair in changed}
    notes = [f"{p.entry}: {ONLY_LAUNCH}" for p in changed if p.old and p.new and p.old.needs == p.new.needs]
    if disassemble and changed:
        try:
            pairs = _changes(old.disassembled(), new.disassembled())
        except NoDisassembler as error:
            notes.append(str(error))
        else:
            changed = [pair for pair in pairs if pair.entry in names]
    for pair in changed:
        if (codes := pair.codes) and codes[0].text == codes[1].text and _encodings(pair) == 2:
            notes.append(f"{pair.entry}: {ONLY_SCHEDULE}")
    return tuple(changed), tuple(notes)


def _encodings(pair: KernelChange) -> int:
    """Count the different machine codes of a kernel."""
    return len({side.needs.code for side in (pair.old, pair.new) if side})


def _changes(old: Mapping[str, Kernel], new: Mapping[str, Kernel]) -> list[KernelChange]:
    return [KernelChange(entry=entry, old=one, new=other) for entry, (one, other) in paired(old, new).items()]


def paired(old: Mapping[str, K], new: Mapping[str, K]) -> dict[str, tuple[K | None, K | None]]:
    """Pair kernels by their names; a side's only kernel is the same kernel under another name too."""
    if len(old) == len(new) == 1:
        old = dict(zip(new, old.values(), strict=True))
    return {entry: (old.get(entry), new.get(entry)) for entry in (*new, *old)}


def first_line(error: Exception) -> str:
    """Return the sentence of an error and, where a compiler says which line is wrong, that line."""
    lines = str(error).splitlines()
    wrong = next((line.strip() for line in lines[1:] if "error" in line), "")
    return f"{lines[0]}: {wrong}" if wrong else lines[0]


# Differences that can be asked to fail


def _spills(old: Kernel, new: Kernel) -> str:
    if new.needs.local_bytes > old.needs.local_bytes:
        return f"local memory of a thread grew from {old.needs.local_bytes:,} to {new.needs.local_bytes:,} bytes"
    for word in ("load", "store") if old.code and new.code else ():
        before, after = old.count(f"local {word}"), new.count(f"local {word}")
        if after > before:
            return f"{word}s of local memory grew from {before:,} to {after:,}"
    return ""


def _registers(old: Kernel, new: Kernel) -> str:
    before, after = old.needs.registers, new.needs.registers
    return f"registers grew from {before} to {after}" if after > before else ""


def _occupancy(old: Kernel, new: Kernel) -> str:
    """Compare at each block size that both sides have; the lowest ones where they have none in common."""
    before = {(e.threads, e.dynamic_bytes): e.occupancy for e in old.occupancies}
    for each in new.occupancies:
        earlier = before.get((each.threads, each.dynamic_bytes))
        if earlier and each.occupancy and each.occupancy.share < earlier.share:
            shares = f"{earlier.share:.2f} to {each.occupancy.share:.2f}"
            return f"occupancy at {each.threads} threads fell from {shares}"
    lowest = old.least_share, new.least_share
    if lowest[0] is not None and lowest[1] is not None and lowest[1] < lowest[0]:
        return f"the lowest occupancy fell from {lowest[0]:.2f} to {lowest[1]:.2f}"
    return ""


GATES: dict[str, Callable[[Kernel, Kernel], str]] = {
    "spills": _spills,
    "registers": _registers,
    "occupancy": _occupancy,
}


def exceeded(changes: Sequence[BuildChange], gates: Sequence[str]) -> list[str]:
    """List what was asked to fail and has happened, a sentence each."""
    return [
        f"{change.id} ({change.arch}): {sentence}"
        for change in changes
        for kernel in change.kernels
        for gate in gates
        if kernel.old and kernel.new and (sentence := GATES[gate](kernel.old, kernel.new))
    ]


def unknown(changes: Sequence[BuildChange], gates: Sequence[str]) -> list[str]:
    """List what could not be compared although it was asked to fail, a sentence each; and that there was no build."""
    if not changes:
        return ["no build was compared: there is none, or -k chose none (`warpwatch list` shows the cases)"]
    if not gates:
        return []
    if not {change.state for change in changes} & {State.IDENTICAL, State.DIFFERENT}:
        return ["no build was compared"]
    sentences = []
    for change in changes:
        name, pairs = f"{change.id} ({change.arch})", [pair for pair in change.kernels if pair.old and pair.new]
        if change.state == State.FAILED:
            sentences.append(f"{name}: not compared, because a side does not compile")
        if change.state == State.DIFFERENT and NO_CODE in change.notes:
            sentences.append(f"{name}: {NO_CODE}")
        if "spills" in gates and not all(pair.codes for pair in pairs):
            sentences.append(f"{name}: loads and stores of local memory are not known without nvdisasm")
        if "occupancy" in gates and any(pair.new and pair.new.least_share is None for pair in pairs):
            sentences.append(f"{name}: occupancy is not known for {change.arch}")
    return sentences
