"""Machine code of two revisions, build by build and kernel by kernel: both sides, their differences, and gates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from pathlib import Path

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Capability, read_capability
from warpwatch.catalogue.names import split_id
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.compare.comparison import listed
from warpwatch.devices.compile.background import on_all_cores
from warpwatch.devices.compile.builds import compile_build, entries_of, symbols_in
from warpwatch.devices.compile.compiler import CompileError, Image, Target, read_image
from warpwatch.devices.machine import DeviceError
from warpwatch.machine_code.cubin import Cubin, Needs, Occupancy, occupancy, read_cubin
from warpwatch.machine_code.disassembler import Code, NoDisassembler, read_code
from warpwatch.revision.commit import compile_other, read_other_kernels
from warpwatch.revision.declared import own_identity
from warpwatch.runs.identity import Identity, difference

Threads = tuple[int, int]  # of a block: how many, and its bytes of dynamic shared memory
Launches = Mapping[str, tuple[Threads, ...]]
ANY = Capability(0, 0)


@dataclass(frozen=True, kw_only=True)
class SideBuild:
    """Holds a build of one side.

    ``entries``: the kernels that it is launched by. ``works``: what each of its cases does, without the machine code.
    ``needs``: the oldest GPUs that it runs on.
    """

    id: str
    compile: Callable[[Target], Image]
    entries: tuple[str, ...]
    works: Mapping[str, Identity]
    needs: Capability = ANY

    @property
    def launches(self) -> Launches:
        """The different blocks that each kernel is launched with, smallest first."""
        found: dict[str, set[Threads]] = {}
        for step in (step for work in self.works.values() for step in work.steps or ()):
            found.setdefault(step.entry, set()).add((prod(step.block), step.shared_bytes))
        return {entry: tuple(sorted(blocks)) for entry, blocks in found.items()}


def own_builds(project: Project) -> dict[str, SideBuild]:
    """List the working tree's builds by their ids: all that are timed, then those that are only tested."""
    timed = timed_cases(project.families)
    builds = {case.build for case in timed}
    found: dict[str, list[Case]] = {}
    for case in (*timed, *(case for case in tested_cases(project.families) if case.build not in builds)):
        known = found.setdefault(case.build.id, [])
        if case.build in builds or not known:  # of a build that is not timed, the first shape is enough
            known.append(case)
    return {name: _own(name, cases) for name, cases in found.items() if not cases[0].variant.has_no_block}


def _own(name: str, cases: Sequence[Case]) -> SideBuild:
    build = cases[0].build
    return SideBuild(
        id=name,
        compile=functools.partial(compile_build, build),
        entries=entries_of(build),
        works={case.id: own_identity(case) for case in cases},
        needs=build.variant.capability,
    )


