"""The judge of --against: both revisions' kernels side by side in the same processes, and a verdict from the pairs."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median

from bench import pairs
from bench.doubts import slow_clock
from bench.measure import WARM_UP_SHARE, Again, Budget, Measured, declared
from bench.pairs import Pairs, Plan, RivalFailed
from bench.revision import Rival, key
from bench.verdict import Effect, Judgement, Prior, Verdict, decide, learn, paired
from kernels.catalogue import Case
from kernels.check import WrongResult
from kernels.compiler import CompileError, Image
from kernels.machine import DeviceError
from kernels.worker import Kernel

SCREEN = 3  # processes that measure every case
MOST_PROCESSES = 8  # of a case that is hard to decide
CONTROLS = 12  # about so many cases with the same machine code on both sides are measured all the same
COMMON = 10  # kernels of which a median change is worth telling
PAIR_SECONDS = 0.1  # of wall time for the samples of a case in one process, at most


@dataclass
class Duel:
    """A case that is measured on both sides, and what the processes said so far."""

    measured: Measured
    rival: Rival
    image: Path
    control: bool
    taken: list[Pairs] = field(default_factory=list)

    def effect(self, doubt: str) -> Effect:
        old, new = ([median(getattr(taken, side)) for taken in self.taken] for side in ("old", "new"))
        why = next(filter(None, (slow_clock(_clock_facts(taken)) for taken in self.taken)), "")
        return replace(paired(fmean(old), fmean(new), [taken.log for taken in self.taken]), doubt=why or doubt)


@dataclass
class Against:
    """``rivals``: every case of the other revision; ``images``: their machine code, by ``revision.key``.

    ``chosen``: ids of the cases that this run selects; ``doubt`` says why a time of this device proves nothing, if so.
    """

    revision: str
    commit: str
    rivals: Mapping[str, Rival]
    images: Mapping[tuple[object, ...], Image | CompileError]
    chosen: frozenset[str]
    doubt: str = ""
    prior: Prior | None = None
    duels: dict[str, Duel] = field(default_factory=dict)
    judgements: dict[str, Judgement] = field(default_factory=dict)
    controls: dict[str, Judgement] = field(default_factory=dict)
    active = True
    alarm = ""  # what both sides have alike cancels; see ``describe`` for what most kernels show

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Both sides in this process; None where there is nothing to compare. Raises WrongResult or DeviceError."""
        if case.variant.on_host:
            return None
        settled = self._settle(kernel, case)
        if settled:
            self.judgements[case.id] = settled
            if settled.verdict != Verdict.IDENTICAL or not self._is_control(case):
                return None
        rival = self.rivals[case.id]
        if rival.library:
            return None
        image = self.images[key(rival)]
        assert isinstance(image, Image)
        measured = Measured(kernel, case, "cold" if cold else "warm")
        duel = Duel(measured, rival, image.path, control=settled is not None)
        try:
            self._take(duel, 0, min(budget.seconds, PAIR_SECONDS), budget.warm_up)
        except RivalFailed as error:
            what = str(error).partition("\n")[0]
            self.judgements[case.id] = Judgement(Verdict.INCOMPARABLE, reason=f"in {self.revision}: {what}")
            return None
        self.duels[case.id] = duel
        first = duel.taken[0]
        measured.facts |= first.facts | declared(kernel, case) | {"hold_timeouts": first.thrown_away}
        measured.clocks = list(first.clocks)
        measured.taken, measured.rounds = list(first.new), len(first.new)
        return measured

    def _settle(self, kernel: Kernel, case: Case) -> Judgement | None:
        """What can be said of a case without measuring it."""
        rival = self.rivals.get(case.id)
        if rival is None:
            return Judgement(Verdict.NEW)
        if case.variant.library or rival.library:
            same = case.variant.library == rival.library
            return Judgement(Verdict.IDENTICAL) if same else Judgement(Verdict.INCOMPARABLE, reason="another library")
        if different := rival.differs(case):
            return Judgement(Verdict.INCOMPARABLE, reason=f"in {self.revision}, {different}")
        image = self.images[key(rival)]
        if isinstance(image, CompileError):
            first = str(image).partition("\n")[0]
            return Judgement(Verdict.INCOMPARABLE, reason=f"in {self.revision}, {first}")
        same = image.image_hash == kernel.image.image_hash and rival.launch == case.launch
        return Judgement(Verdict.IDENTICAL) if same else None

    def _is_control(self, case: Case) -> bool:
        """By a hash, so that other runs choose others and this one can be repeated."""
        return zlib.crc32(f"{case.id} {self.commit}".encode()) % len(self.chosen) < CONTROLS

    def _take(self, duel: Duel, process: int, seconds: float, warm_up: bool) -> None:
        plan = Plan(duel.measured.kind, process % 2 == 1, process == 0, seconds, seconds * WARM_UP_SHARE * warm_up)
        worker, image = duel.measured.kernel.worker, duel.measured.kernel.image.path
        duel.taken.append(worker.call(pairs.measure_pair, duel.measured.case.id, image, duel.rival, duel.image, plan))

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Its samples are known already."""

    def conclude(self, again: Again) -> None:
        """Judge all pairs together, after every one was measured in SCREEN processes and the undecided in more."""
        verdicts: dict[str, Judgement] = {}
        todo = list(self.duels)
        for process in range(1, MOST_PROCESSES):
            if not todo:
                break
            self._again(todo, process, again)
            if process + 1 >= SCREEN:
                verdicts = self._judge()
                todo = [name for name, judgement in verdicts.items() if judgement.verdict == Verdict.UNSURE]
                todo = [] if self.doubt else todo
        self.controls = {name: j for name, j in verdicts.items() if self.duels[name].control}
        self.judgements |= {name: j for name, j in verdicts.items() if name not in self.controls}
        for name, duel in self.duels.items():
            facts = duel.measured.facts
            facts["verdict"] = str(self.judgements[name].verdict)
            facts["pairs"] = {side: [list(getattr(each, side)) for each in duel.taken] for side in ("old", "new")}

    def _again(self, names: Sequence[str], process: int, again: Again) -> None:
        self.duels[names[0]].measured.kernel.worker.stop()
        for done, name in enumerate(names, 1):
            try:
                self._take(self.duels[name], process, PAIR_SECONDS, True)
            except (DeviceError, WrongResult, RivalFailed) as error:
                again.broken[name] = f"measured again in a fresh process: {error}"
            again.progress(done, len(names))

    def _judge(self) -> dict[str, Judgement]:
        effects = {name: duel.effect(self.doubt) for name, duel in self.duels.items()}
        if self.prior is None:
            self.prior = learn(list(effects.values()))
        return decide(effects, self.prior, looks=MOST_PROCESSES - SCREEN + 1)

    def describe(self) -> list[str]:
        """What is compared with what, and what the controls say."""
        lines = [f"against {self.revision} ({self.commit[:12]}), both sides in the same processes, at least {SCREEN}"]
        if self.controls:
            called = Counter(str(j.verdict) for j in self.controls.values())
            said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(called.items()))
            lines.append(f"controls: {len(self.controls)} cases of identical machine code were measured too: {said}")
        ratios = [j.ratio for name, j in self.judgements.items() if name in self.duels and name not in self.controls]
        if len(ratios) >= COMMON:
            change = 100 * (median(ratios) - 1)
            lines.append(f"median change of the {len(ratios)} kernels whose machine code differs: {change:+.2f} %")
        return lines

    def missing(self, ran: set[str]) -> list[str]:
        """Cases that the other revision times and a whole run has not."""
        return sorted(self.rivals.keys() - ran)


def _clock_facts(taken: Pairs) -> dict[str, object]:
    return {
        "sm_clock_mhz": [clock.mhz for clock in taken.clocks],
        "throttle": [list(clock.throttle) for clock in taken.clocks],
    }
