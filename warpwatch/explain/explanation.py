"""Explanation of why a case became slower or faster, from the machine code and the launches of both sides."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from warpwatch.catalogue.cases import Case, CaseStep
from warpwatch.catalogue.launches import Capability, Launch, read_capability
from warpwatch.compare.code_difference import ANY, KernelChange, first_line, occupancy_at, paired
from warpwatch.devices.compile.builds import kernels_of, symbols_in
from warpwatch.devices.compile.compiler import NVCC_FLAGS, CompileError, Image, read_image
from warpwatch.devices.compile.entries import Kernels
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.other_kernel import OtherKernel, OtherStep
from warpwatch.explain.causes import Cause, KernelSide, causes, likely
from warpwatch.machine_code.cubin import Needs, read_cubin
from warpwatch.machine_code.disassembler import NoDisassembler, read_code
from warpwatch.revision.commit import CommitCase
from warpwatch.revision.declared import own_identity, with_code
from warpwatch.runs.explained import Explained, Figure, RecordedCause
from warpwatch.runs.identity import Identity, difference
from warpwatch.runs.launched import Launched
from warpwatch.verdict.rule import Verdict

NO_RULE = "no rule names a cause in the machine code"
SAME_CODE = "the machine code and the launches are the same, so nothing in them is the cause"
NOT_SEEN = "what its call launches is not known of both sides: it is seen on a GPU with cupti-python"
SAME_LAUNCHES = "its call launches the same machine code in the same grids; arguments and the host are not compared"
BESIDES = "changed besides machine code"
NO_CUBIN = "there is no machine code of a GPU to compare"


@dataclass(frozen=True, kw_only=True)
class CaseCode:
    """Machine code of one side of a case, and its launches. ``identity``: everything that decides the case's work."""

    image: Image
    kernels: Kernels
    steps: Sequence[CaseStep | OtherStep]
    identity: Identity

    def read_ahead(self) -> None:
        """Read the instructions, so that they are in the cache; ``explain`` says what is wrong with them."""
        with contextlib.suppress(NoDisassembler, CompileError, OSError):
            read_code(self.image)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Differences between the two sides of a case, and the likely cause.

    ``causes``: everything that the rules found, by kernel. ``likely``: the cause that fits the verdict, or None.
    ``note``: why nothing, or not everything, could be compared; or empty. ``besides``: what changed besides machine
    code. ``sides``: what was compared, by kernel. ``figures``: those of a call that differ.
    """

    likely: Cause | None = None
    causes: tuple[tuple[str, Cause], ...] = ()
    note: str = ""
    besides: str = ""
    sides: Mapping[str, tuple[KernelSide, KernelSide]] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()

    @property
    def sentence(self) -> str:
        """The likely cause and what changed besides machine code in one sentence, or why there is neither."""
        cause = f"likely cause: {self.likely.sentence}" if self.likely else ""
        return "; ".join(filter(None, [cause, self.besides])) or self.note or NO_RULE

    @property
    def summary(self) -> str:
        """Everything that changed and the rules found; else how many instructions and registers there are."""
        changed = filter(None, [*(cause.sentence for _, cause in self.causes), self.besides])
        counts = (_counts(entry, *sides) for entry, sides in self.sides.items())
        return "; ".join(changed) or self.note or "; ".join(counts)

    @property
    def record(self) -> Explained:
        """This explanation as a run records it."""
        causes = tuple(
            RecordedCause(
                kernel=entry,
                sentence=cause.sentence,
                effect=str(cause.effect),
                rule=cause.rule,
                likely=cause is self.likely,
            )
            for entry, cause in self.causes
        )
        figures = (
            Figure(kernel=entry, name=row.name, old=row.old, new=row.new)
            for entry, (old, new) in self.sides.items()
            for row in KernelChange(entry=entry, old=old, new=new).differences()
        )
        return Explained(causes=causes, figures=self.figures or tuple(figures), besides=self.besides, note=self.note)


def _counts(entry: str, old: KernelSide, new: KernelSide) -> str:
    registers = f"{entry}: registers {old.needs.registers} -> {new.needs.registers}"
    if not (old.code and new.code):
        return registers
    return f"{registers}, instructions {old.code.instructions:,} -> {new.code.instructions:,}"


def own_code(case: Case, image: Image) -> CaseCode:
    """Describe the working tree's side of a case."""
    identity = with_code(own_identity(case), image.image_hash)
    return CaseCode(image=image, kernels=kernels_of(case.build), steps=case.steps, identity=identity)


