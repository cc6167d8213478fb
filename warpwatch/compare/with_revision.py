"""Comparison with another revision (--against): the kernels of both run side by side in the same processes."""

from __future__ import annotations

import math
import os
import shlex
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Capability
from warpwatch.catalogue.names import split_id
from warpwatch.catalogue.project import Project
from warpwatch.compare import compile_cost
from warpwatch.compare.apart import OtherProcess, SameWork
from warpwatch.compare.comparison import CALL, Comparison, OldCode, listed, load_in_background
from warpwatch.compare.pairs import PAIR_SECONDS, Pair, PairComparison, recorded
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.compile.toolchain import INSTALLED, Toolchain
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.machine_code.cubin import code_digest
from warpwatch.revision.commit import SAME_LIBRARY
from warpwatch.revision.declared import own_identity, with_code
from warpwatch.runs.identity import difference, incomparable
from warpwatch.runs.launched import Launched
from warpwatch.timing.measurement import Again, Budget, Measured
from warpwatch.timing.observers import BY_OPTION
from warpwatch.timing.side_by_side import OtherSideFailed
from warpwatch.verdict.rule import Decision, Verdict

# Cases of the same machine code on both sides that are measured all the same: one for each four that differ, at most
# a dozen, and none where nothing differs.
CONTROLS, CHANGED_FOR_A_CONTROL = 12, 4
MIN_FOR_MEDIAN = 10  # changed kernels from which on their median change is printed


