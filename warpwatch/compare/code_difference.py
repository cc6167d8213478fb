"""Machine code of two revisions or toolchains, build by build and kernel by kernel: both sides, and how they differ."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite, prod
from pathlib import Path
from typing import TypeVar

import msgspec

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Capability, read_capability
from warpwatch.catalogue.names import split_id
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.compare.comparison import listed
from warpwatch.compare.compile_cost import cost_of
from warpwatch.devices.compile.background import Progress, images_or_errors, on_all_cores
from warpwatch.devices.compile.builds import compile_build, entries_of, symbols_in
from warpwatch.devices.compile.compiler import CompileError, Image, Target, read_image
from warpwatch.devices.compile.toolchain import INSTALLED, Toolchain
from warpwatch.devices.machine import DeviceError
from warpwatch.machine_code.cubin import Needs, Occupancy, occupancy, read_cubin
from warpwatch.machine_code.disassembler import Code, NoDisassembler, read_code
from warpwatch.revision.commit import compile_other, read_other_kernels
from warpwatch.revision.declared import own_identity
from warpwatch.runs.identity import Identity, difference
from warpwatch.runs.record import BuildCost, RunRecord
from warpwatch.verdict.rule import Verdict

Threads = tuple[int, int]  # of a block: how many, and its bytes of dynamic shared memory
ANY = Capability(0, 0)
K = TypeVar("K")  # a description of a kernel
NO_CODE = "it is PTX or a fatbin, of which the driver makes machine code: nothing more can be said of it here"
ONLY_DATA = "the instructions are the same, and constants or variables of the file differ"
ONLY_LAUNCH = "the machine code is the same, and is launched in other blocks"
ONLY_SCHEDULE = "the instructions are the same, and their encoding differs, such as how they are scheduled"
PLACES = {"inside": "in loops", "outside": "outside loops"}
MOST_LOOPS = 12  # whose sizes are shown


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

    @property
    def name(self) -> str:
        """Name of this figure."""
        more = f" + {self.dynamic_bytes:,} B" if self.dynamic_bytes else ""
        return f"occupancy, {self.threads:,} threads{more}"

    def __str__(self) -> str:
        known = self.occupancy
        return f"{known.share:.2f} (by {known.limited_by})" if known else "unknown"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel of one side. ``code``: None where nothing could disassemble it; ``needs`` tells code apart."""

    needs: Needs
    occupancies: tuple[LaunchOccupancy, ...]
    code: Code | None = field(default=None, compare=False)

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

    def figures(self) -> dict[str, str]:
        """Return the figures of the kernel but for its mix of instructions, as text by name."""
        loads, stores = self.count("local load"), self.count("local store")
        accesses = f", {loads} loads, {stores} stores" if loads or stores else ""
        return {
            "registers": f"{self.needs.registers}",
            "local memory": f"{self.needs.local_bytes:,} B{accesses}",
            "static shared memory": f"{self.needs.shared_bytes:,} B",
            "machine code": f"{self.needs.code_bytes:,} B",
            **{each.name: str(each) for each in self.occupancies},
            "instructions": f"{self.code.instructions:,}" if self.code else "",
            "loops": _loops(self.code.loops) if self.code else "",
        }


def _loops(sizes: Sequence[int]) -> str:
    """Return how many loops there are, and their instructions."""
    more = ", ..." if len(sizes) > MOST_LOOPS else ""
    return f"{len(sizes)} ({', '.join(map(str, sizes[:MOST_LOOPS]))}{more})" if sizes else "0"