def other_code(other: OtherKernel, image: Image) -> CaseCode:
    """Describe another revision's side of a case."""
    identity = with_code(other.identity, image.image_hash)
    return CaseCode(image=image, kernels=other.kernels, steps=other.steps, identity=identity)


def code_of(built: CommitCase) -> CaseCode:
    """Describe a commit's side of a case, which compiles there."""
    assert isinstance(built.image, Image)
    return other_code(built.other, built.image)


def explain(old: CaseCode, new: CaseCode, arch: str, verdict: Verdict) -> Explanation:
    """Compare both sides of a case, and name the likely cause of its verdict."""
    capability, changed = read_capability(arch), difference(old.identity, new.identity)
    besides = f"{BESIDES}: {others}" if (others := changed.besides("code")) else ""
    try:
        (before, note), (after, _) = (_sides(code, capability) for code in (old, new))
    except (CompileError, DeviceError, OSError) as error:
        return Explanation(note=f"the machine code cannot be compared: {first_line(error)}", besides=besides)
    sides = {entry: (one, other) for entry, (one, other) in paired(before, after).items() if one and other}
    if not sides:
        return Explanation(note=note or NO_CUBIN, besides=besides)
    if not changed.changed:
        return Explanation(sides=sides, note="; ".join([SAME_CODE, *changed.unknown]))
    causes_of = [(entry, cause) for entry, both in sides.items() for cause in causes(*both)]
    chosen = likely([cause for _, cause in causes_of], slower=verdict != Verdict.FASTER)
    return Explanation(likely=chosen, causes=tuple(causes_of), note=note, besides=besides, sides=sides)


def explain_call(old: Launched, new: Launched, besides: str, arch: str, verdict: Verdict) -> Explanation:
    """Compare what a call launches on both sides, and name the likely cause of its verdict.

    ``besides``: what changed besides machine code, in words.
    """
    capability, known = read_capability(arch) or ANY, bool(old.words and new.words)
    both = paired(*(_launched(each, capability) for each in (old, new)))
    sides = {name: (one, other) for name, (one, other) in both.items() if one and other and one != other}
    causes_of = [(name, cause) for name, (before, after) in sides.items() for cause in causes(before, after)]
    chosen = likely([cause for _, cause in causes_of], slower=verdict != Verdict.FASTER)
    launches = SAME_LAUNCHES if old.is_seen and old == new else old.changes(new)
    besides = "; ".join(filter(None, (launches, f"{BESIDES}: {besides}" * bool(besides))))
    figures = tuple(Figure(kernel=k, name=name, old=a, new=b) for k, name, a, b in old.figures(new)) if known else ()
    note = "" if known else NOT_SEEN
    return Explanation(likely=chosen, causes=tuple(causes_of), note=note, besides=besides, sides=sides, figures=figures)


def _launched(side: Launched, capability: Capability) -> dict[str, KernelSide]:
    """Describe the kernels that a call launches, by name."""
    kernels = {}
    for each in reversed(side.kernels):  # the first launch of a kernel counts
        needs = Needs(
            registers=each.registers, local_bytes=each.local_bytes, shared_bytes=each.shared_bytes, code=each.code
        )
        occupancies = (occupancy_at(needs, prod(each.block), 0, capability),)
        kernels[each.name] = KernelSide(needs=needs, launch=Launch(each.grid, each.block), occupancies=occupancies)
    return kernels


def _sides(code: CaseCode, capability: Capability | None) -> tuple[dict[str, KernelSide], str]:
    """Describe the kernels that a side launches, by name; and say what is lacking, if anything is."""
    cubin = read_cubin(read_image(code.image.path), capability) if capability else None
    if not cubin or not capability:
        return {}, NO_CUBIN
    symbols, lacking = symbols_in(code.image.path, code.kernels.entries), ""
    try:
        codes = read_code(code.image)
    except NoDisassembler as error:
        codes, lacking = {}, f"instructions were not compared: {error}"
    sides = {}
    for step in reversed(code.steps):  # the first launch of a kernel counts
        if needs := cubin.kernels.get(symbols.get(step.entry, "")):
            sides[step.entry] = KernelSide(
                needs=needs,
                launch=step.launch,
                code=codes.get(symbols[step.entry]),
                occupancies=(occupancy_at(needs, prod(step.launch.block), step.launch.shared_bytes, capability),),
                flags=[flag for flag in code.kernels.flags if flag not in NVCC_FLAGS],
            )
    return sides, lacking
