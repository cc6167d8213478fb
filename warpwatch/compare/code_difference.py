"""Compares the machine code of two sides, build by build and kernel by kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from warpwatch.catalogue.launches import Capability, read_capability
from warpwatch.compare.code_sides import ANY, Launches, SideBuild
from warpwatch.compare.comparison import listed
from warpwatch.devices.compile.background import on_all_cores
from warpwatch.devices.compile.builds import symbols_in
from warpwatch.devices.compile.compiler import CompileError, Image, read_image
from warpwatch.devices.machine import DeviceError
from warpwatch.machine_code.cubin import Cubin, Needs, read_cubin
from warpwatch.machine_code.disassembler import Code, NoDisassembler, read_code
from warpwatch.machine_code.occupancy import Occupancy, occupancy
from warpwatch.runs.identity import difference

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