@dataclass(frozen=True)
class Row:
    """One figure of a kernel on both sides, as text; empty where a side has none."""

    name: str
    old: str
    new: str

    @property
    def differs(self) -> bool:
        return self.old != self.new

    def text(self, arrow: str = "->") -> str:
        """Return both sides where they differ, or else the one figure."""
        return f"{self.old or 'none'} {arrow} {self.new or 'none'}" if self.differs else self.new


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

    @property
    def encodings(self) -> int:
        """Number of different machine codes."""
        return len({side.needs.code for side in (self.old, self.new) if side})

    def figures(self) -> list[Row]:
        """List the figures of the kernel but for its mix of instructions."""
        old, new = (side.figures() if side else {} for side in (self.old, self.new))
        launches = [each for side in (self.old, self.new) if side for each in side.occupancies]
        launches.sort(key=lambda each: (each.threads, each.dynamic_bytes))
        blocks = dict.fromkeys(each.name for each in launches)
        names = ("registers", "local memory", "static shared memory", "machine code", *blocks, "instructions", "loops")
        return [Row(name, old.get(name, ""), new.get(name, "")) for name in names]

    def mix(self) -> dict[str, list[Row]]:
        """List the kinds of instructions whose numbers differ, in loops and outside loops."""
        codes = [side.code if side else None for side in (self.old, self.new)]
        mix = {}
        for place, words in PLACES.items():
            old, new = (getattr(code, place) if code else {} for code in codes)
            rows = [Row(kind, str(old.get(kind, 0)), str(new.get(kind, 0))) for kind in sorted({*old, *new})]
            mix[words] = [row for row in rows if row.differs]
        return mix

    def differences(self) -> list[Row]:
        """List all figures that differ."""
        mix = [replace(row, name=f"{place}: {row.name}") for place, rows in self.mix().items() for row in rows]
        return [row for row in self.figures() if row.differs] + mix


@dataclass(frozen=True, kw_only=True)
class CaseTimes:
    """Medians of a case on both sides in seconds, and their ratio, by a saved run that measured just these two codes.

    ``low``, ``high``: the 95 % interval of the ratio.
    """

    verdict: Verdict
    before: float
    after: float
    ratio: float
    low: float
    high: float


Timed = Mapping[tuple[str, str, str], CaseTimes]  # by case and the hashes of the old and the new side's machine code


def times_in(runs: Iterable[RunRecord]) -> Timed:
    """Return the times of the pairs that runs measured, all of which are known; of several the last run's."""
    return {
        (name, timed.facts.other_image_hash, timed.facts.image_hash or ""): CaseTimes(
            verdict=decision.verdict,
            before=decision.before,
            after=decision.after,
            ratio=decision.ratio,
            low=decision.low,
            high=decision.high,
        )
        for run in runs
        for name, timed in run.cases.items()
        if timed.facts.other_image_hash and (decision := run.decisions.get(name))
        if all(map(isfinite, (decision.before, decision.after, decision.ratio, decision.low, decision.high)))
    }


@dataclass(frozen=True, kw_only=True)
class BuildChange:
    """Difference of one build for one architecture.

    ``kernels``: those that differ, or all of a new build. ``notes``: sentences on what the figures do not say.
    ``toolchain``: that of the new side, where one is asked for. ``cost``: where both sides compile. ``times``: by case,
    as far as saved runs have them.
    """

    id: str
    arch: str
    state: State
    kernels: tuple[KernelChange, ...] = ()
    notes: tuple[str, ...] = ()
    broken: bool = False  # the working tree's side does not compile
    toolchain: str = ""
    cost: BuildCost | None = None
    times: Mapping[str, CaseTimes] = field(default_factory=dict)

    @property
    def column(self) -> str:
        """Architecture and toolchain."""
        return ", ".join(filter(None, (self.arch, self.toolchain)))

    def __str__(self) -> str:
        return f"{self.id} ({self.column})"


class CodeDifference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Difference in machine code between the working tree and a revision: the JSON of ``warpwatch diff``.

    ``revision``: as it was named; empty where both sides are the working tree's. ``tree``: what the working tree is.
    ``counts``: how many builds are in each state, by architecture and toolchain. ``builds``: those that are not
    identical. ``failures``: what ``--fail-on`` finds, a sentence each. ``toolchains``: that of the old side, and those
    that are compared with it, where any is asked for. ``costs``: sentences on what the builds cost together, as
    ``counts``.
    """

    format: int = 1
    revision: str
    commit: str
    tree: str
    architectures: tuple[str, ...]
    notes: tuple[str, ...] = ()  # on what is not compared
    counts: dict[str, dict[State, int]]
    builds: tuple[BuildChange, ...]
    failures: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()
    costs: dict[str, tuple[str, ...]] = {}


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


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a build, compiled. ``image``: None where it was not, because the other side lacks it.

    ``where``: what messages call the side. ``arch``: where it is not that of both sides.
    """

    build: SideBuild
    image: Image | CompileError | None
    where: str = ""
    arch: str = ""


