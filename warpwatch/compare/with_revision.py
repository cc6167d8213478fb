"""The judge of --against: both revisions' kernels side by side in the same processes, and a verdict from the pairs."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from warpwatch.catalogue.declaration import Case
from warpwatch.compare.comparison import count_compared
from warpwatch.compare.pairs import PAIR_SECONDS, SCREEN, Pair, PairComparison, recorded
from warpwatch.devices.check import WrongResult
from warpwatch.devices.compiler import CompileError, Image
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.devices.worker import Kernel
from warpwatch.timing.parent_samples import Again, Budget, Measured
from warpwatch.timing.worker_pairs import OtherSideFailed
from warpwatch.verdict.rule import Decision, Verdict

CONTROLS = 12  # so many cases with the same machine code on both sides are measured all the same
COMMON = 10  # kernels of which a median change is worth telling


@dataclass
class RevisionComparison:
    """``others``: every case of the other revision; ``images``: their machine code, by ``revision.key``.

    ``known``: variances of cases from earlier runs on unchanged code, and their degrees of freedom.
    """

    revision: str
    commit: str
    others: Mapping[str, OtherKernel]
    images: Mapping[tuple[object, ...], Image | CompileError]
    side_by_side: PairComparison
    known: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    identical: dict[str, Pair] = field(default_factory=dict)  # which could be measured, and are not
    controls: dict[str, Decision] = field(default_factory=dict)  # those of them that were
    active = True
    alarm = ""  # what both sides have alike cancels; see ``describe`` for what most kernels show

    @property
    def compared(self) -> int:
        return count_compared(self.decisions)

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Both sides in this process; None where there is nothing to compare. Raises WrongResult or DeviceError."""
        if case.variant.on_host:
            return None
        settled = self._settle(kernel, case)
        if settled:
            self.decisions[case.id] = settled
            if settled.verdict == Verdict.IDENTICAL and not case.variant.library:
                self.identical[case.id] = self._pair(kernel, case, cold)
            return None
        pair = self._pair(kernel, case, cold)
        try:
            measured = pair.first(min(budget.seconds, PAIR_SECONDS), budget.warm_up)
        except OtherSideFailed as error:
            what = str(error).partition("\n")[0]
            self.decisions[case.id] = Decision(Verdict.INCOMPARABLE, reason=f"in {self.revision}: {what}")
            return None
        self.side_by_side.pairs[case.id] = pair
        return measured

    def _pair(self, kernel: Kernel, case: Case, cold: bool) -> Pair:
        other = self.others[case.id]
        image = self.images[key(other)]
        assert isinstance(image, Image)
        measured = Measured(kernel, case, "cold" if cold else "warm")
        known = self.known.get(case.id, (0.0, 0))
        return Pair(measured, other, image.path, kernel.image.path, known=known, checked=kernel.checked.path)

    def _settle(self, kernel: Kernel, case: Case) -> Decision | None:
        """What can be said of a case without measuring it."""
        other = self.others.get(case.id)
        if other is None:
            return Decision(Verdict.NEW)
        if case.variant.library or other.library:
            own = case.variant.library.name if case.variant.library else ""
            same = own == other.library
            return Decision(Verdict.IDENTICAL) if same else Decision(Verdict.INCOMPARABLE, reason="another library")
        if different := other.differs(case):
            return Decision(Verdict.INCOMPARABLE, reason=f"in {self.revision}, {different}")
        image = self.images[key(other)]
        if isinstance(image, CompileError):
            first = str(image).partition("\n")[0]
            return Decision(Verdict.INCOMPARABLE, reason=f"in {self.revision}, {first}")
        same = image.image_hash == kernel.image.image_hash and other.launch == case.launch
        return Decision(Verdict.IDENTICAL) if same else None

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Its samples are known already."""

    def conclude(self, again: Again) -> None:
        """Judge all pairs together; what is undecided after SCREEN processes is measured in more."""
        changed = dict(self.side_by_side.pairs)
        self._add_controls(again)
        verdicts = self.side_by_side.decide(again)
        self.controls = {name: decision for name, decision in verdicts.items() if name not in changed}
        self.decisions |= {name: decision for name, decision in verdicts.items() if name in changed}
        for name, pair in changed.items():
            pair.measured.facts["verdict"] = str(self.decisions[name].verdict)
            pair.measured.facts["pairs"] = recorded(pair)

    def _add_controls(self, again: Again) -> None:
        """Some identical cases, by a hash: other revisions choose others, and this run can be repeated."""
        names = sorted(self.identical, key=lambda name: zlib.crc32(f"{name} {self.commit}".encode()))
        for name in sorted(names[:CONTROLS], key=list(self.identical).index):
            try:
                self.identical[name].take(0)
                self.side_by_side.pairs[name] = self.identical[name]
            except (DeviceError, WrongResult) as error:
                again.broken[name] = f"as a control: {error}"

    def describe(self) -> list[str]:
        """What is compared with what, and what the controls say."""
        lines = [f"against {self.revision} ({self.commit[:12]}), both sides in the same processes, at least {SCREEN}"]
        if self.controls:
            called = Counter(str(decision.verdict) for decision in self.controls.values())
            said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(called.items()))
            lines.append(f"controls: {len(self.controls)} cases of identical machine code were measured too: {said}")
        changed = [name for name in self.side_by_side.pairs if name in self.decisions and name not in self.identical]
        ratios = [self.decisions[name].ratio for name in changed]
        if len(ratios) >= COMMON:
            change = 100 * (median(ratios) - 1)
            lines.append(f"median change of the {len(ratios)} kernels whose machine code differs: {change:+.2f} %")
        return lines

    def missing(self, ran: set[str]) -> list[str]:
        """Cases that the other revision times and a whole run has not."""
        return sorted(self.others.keys() - ran)
