"""Explains why a case became slower or faster, from the machine code and the launches of both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Capability, Launch, read_capability
from warpwatch.compare.code_difference import first_line, occupancy_at
from warpwatch.devices.compile.builds import kernels_of, symbols_in
from warpwatch.devices.compile.compiler import NVCC_FLAGS, CompileError, Image, read_image
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.explain.causes import Cause, KernelSide, causes, likely
from warpwatch.machine_code.cubin import read_cubin
from warpwatch.machine_code.disassembler import NoDisassembler, read_code
from warpwatch.revision.commit import CommitCase
from warpwatch.revision.declared import of_code, own_identity
from warpwatch.runs.identity import Identity, difference
from warpwatch.verdict.rule import Verdict

NO_RULE = "no rule names a cause in the machine code"
SAME_CODE = "the machine code and the launches are the same, so nothing in them is the cause"
BESIDES = "changed besides machine code"
NO_CUBIN = "there is no machine code of a GPU to compare"


@dataclass(frozen=True, kw_only=True)
class CaseCode:
    """Holds what one side of a case runs: its machine code, and what each of its kernels is launched with.

    ``flags``: those of nvcc that the declaration adds. ``identity``: everything that decides the case's work.
    """

    image: Image
    launches: Mapping[str, Launch]
    entries: tuple[str, ...]
    flags: tuple[str, ...] = ()
    identity: Identity


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Holds what differs between the two sides of a case, and the likely cause.

    ``causes``: everything that the rules found, by kernel. ``likely``: the cause that fits the verdict, or None.
    ``note``: why nothing, or not everything, could be compared; or empty. ``besides``: what changed besides machine
    code. ``sides``: what was compared, by kernel.
    """

    likely: Cause | None = None
    causes: tuple[tuple[str, Cause], ...] = ()
    note: str = ""
    besides: str = ""
    sides: Mapping[str, tuple[KernelSide, KernelSide]]

    @property
    def sentence(self) -> str:
        """The likely cause and what changed besides machine code in one sentence, or why there is neither."""
        besides = f"{BESIDES}: {self.besides}" if self.besides else ""
        if self.likely:
            return "; ".join(filter(None, [f"likely cause: {self.likely.finding.sentence}", besides]))
        return besides or self.note or NO_RULE

    @property
    def summary(self) -> str:
        """Everything that changed and the rules found; else how many instructions and registers there are."""
        if self.causes or self.besides:
            found = [cause.finding.sentence for _, cause in self.causes]
            return "; ".join([*found, *([f"{BESIDES}: {self.besides}"] if self.besides else [])])
        if self.note or not self.sides:
            return self.note
        return "; ".join(_counts(entry, *sides) for entry, sides in self.sides.items())


def _counts(entry: str, old: KernelSide, new: KernelSide) -> str:
    registers = f"{entry}: registers {old.needs.registers} -> {new.needs.registers}"
    if not (old.code and new.code):
        return registers
    return f"{registers}, instructions {old.code.instructions:,} -> {new.code.instructions:,}"


def own_code(case: Case, image: Image) -> CaseCode:
    """Describe the working tree's side of a case."""
    launches = {step.entry: step.launch for step in reversed(case.steps)}
    ready = callable(case.variant.source)
    kernels = None if ready else kernels_of(case.build)
    entries = kernels.entries if kernels else tuple(dict.fromkeys(step.entry for step in case.steps))
    return CaseCode(
        image=image,
        launches=launches,
        entries=entries,
        flags=added(kernels.flags if kernels else ()),
        identity=of_code(own_identity(case), image.image_hash),
    )


def other_code(other: OtherKernel, image: Image) -> CaseCode:
    """Describe another revision's side of a case."""
    launches = {step.entry: step.launch for step in reversed(other.steps)}
    return CaseCode(
        image=image,
        launches=launches,
        entries=other.kernels.entries,
        flags=added(other.kernels.flags),
        identity=of_code(other.identity, image.image_hash),
    )


def code_of(built: CommitCase) -> CaseCode:
    """Describe a commit's side of a case, which compiles there."""
    assert isinstance(built.image, Image)
    return other_code(built.other, built.image)


def added(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flags that are not those of every kernel."""
    return tuple(flag for flag in flags if flag not in NVCC_FLAGS)


def could_read_code(code: CaseCode) -> bool:
    """Read one side's instructions, so that they are in the cache; tell whether that could be done."""
    try:
        return bool(read_code(code.image))
    except (NoDisassembler, CompileError, OSError):  # ``explain`` says so
        return False


def explain(old: CaseCode, new: CaseCode, arch: str, verdict: Verdict) -> Explanation:
    """Compare both sides of a case, and name the likely cause of its verdict."""
    capability, changed = read_capability(arch), difference(old.identity, new.identity)
    besides = changed.besides("code")
    try:
        sides, note = _pairs(old, new, capability) if capability else ({}, NO_CUBIN)
    except (CompileError, DeviceError, OSError) as error:
        return Explanation(sides={}, note=f"the machine code cannot be compared: {first_line(error)}", besides=besides)
    if not sides:
        return Explanation(sides={}, note=note, besides=besides)
    if not changed.changed:
        return Explanation(sides=sides, note="; ".join([SAME_CODE, *changed.unknown]))
    found = [(entry, cause) for entry, (before, after) in sides.items() for cause in causes(before, after)]
    chosen = likely([cause for _, cause in found], slower=verdict != Verdict.FASTER)
    return Explanation(likely=chosen, causes=tuple(found), note=note, besides=besides, sides=sides)


def _pairs(
    old: CaseCode, new: CaseCode, capability: Capability
) -> tuple[dict[str, tuple[KernelSide, KernelSide]], str]:
    """Pair the kernels of both sides by their names; a case's only kernel under another name too."""
    first, lacking = _sides(old, capability)
    second, _ = _sides(new, capability)
    if len(first) == len(second) == 1:
        (before,), ((entry, after),) = first.values(), second.items()
        return {entry: (before, after)}, lacking
    return {entry: (first[entry], second[entry]) for entry in second if entry in first}, lacking or (
        "" if set(first) & set(second) else NO_CUBIN
    )


def _sides(code: CaseCode, capability: Capability) -> tuple[dict[str, KernelSide], str]:
    """Describe the kernels that a side launches, by name; and say what is lacking, if anything is."""
    cubin = read_cubin(read_image(code.image.path), capability)
    if cubin is None:
        return {}, NO_CUBIN
    symbols, lacking = symbols_in(code.image.path, code.entries), ""
    try:
        codes = read_code(code.image)
    except NoDisassembler as error:
        codes, lacking = {}, f"instructions were not compared: {error}"
    sides = {}
    for entry, launch in code.launches.items():
        if needs := cubin.kernels.get(symbols.get(entry, "")):
            held = occupancy_at(needs, prod(launch.block), launch.shared_bytes, capability)
            instructions = codes.get(symbols[entry])
            sides[entry] = KernelSide(
                needs=needs, launch=launch, code=instructions, occupancy=held.occupancy, flags=code.flags
            )
    return sides, lacking