def compare_revision(
    project: Project,
    tree: Path | None,
    revision: str,
    architectures: Sequence[str],
    matches: Callable[[str], bool],
    *,
    toolchains: Sequence[Toolchain] = (),
    timed: Timed | None = None,
    disassemble: bool,
    progress: Callable[[str], Progress],
) -> list[BuildChange]:
    """Compile the builds whose ids match, for each architecture, and compare them, on all cores.

    ``tree``: the files of the revision; None: both sides are the working tree's. ``toolchains``: those of the new side,
    each compared by itself. ``timed``: times that saved runs have. Raises BadRevision, BadCase, or CompileError where
    machine code cannot be read.
    """
    own, pairs = _own_builds(project), list[_Pair]()
    for toolchain in toolchains or (None,):
        for arch in architectures:
            other = _other_builds(tree, project.module, revision, arch) if tree else own
            names = filter(matches, dict.fromkeys((*own, *other)))
            pairs += [_Pair(name, arch, toolchain, (other.get(name), own.get(name)), tree is None) for name in names]
    # Ours come first: they are in the cache when the same source is asked for by the other side.
    calls = {key: call for is_new in (True, False) for pair in pairs for key, call in pair.calls(is_new=is_new)}
    images = images_or_errors(calls, progress("compiling"))
    compare = {pair: functools.partial(pair.compare, images, timed or {}, disassemble=disassemble) for pair in pairs}
    return [job.result() for job in on_all_cores(compare, progress("comparing")).values()]


_Key = tuple[str, bool, Target]  # of what is compiled: a build of the new side's sources, or of the old side's


@dataclass(frozen=True, eq=False)
class _Pair:
    """Both sides of a build. ``same_sources``: they are of the same revision, and differ in the toolchain alone."""

    name: str
    arch: str
    toolchain: Toolchain | None
    sides: tuple[SideBuild | None, SideBuild | None]
    same_sources: bool

    def key(self, *, is_new: bool) -> _Key:
        target = Target(self.arch)
        target = self.toolchain.target(target) if is_new and self.toolchain else target
        return self.name, is_new or self.same_sources, target

    def calls(self, *, is_new: bool) -> Iterator[tuple[_Key, Callable[[], Image]]]:
        """Yield what compiles a side, unless the working tree lacks the build or its GPUs are newer."""
        side, new, key = self.sides[is_new], self.sides[1], self.key(is_new=is_new)
        if side and new and new.needs <= (read_capability(key[2].arch) or ANY):
            yield key, functools.partial(side.compile, key[2])

    def compare(self, images: Mapping[_Key, Image | CompileError], timed: Timed, *, disassemble: bool) -> BuildChange:
        places = ("in the revision", "in the working tree")
        if self.toolchain:
            places = f"by {INSTALLED.title}", f"by {self.toolchain.title}"
        keys = [self.key(is_new=is_new) for is_new in (False, True)]
        old, new = (
            Side(build=build, image=images.get(key), where=where, arch=key[2].arch) if build else None
            for build, key, where in zip(self.sides, keys, places, strict=True)
        )
        title = self.toolchain.title if self.toolchain else ""
        change = compare_build(self.name, self.arch, old, new, disassemble=disassemble, toolchain=title)
        both = [image.image_hash for key in keys if isinstance(image := images.get(key), Image)]
        names = self.sides[1].works if self.sides[1] else ()
        times = {name: each for name in names if (each := timed.get((name, both[0], both[-1])))} if both else {}
        return replace(change, times=times) if times else change


def _own_builds(project: Project) -> dict[str, SideBuild]:
    """List the working tree's builds by their ids: all that are timed, then those that are only tested."""
    cases_of: dict[str, list[Case]] = {}
    for case in timed_cases(project.families):
        cases_of.setdefault(case.build.id, []).append(case)
    for case in tested_cases(project.families):
        cases_of.setdefault(case.build.id, [case])  # of a build that is not timed, the first shape is enough
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


def _other_builds(tree: Path, module: str, revision: str, arch: str) -> dict[str, SideBuild]:
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