@dataclass(kw_only=True)
class RevisionComparison(Comparison):
    """Comparison of this revision's kernels with another's.

    ``others``: every case of the other revision; ``images``: their machine code, by ``other_kernel.key``.
    ``recorded_variances``: of a process, by case, from earlier runs on unchanged code, and their degrees of freedom.
    ``identical``: pairs of the same work, of which only ``controls`` are measured. ``apart``: the other revision's
    process, for calls. ``same_files``: no file of the repository differs. ``tree``: the folder that the other revision
    is unpacked in. ``toolchain``: of this side, and the GPU's architecture, where that of the other side may be
    another one, ``old_toolchain`` in words: compilers' metadata is then left out of the comparison. What a process does
    to all times cancels in pairs: no common alarm.
    """

    revision: str
    commit: str
    others: Mapping[str, OtherKernel]
    images: Mapping[tuple[object, ...], Image | CompileError]
    side_by_side: PairComparison
    recorded_variances: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    identical: dict[str, Pair] = field(default_factory=dict)
    apart: OtherProcess | None = None
    same_files: bool = False
    tree: Path = Path()
    toolchain: tuple[Toolchain, Capability] | None = None
    old_toolchain: str = ""

    @property
    def against(self) -> str:
        return self.commit

    def measures(self, case: Case, image: Image) -> bool:
        return not case.variant.on_host and self._decide_unmeasured(image, case) is None

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Measure both sides in this process; None where nothing is compared. Raises WrongResult or DeviceError."""
        if case.variant.on_host:
            return None
        if decision := self._decide_unmeasured(kernel.image, case):
            self.decisions[case.id] = decision
            if decision.verdict == Verdict.IDENTICAL and not case.variant.call:
                self.identical[case.id] = self._pair(kernel, case, cold)
            return None
        pair = self._pair(kernel, case, cold)
        pair.observers = tuple(each for each in budget.observers if BY_OPTION[each].is_apart or not pair.apart)
        if not self.side_by_side.pairs:
            load_in_background()
        kernel.worker.await_spares()
        try:
            measured = pair.take_first(min(budget.seconds, PAIR_SECONDS), budget.warm_up)
        except SameWork:
            self.decisions[case.id] = Decision(verdict=Verdict.IDENTICAL)
            return None
        except OtherSideFailed as error:
            why = "; ".join(filter(None, (str(error).partition("\n")[0], self.lacks)))
            self.decisions[case.id] = Decision(verdict=Verdict.INCOMPARABLE, reason=f"in {self.revision}: {why}")
            return None
        self.side_by_side.pairs[case.id] = pair
        self.measured[case.id] = measured
        return measured

    def _pair(self, kernel: Kernel, case: Case, cold: bool) -> Pair:
        other = self.others[case.id]
        measured = Measured(kernel=kernel, case=case, kind="cold" if cold else "warm")
        if case.variant.call:
            own = kernel.image.path
            same = case.id not in self.changed
            return Pair(measured=measured, other=other, other_image=own, image=own, apart=self.apart, same_source=same)
        image = self.images[key(other)]
        assert isinstance(image, Image)
        return Pair(
            measured=measured,
            other=other,
            other_image=image.path,
            image=kernel.image.path,
            recorded_variance=self.recorded_variances.get(case.id, (0.0, 0)),
            checked=kernel.checked.path,
        )

    def _decide_unmeasured(self, own: Image, case: Case) -> Decision | None:
        """Decide about a case that needs no measuring; None for all others. ``own``: this revision's machine code."""
        other, call = self.others.get(case.id), case.variant.call
        if other is None:
            why = self._why_not_declared(case)
            return Decision(verdict=Verdict.INCOMPARABLE if why else Verdict.NEW, reason=why)
        if (case.variant.name if call else "") != other.call:
            return Decision(verdict=Verdict.INCOMPARABLE, reason="another call")
        image = own if call else self.images[key(other)]
        why = incomparable(other.identity, own_identity(case))
        if why or isinstance(image, CompileError):
            why = why or str(image).partition("\n")[0]
            return Decision(verdict=Verdict.INCOMPARABLE, reason=f"in {self.revision}, {why}")
        before = with_code(other.identity, self._digest(image), SAME_LIBRARY)
        after = with_code(own_identity(case), self._digest(own), SAME_LIBRARY)
        changed = difference(before, after, same_source=self.same_files)
        if (changed or self.toolchain) and not call:
            self.costs[case.build.id] = compile_cost.cost_of(image, own)
        if changed:
            self.changed[case.id] = changed
            return None
        # A call of no library alone is what it was where no file has changed, or where it launches what it launched.
        known = not call or call.is_library or self.same_files
        return Decision(verdict=Verdict.IDENTICAL) if known else None

    def _digest(self, image: Image) -> str:
        return code_digest(image, self.toolchain[1]) if self.toolchain else image.image_hash

    def _why_not_declared(self, case: Case) -> str:
        """Say why the other revision may not declare a case: it has the file, and lacks a submodule.

        A variant whose include folder is missing is left out there, as any that is declared with a mistake.
        """
        file = self.tree / os.path.relpath(case.build.source, case.build.family.root)
        return f"in {self.revision}, not declared; {self.lacks}" if self.lacks and file.is_file() else ""

    def conclude(self, again: Again) -> None:
        """Decide about all pairs together; undecided ones are measured in more processes."""
        changed = dict(self.side_by_side.pairs)
        self._add_controls(again)
        for name, decision in self.side_by_side.decide(again).items():
            (self.decisions if name in changed else self.controls)[name] = decision
        self.energy = {name: each for name, each in self.side_by_side.energy.items() if name in self.decisions}
        self.host = {name: each for name, each in self.side_by_side.host.items() if name in self.decisions}
        if self.apart:
            self.apart.stop()
        for pair in changed.values():
            pair.measured.facts["pairs"] = recorded(pair)
            if isinstance(image := self.images.get(key(pair.other)), Image):
                pair.measured.facts["other_image_hash"] = image.image_hash

    def _add_controls(self, again: Again) -> None:
        """Measure some identical cases too; none where nothing differs, and there is nothing that they could show.

        They are chosen by a hash, so that other revisions choose others and this run can be repeated.
        """
        names = sorted(self.identical, key=lambda name: zlib.crc32(f"{name} {self.commit}".encode()))
        count = min(CONTROLS, math.ceil(len(self.side_by_side.pairs) / CHANGED_FOR_A_CONTROL))
        for name in sorted(names[:count], key=list(self.identical).index):
            try:
                self.identical[name].take(0)
                self.side_by_side.pairs[name] = self.identical[name]
            except (DeviceError, WrongResult) as error:
                again.broken[name] = f"as a control: {error}"

    def _describe(self) -> list[str]:
        """Return lines on what is compared with what, and the verdicts of the controls."""
        names = f"{self.revision} ({self.commit[:12]})"
        lines = [f"against {names}, both sides in the same processes"]
        if self.toolchain:
            so = "" if self.same_files else f"; files differ from {self.revision} too, and may be the cause as well"
            old = self.old_toolchain or INSTALLED.title
            lines.append(f"toolchains: {old} -> {self.toolchain[0].title}{so}")
        if self.controls:
            counts = Counter(str(decision.verdict) for decision in self.controls.values())
            verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
            lines.append(f"controls: {len(self.controls)} of identical machine code, measured all the same: {verdicts}")
        lines += self._describe_changes()
        pairs = self.side_by_side.pairs
        if calls := sum(pair.apart is not None for pair in pairs.values()):
            many = f"{calls} call{'s' if calls > 1 else ''}"
            lines.append(f"{many}: each side ran in a process of its own, and the two processes took turns on the GPU")
        ratios = [
            self.decisions[name].ratio
            for name, pair in pairs.items()
            if name in self.decisions and name not in self.identical and not pair.apart
        ]
        if len(ratios) >= MIN_FOR_MEDIAN:
            change = 100 * (median(ratios) - 1)
            lines.append(f"median change of the {len(ratios)} kernels whose machine code differs: {change:+.2f} %")
        return lines + compile_cost.lines(self.costs)

    def _describe_changes(self) -> list[str]:
        """Return lines on what changed besides machine code, and on inputs that are drawn in another way."""
        drawn = [name for name, each in self.changed.items() if "draw" in each.changed and name in self.decisions]
        besides = {name: each.besides("code", "draw") for name, each in self.changed.items()}
        unknown = {name: "; ".join(each.unknown) for name, each in self.changed.items()}
        lines = listed("changed besides machine code", besides) + listed("not known to be the same", unknown)
        lines += self._other_launches()
        if drawn:
            many = f"{len(drawn)} case{'s' * (len(drawn) > 1)}"
            first = self.changed[drawn[0]].changed["draw"][0]
            text = f"inputs of {many} are drawn in another way than in {self.revision}, such as {drawn[0]} ({first})"
            lines.append(f"{text}: both sides were timed on today's")
        return lines

    def missing(self, ran: set[str]) -> list[str]:
        """List the cases that the other revision times and a whole run did not."""
        return sorted(self.others.keys() - ran)

    def old_codes(self, names: Sequence[str], project: Project, target: Target) -> dict[str, OldCode | str]:
        """Return the other revision's kernels, as they were compared."""
        images = {name: self.images.get(key(self.others[name])) for name in names if not self.others[name].call}
        return {
            name: (self.others[name], image) if isinstance(image := images.get(name), Image) else CALL for name in names
        }

    def old_launches(self, case: str) -> Launched:
        return self.apart.launched.get(case, Launched()) if self.apart else Launched()

    def next_step(self, case: str, against: str) -> str:
        if not self.toolchain:
            return f"python -m warpwatch explain {case} --against {self.revision}"
        if self.others[case].call:
            return ""  # diff knows kernels alone
        family, variant, block, _, dtype = split_id(case)
        words = shlex.join([self.revision, "--toolchain", self.toolchain[0].text])
        return f"python -m warpwatch diff {words} -k {family}-{variant}-{block}-{dtype}"