def other_builds(tree: Path, module: str, revision: str, arch: str) -> dict[str, SideBuild]:
    """List the builds of another revision, which lies in ``tree``, by their ids. Raises BadRevision or BadCase."""
    others: dict[str, list[str]] = {}
    kernels = read_other_kernels(tree, module, revision, arch, every_build=True)
    for name, other in kernels.items():
        if not other.call:
            family, variant, block, _, dtype = split_id(name)
            others.setdefault(f"{family}-{variant}-{block}-{dtype}", []).append(name)
    return {
        name: SideBuild(
            id=name,
            compile=functools.partial(compile_other, kernels[cases[0]]),
            entries=kernels[cases[0]].kernels.entries,
            works={case: kernels[case].identity for case in cases},
        )
        for name, cases in others.items()
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
    made: dict[tuple[str, str, str], Image | CompileError] = {}
    for key, job in on_all_cores(calls, progress).items():
        error = job.exception()
        if error and not isinstance(error, CompileError | OSError):
            raise error
        made[key] = CompileError(str(error)) if error else job.result()
    return made


NO_CODE = "it is PTX or a fatbin, of which the driver makes machine code: nothing more can be said of it here"
ONLY_DATA = "the instructions are the same, and constants or variables of the file differ"
ONLY_LAUNCH = "the machine code is the same, and is launched in other blocks"
ONLY_SCHEDULE = "the instructions are the same, and their encoding differs, such as how they are scheduled"


class State(StrEnum):
    """Says how the two sides of a build differ. ``FAILED``: one of them, or both, does not compile."""

    IDENTICAL = "identical"
    DIFFERENT = "different"
    NEW = "new"
    GONE = "gone"
    FAILED = "failed"
    TOO_NEW = "too new"


@dataclass(frozen=True, kw_only=True)
class LaunchOccupancy:
    """Holds a kernel's occupancy at a block size. ``dynamic_bytes``: dynamic shared memory of a block."""

    threads: int
    dynamic_bytes: int
    occupancy: Occupancy | None


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Holds a kernel of one side. ``code``: None where nothing could disassemble it."""

    needs: Needs
    occupancies: tuple[LaunchOccupancy, ...]
    code: Code | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that is equal on both sides of a kernel that has not changed."""
        return (self.needs, self.occupancies)


@dataclass(frozen=True, kw_only=True)
class KernelChange:
    """Holds both sides of a kernel; one of them may be missing."""

    entry: str
    old: Kernel | None = None
    new: Kernel | None = None


@dataclass(frozen=True, kw_only=True)
class BuildChange:
    """Holds the difference of one build for one architecture.

    ``kernels``: those that differ, or all of a new build. ``notes``: sentences on what the figures do not say.
    ``compared``: both sides compile and were compared.
    """

    id: str
    arch: str
    state: State
    kernels: tuple[KernelChange, ...] = ()
    notes: tuple[str, ...] = ()
    broken: bool = False  # the working tree's side does not compile

    @property
    def compared(self) -> bool:
        return self.state in (State.IDENTICAL, State.DIFFERENT)


@dataclass(frozen=True, kw_only=True)
class Side:
    """Holds what was compiled of a build on one side. ``image``: None where it was not, because the other lacks it."""

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
    capability = read_capability(arch) or ANY
    if new and new.build.needs > capability:
        why = f"it needs compute capability {new.build.needs}"
        return BuildChange(id=name, arch=arch, state=State.TOO_NEW, notes=(why,))
    if new is None:
        return BuildChange(id=name, arch=arch, state=State.GONE)
    if failed := _failures(old, new):
        broken = isinstance(new.image, CompileError)
        return BuildChange(id=name, arch=arch, state=State.FAILED, notes=failed, broken=broken)
    same, besides = bool(old and _hash(old) == _hash(new)), _besides(old, new)
    if same and not besides:
        return BuildChange(id=name, arch=arch, state=State.IDENTICAL)
    cubins = (read_cubin(_bytes(old), capability) if old else None, read_cubin(_bytes(new), capability))
    if (old and not cubins[0]) or not cubins[1]:
        state = State.DIFFERENT if old else State.NEW
        return BuildChange(id=name, arch=arch, state=state, notes=besides if same else (*besides, NO_CODE))
    before = _kernels(old, cubins[0], capability) if old and cubins[0] else {}
    pairs = _paired(before, _kernels(new, cubins[1], capability))
    change = _compare_kernels(name, arch, (old, new), cubins, pairs, disassemble=disassemble)
    state = State.DIFFERENT if besides else change.state
    return replace(change, state=state, notes=(*besides, *change.notes))


def _besides(old: Side | None, new: Side) -> tuple[str, ...]:
    """Lines on what the cases of a build do otherwise than on the other side, besides their machine code."""
    before, after = old.build.works if old else {}, new.build.works
    both = [name for name in after if name in before]
    return tuple(listed("changed", {name: difference(before[name], after[name]).besides("code") for name in both}))


def _compare_kernels(
    name: str,
    arch: str,
    sides: tuple[Side | None, Side],
    cubins: Sequence[Cubin | None],
    pairs: Sequence[KernelChange],
    *,
    disassemble: bool,
) -> BuildChange:
    old, new = sides
    changed = [pair for pair in pairs if not (pair.old and pair.new and pair.old.key == pair.new.key)]
    if not changed and cubins[0] and cubins[1]:
        same = cubins[0].data == cubins[1].data
        state = State.IDENTICAL if same else State.DIFFERENT
        return BuildChange(id=name, arch=arch, state=state, notes=() if same else (ONLY_DATA,))
    notes = [f"{pair.entry}: {ONLY_LAUNCH}" for pair in changed if _same_needs(pair)]
    if disassemble:
        try:
            codes = [_codes(side) if side else {} for side in (old, new)]
        except NoDisassembler as error:
            notes.append(str(error))
        else:
            changed = [_with_codes(pair, *codes) for pair in changed]
    notes += [f"{pair.entry}: {ONLY_SCHEDULE}" for pair in changed if _only_scheduled(pair)]
    state = State.DIFFERENT if old else State.NEW
    return BuildChange(id=name, arch=arch, state=state, kernels=tuple(changed), notes=tuple(notes))


def _same_needs(pair: KernelChange) -> bool:
    return bool(pair.old and pair.new and pair.old.needs == pair.new.needs)


def _only_scheduled(pair: KernelChange) -> bool:
    old, new = pair.old, pair.new
    if not (old and new and old.code and new.code):
        return False
    return old.code.text == new.code.text and old.needs.code != new.needs.code


def _paired(old: Mapping[str, Kernel], new: Mapping[str, Kernel]) -> list[KernelChange]:
    """Pair kernels by their names; a build's only kernel is the same kernel under another name too."""
    if len(old) == len(new) == 1:
        (first,), ((entry, second),) = old.values(), new.items()
        return [KernelChange(entry=entry, old=first, new=second)]
    return [KernelChange(entry=entry, old=old.get(entry), new=new.get(entry)) for entry in dict.fromkeys((*new, *old))]


def _with_codes(pair: KernelChange, old: Mapping[str, Code], new: Mapping[str, Code]) -> KernelChange:
    first, second = (next(iter(each.values())) if len(each) == 1 else each.get(pair.entry) for each in (old, new))
    return KernelChange(
        entry=pair.entry,
        old=pair.old and replace(pair.old, code=first),
        new=pair.new and replace(pair.new, code=second),
    )


def _kernels(side: Side, cubin: Cubin, capability: Capability) -> dict[str, Kernel]:
    symbols = _symbols(side)
    launches: Launches = side.build.launches
    return {
        entry: Kernel(needs=needs, occupancies=_occupancies(needs, launches.get(entry, ()), capability))
        for entry, symbol in symbols.items()
        if (needs := cubin.kernels.get(symbol))
    }


def _occupancies(
    needs: Needs, blocks: Sequence[tuple[int, int]], capability: Capability
) -> tuple[LaunchOccupancy, ...]:
    return tuple(occupancy_at(needs, threads, dynamic, capability) for threads, dynamic in blocks)


def occupancy_at(needs: Needs, threads: int, dynamic: int, capability: Capability) -> LaunchOccupancy:
    """Return a kernel's occupancy in blocks of ``threads`` with ``dynamic`` bytes of shared memory."""
    known, shared = (capability.major, capability.minor), needs.shared_bytes + dynamic
    held = occupancy(known, threads=threads, registers=needs.registers, shared_bytes=shared)
    return LaunchOccupancy(threads=threads, dynamic_bytes=dynamic, occupancy=held)


def _codes(side: Side) -> dict[str, Code]:
    """Return the code of each kernel of a side by the name that the declaration has for it."""
    assert isinstance(side.image, Image)
    found = read_code(side.image)
    return {entry: found[symbol] for entry, symbol in _symbols(side).items() if symbol in found}


def _symbols(side: Side) -> Mapping[str, str]:
    assert isinstance(side.image, Image)
    try:
        return symbols_in(side.image.path, side.build.entries)
    except DeviceError as error:
        raise CompileError(f"{side.build.id}: {error}") from None


def _hash(side: Side) -> str:
    assert isinstance(side.image, Image)
    return side.image.image_hash


def _bytes(side: Side) -> bytes:
    assert isinstance(side.image, Image)
    return read_image(side.image.path)


def _failures(old: Side | None, new: Side | None) -> tuple[str, ...]:
    """Say which sides do not compile, and why."""
    sides = {"in the revision": old, "in the working tree": new}
    return tuple(
        f"{where}, {first_line(side.image)}"
        for where, side in sides.items()
        if side and isinstance(side.image, CompileError)
    )


def first_line(error: Exception) -> str:
    """Return the sentence of an error and, where a compiler says which line is wrong, that line."""
    lines = str(error).splitlines()
    wrong = next((line.strip() for line in lines[1:] if "error" in line), "")
    return f"{lines[0]}: {wrong}" if wrong else lines[0]


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