def compare_build(
    name: str, arch: str, old: Side | None, new: Side | None, *, disassemble: bool, toolchain: str = ""
) -> BuildChange:
    """Compare the two sides of a build. Raises CompileError where machine code cannot be read."""
    change = functools.partial(BuildChange, id=name, arch=arch, toolchain=toolchain)
    if new is None:
        return change(state=State.GONE)
    if new.build.needs > min(read_capability(side.arch or arch) or ANY for side in (old, new) if side):
        return change(state=State.TOO_NEW, notes=(f"it needs compute capability {new.build.needs}",))
    images = [side.image for side in (old, new) if side]
    if any(isinstance(image, CompileError) for image in images):
        return change(state=State.FAILED, notes=_failures(old, new), broken=isinstance(new.image, CompileError))
    both = [image for image in images if isinstance(image, Image)]
    same = len({image.image_hash for image in both}) < len(images)
    if len(both) > 1 and (toolchain or not same):
        change = functools.partial(change, cost=cost_of(*both))
    besides = _besides(old, new)
    if same and not besides:
        return change(state=State.IDENTICAL)
    state = State.DIFFERENT if old else State.NEW
    before, after = (_read(side, arch, disassemble=False) for side in (old, new))
    if disassemble and before and after and before.kernels != after.kernels:  # it takes a third of a second each
        before, after = (_read(side, arch, disassemble=True) for side in (old, new))
    if not before or not after:
        return change(state=state, notes=besides if same else (*besides, NO_CODE))
    pairs = [KernelChange(entry=e, old=a, new=b) for e, (a, b) in paired(before.kernels, after.kernels).items()]
    changed = tuple(pair for pair in pairs if pair.old != pair.new)
    notes = _notes(changed, before.note or after.note)
    if old and not changed and before.data != after.data:
        notes = (ONLY_DATA,)
    if old and not (changed or notes or besides):
        state = State.IDENTICAL
    return change(state=state, kernels=changed, notes=(*besides, *notes))


def _notes(changed: Sequence[KernelChange], lacking: str) -> tuple[str, ...]:
    """Return notes on differences that the figures do not show. ``lacking``: why instructions are unknown, or empty."""
    launched = [pair.entry for pair in changed if pair.old and pair.new and pair.old.needs == pair.new.needs]
    scheduled = [
        pair.entry
        for pair in changed
        if (codes := pair.codes) and codes[0].text == codes[1].text and pair.encodings > 1
    ]
    return (
        *(f"{entry}: {ONLY_LAUNCH}" for entry in launched),
        *([lacking] if lacking and changed else []),
        *(f"{entry}: {ONLY_SCHEDULE}" for entry in scheduled),
    )


def _besides(old: Side | None, new: Side) -> tuple[str, ...]:
    """Return lines on what the cases of a build do otherwise than on the other side, besides their machine code."""
    before, after = old.build.works if old else {}, new.build.works
    both = [name for name in after if name in before]
    return tuple(listed("changed", {name: difference(before[name], after[name]).besides("code") for name in both}))


def _failures(old: Side | None, new: Side) -> tuple[str, ...]:
    """Say which sides do not compile, and why."""
    return tuple(
        f"{side.where}, {first_line(side.image)}"
        for side in (old, new)
        if side and isinstance(side.image, CompileError)
    )


@dataclass(frozen=True, kw_only=True)
class _Compiled:
    """Kernels of one side of a build, by the names that its declaration has for them.

    ``data``: a hash of the rest. ``note``: why their instructions are unknown, if they are.
    """

    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    data: str = ""
    note: str = ""


def _read(side: Side | None, arch: str, *, disassemble: bool) -> _Compiled | None:
    """Read a side's kernels; None where it is not a cubin. A missing side has none. ``arch``: unless it has its own."""
    if side is None:
        return _Compiled()
    assert isinstance(side.image, Image)
    capability = read_capability(side.arch or arch) or ANY
    if not (cubin := read_cubin(read_image(side.image.path), capability)):
        return None
    codes, note = {}, ""
    try:
        symbols = symbols_in(side.image.path, side.build.entries)
        codes = read_code(side.image) if disassemble else {}
    except DeviceError as error:
        raise CompileError(f"{side.build.id}: {error}") from None
    except NoDisassembler as error:
        note = str(error)
    launches = side.build.launches
    kernels = {
        entry: Kernel(
            needs=needs,
            occupancies=tuple(occupancy_at(needs, *block, capability) for block in launches.get(entry, ())),
            code=codes.get(symbol),
        )
        for entry, symbol in symbols.items()
        if (needs := cubin.kernels.get(symbol))
    }
    return _Compiled(kernels=kernels, data=cubin.data, note=note)


def occupancy_at(needs: Needs, threads: int, dynamic: int, capability: Capability) -> LaunchOccupancy:
    """Return a kernel's occupancy in blocks of ``threads`` with ``dynamic`` bytes of shared memory."""
    known, shared = (capability.major, capability.minor), needs.shared_bytes + dynamic
    held = occupancy(known, threads=threads, registers=needs.registers, shared_bytes=shared)
    return LaunchOccupancy(threads=threads, dynamic_bytes=dynamic, occupancy=held)


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
