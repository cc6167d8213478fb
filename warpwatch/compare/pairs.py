"""Measures pairs of kernels side by side, in as many fresh processes as their verdicts need.

SCREENING_PROCESSES measure every pair, two where it is long and clearly the same; further ones, at most
MAX_PAIR_PROCESSES, those whose verdicts they may change.
Spare processes are started, and open the GPU, before they are needed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median

from warpwatch.catalogue.declaration import Family
from warpwatch.compare.apart import OtherProcess
from warpwatch.compare.doubts import disturbance
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.worker import Worker
from warpwatch.runs.record import Facts
from warpwatch.timing.measurement import (
    WARM_UP_SHARE,
    Again,
    Measured,
    facts_before_launch,
    take_next_process,
)
from warpwatch.timing.nvml import clock_facts
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.sampling import Accepted, get_ready
from warpwatch.timing.side_by_side import Delay, Plan, measure_pair
from warpwatch.verdict.rule import (
    MAX_PAIR_PROCESSES,
    MIN_PROCESSES,
    SCREENING_PROCESSES,
    Decision,
    Effect,
    Prior,
    Verdict,
    combine,
    decide,
    is_clearly_same,
    learn,
    paired,
)

# Interim looks at the verdicts of a run, while its processes become more.
LOOKS = MAX_PAIR_PROCESSES - SCREENING_PROCESSES + 1
# A case is left unsure whose interval is this share of its floor to either side and still crosses the floor: its change
# is the floor within a fifth, and five more processes of 1.2 s each (H200) would tell no more of it than that.
AT_THE_FLOOR = 0.2
# What a process holds of the GPU's memory that has opened it and measured nothing (647 MiB on an H200), and the part of
# that memory that all spare ones may hold.
SPARE_BYTES, SMALL_PART = 700 * 2**20, 1 / 8
# The standard deviation of a process's ratio of energies is the same for all kernels: 0.3 to 0.7 % of six on an H100.
ENERGY_PRIOR = Prior(0.005, 0.0, 4.0)
# That of the host's times of calls in two processes: 1 to 3 % of four calls of 35 to 101 µs on an H100's host.
HOST_PRIOR = Prior(0.02, 0.0, 4.0)
PAIR_SECONDS = 0.25  # the most wall time for the samples of a case in one process


@dataclass(kw_only=True)
class Pair:
    """A case that is measured on both sides, and its samples from the processes so far.

    ``image``: the new side's machine code. ``delay``: how long the new side is made to wait, where a slowdown is
    injected. ``recorded_variance``: of a process in earlier runs on unchanged code, and its degrees of freedom.
    ``checked``: a build of the new side that finds more faults, if there is one. ``apart``: the other side's process,
    where the two cannot be in one. ``same_source``: all that is declared of both is the same. ``accepted``:
    fingerprints of right results of both sides. ``newer``: the new side, where it is another revision's too;
    ``newer_apart``: the process of that side.
    ``observers``: options of those that are asked for (timing/observers/).
    """

    measured: Measured
    other: OtherKernel
    other_image: Path
    image: Path
    delay: Delay | None = None
    recorded_variance: tuple[float, int] = (0.0, 0)
    checked: Path | None = None
    taken: list[PairSamples] = field(default_factory=list)
    accepted: Accepted | None = None
    apart: OtherProcess | None = None
    same_source: bool = False
    newer: OtherKernel | None = None
    newer_apart: OtherProcess | None = None
    observers: tuple[str, ...] = ()

    def take(self, process: int, seconds: float = PAIR_SECONDS, warm_up: bool = True) -> PairSamples:
        """Measure both sides in the current process, the ``process``-th of this pair; the first proves both right.

        Raises WrongResult or DeviceError for the new side, OtherSideFailed for the other.
        """
        warm = seconds * WARM_UP_SHARE if warm_up else 0.0
        plan = Plan(
            kind=self.measured.kind,
            swap=process % 2 == 1,
            check=process == 0,
            seconds=seconds,
            warm_up=warm,
            delay=self.delay,
            accepted=self.accepted,
            checking_image=self.checked,
            newer=self.newer,
            observers=self.observers,
            settle=not (self.taken and self.taken[-1].keeps_clock_down),
        )
        call, case = self.measured.kernel.worker.call, self.measured.case
        if self.apart:
            self.taken.append(self._take_apart(self.apart, process, plan))
            return self.taken[-1]
        self.taken.append(call(measure_pair, case, self.image, self.other, self.other_image, plan))
        self.accepted = self.taken[-1].accepted
        return self.taken[-1]

    def _take_apart(self, apart: OtherProcess, process: int, plan: Plan) -> PairSamples:
        newer = self.newer_apart
        try:
            return apart.measure(self.measured, process, plan, same_source=self.same_source, newer=newer)
        finally:
            if newer:  # two revisions of many: each pair has processes of its own
                apart.stop()
                newer.stop()

    def take_first(self, seconds: float, warm_up: bool) -> Measured:
        """Measure both sides in the run's own process and keep the samples for pytest-benchmark. Raises as ``take``."""
        taken, measured = self.take(0, seconds, warm_up), self.measured
        measured.facts |= taken.facts | facts_before_launch(measured.kernel, measured.case)
        measured.facts["hold_timeouts"] = taken.thrown_away
        measured.facts |= clock_facts(taken.clocks)
        measured.remark_on_facts()
        measured.is_pair, measured.pending, measured.rounds = True, list(taken.new), len(taken.new)
        return measured

    def effect(self, doubt: str) -> Effect:
        """Combine the processes so far: those that can be judged, if there are at least two of them."""
        used, left_out = self._used()
        why = next(filter(None, map(_hindrance, used)), "")
        effect = combined(used, [taken.log for taken in used])
        variance, df = self.recorded_variance
        if df:
            total = effect.baseline_df + df
            pooled = (effect.baseline_variance * effect.baseline_df + variance * df) / total
            effect = replace(effect, variance=pooled, df=total, baseline_variance=pooled, baseline_df=total)
        return replace(effect, doubt=why or doubt, no_gain=doubt, left_out="" if why else left_out, floor=self._floor)

    def in_cycles(self, doubt: str) -> tuple[Effect, str] | None:
        """Combine the same processes by cycles, and say what kept the clock down.

        None where nothing did, or where the clock was not read beside samples.
        """
        used, _ = self._used()
        why = next(filter(None, (_disturbance(taken) for taken in used if not _hindrance(taken))), "")
        logs = [log for taken in used if (log := taken.log_cycles) is not None]
        if not why or len(logs) < len(used):
            return None
        return replace(combined(used, logs), doubt=doubt, no_gain=doubt, floor=self._floor), why

    @property
    def _floor(self) -> float:
        """The share up to which its contract has changes not called slower or faster."""
        return float(self.measured.facts.get("threshold", 0.0))

    def _used(self) -> tuple[list[PairSamples], str]:
        """Return the processes that count, and why others do not.

        One whose clock was kept down counts where all others that do have clocks beside their samples too.
        """
        fit = [taken for taken in self.taken if not _hindrance(taken)]
        left_out = next(filter(None, map(_hindrance, self.taken)), "")
        if not all(taken.has_clocks for taken in fit):
            left_out = next(filter(None, (_disturbance(taken) for taken in self.taken)), "")
            fit = [taken for taken in fit if not _disturbance(taken)]
        return fit if len(fit) > 1 else self.taken, left_out


def combined(taken: Sequence[PairSamples], logs: Sequence[float]) -> Effect:
    """Combine processes. ``logs``: of new over old, one for each."""
    before, after = (fmean(median(getattr(samples, side)) for samples in taken) for side in ("old", "new"))
    return paired(before, after, logs)


def effect_beside(taken: Sequence[PairSamples], name: str) -> Effect | None:
    """Combine the processes that measured energies or host times, by the fact's name; None where none did."""
    sides = [samples.beside[name] for samples in taken if name in samples.beside]
    known = [PairSamples(old=tuple(old), new=tuple(new)) for old, new in sides]
    return combined(known, [each.log for each in known]) if known else None


def energy_effect(taken: Sequence[PairSamples], doubt: str) -> Effect | None:
    """Combine the processes that measured energy; None where none did. Effect.before and .after are in joules."""
    others = clock_facts([clock for samples in taken for clock in samples.clocks]).get("other_processes", ())
    why, effect = disturbance(Facts(other_processes=others)) or doubt, effect_beside(taken, "joules")
    return effect and replace(effect, doubt=why, no_gain=why)


def _hindrance(taken: PairSamples) -> str:
    """Say why a process cannot be judged: its clock was not steady and not read beside samples, or others were at work.

    A clock that was read beside each sample may be kept down: cycles are judged then as well.
    """
    unread = () if taken.has_clocks else ("sm_clock_mhz", "throttle")
    facts = clock_facts(taken.clocks)
    return disturbance(Facts(**{name: facts[name] for name in (*unread, "other_processes") if name in facts}))


def _disturbance(taken: PairSamples) -> str:
    """Say what disturbed a process, whether or not it can be judged all the same."""
    return disturbance(Facts(**clock_facts(taken.clocks)))


@dataclass
class PairComparison:
    """Compares all pairs of a run.

    ``doubt`` says why times of this device judge no kernel, or is empty. ``parts``: the number of parts of the run,
    each of which has its own comparison. ``energy``, ``host``: decisions about energies and the host's times, where
    they were measured.
    """

    doubt: str = ""
    parts: int = 1
    pairs: dict[str, Pair] = field(default_factory=dict)
    energy: dict[str, Decision] = field(default_factory=dict)
    host: dict[str, Decision] = field(default_factory=dict)

    def decide(self, again: Again) -> dict[str, Decision]:
        """Decide about all pairs together, after SCREENING_PROCESSES and for undecided ones after more.

        Those that are clearly the same after two processes are measured in no third one.
        """
        prior: Prior | None = None
        decisions: dict[str, Decision] = {}
        todo = list(self.pairs)
        for process in range(1, MAX_PAIR_PROCESSES):
            if not todo:
                break
            self._again(todo, process, again)
            if process + 1 < SCREENING_PROCESSES:
                decisions = self._decide(learn(self._effects().values()))
                todo = [name for name in todo if not self._needs_no_more(name, decisions)]
            else:
                prior = prior or learn(self._effects().values())
                decisions = self._decide(prior)
                self._decide_beside()
                unknown = [] if self.doubt else [*decisions.items(), *self.energy.items()]
                unknown += self.host.items()
                todo = list(dict.fromkeys(name for name, decision in unknown if _may_change(decision)))
            if todo:
                open_more_spares([pair.measured for pair in self.pairs.values()], process + 1)
        return decisions

    def _needs_no_more(self, name: str, decisions: Mapping[str, Decision]) -> bool:
        """Tell whether two processes are enough for a pair, whose times alone are asked for."""
        if self.doubt or name not in decisions or not is_clearly_same(decisions[name]):
            return False
        return not self.pairs[name].observers and not any(map(_disturbance, self.pairs[name].taken))

    def _again(self, names: Sequence[str], process: int, again: Again) -> None:
        """Measure pairs in a fresh process: every other one takes them in the reversed order.

        What keeps the clock down comes last in one process and first in the next then, and is waited for once.
        """
        names = names if process % 2 == 0 else names[::-1]
        cases = {name: self.pairs[name].measured for name in names}
        worker, first = cases[names[0]].kernel.worker, self.pairs[names[0]].taken
        if first and first[-1].has_clocks:
            worker.renew()  # the pair itself waits, until its clock is measured to be high
        else:
            take_next_process(worker)
        again.each(cases, lambda name: self.pairs[name].take(process))

    def _decide_beside(self) -> None:
        """Decide about energies and host times of all pairs that have any, by the rule of times.

        No doubt about the GPU's times is one about the host's.
        """
        energies = {name: energy_effect(pair.taken, self.doubt) for name, pair in self.pairs.items()}
        hosts = {name: effect_beside(pair.taken, "host_seconds") for name, pair in self.pairs.items()}
        self.energy, self.host = (
            decide({name: effect for name, effect in effects.items() if effect}, prior, looks=LOOKS, parts=self.parts)
            for effects, prior in ((energies, ENERGY_PRIOR), (hosts, HOST_PRIOR))
        )

    def _effects(self) -> dict[str, Effect]:
        return {name: pair.effect(self.doubt) for name, pair in self.pairs.items() if pair.taken}

    def _decide(self, prior: Prior) -> dict[str, Decision]:
        """Decide about all pairs from the samples taken so far."""
        effects = self._effects()
        decisions = decide(effects, prior, looks=LOOKS, parts=self.parts)
        in_cycles = {name: both for name in effects if (both := self.pairs[name].in_cycles(self.doubt))}
        if not in_cycles:
            return decisions
        cycles = effects | {name: effect for name, (effect, _) in in_cycles.items()}
        by_cycles = decide(cycles, prior, looks=LOOKS, parts=self.parts)
        return combine(decisions, by_cycles, {name: why for name, (_, why) in in_cycles.items()})


def _may_change(decision: Decision) -> bool:
    """Tell whether more processes may decide about a case: not where its change is known to be about its floor."""
    floor, low, high = math.log1p(decision.floor), math.log(decision.low), math.log(decision.high)
    crosses = low <= floor <= high or low <= -floor <= high
    known = crosses and (high - low) / 2 <= AT_THE_FLOOR * floor
    return decision.verdict == Verdict.UNSURE and not known


def recorded(pair: Pair) -> Mapping[str, list[list[float]]]:
    """Samples of both sides in seconds, a list for each process; what was observed beside them by the fact's name."""
    columns = {side: [list(getattr(taken, side)) for taken in pair.taken] for side in ("old", "new")}
    for name in dict.fromkeys(name for taken in pair.taken for name in taken.beside):
        sides = [taken.beside.get(name, ((), ())) for taken in pair.taken]
        columns |= {f"old_{name}": [list(old) for old, _ in sides], f"new_{name}": [list(new) for _, new in sides]}
    return columns


def start_spares(worker: Worker, parts: int = 1) -> None:
    """Start the processes that most pairs need after the first one, and all others too where each has two cores.

    They load their modules while pytest starts. ``parts``: how many runs do so at the same time.
    """
    cores = len(os.sched_getaffinity(0)) // parts
    worker.start_spares((MAX_PAIR_PROCESSES if cores >= 2 * MAX_PAIR_PROCESSES else MIN_PROCESSES) - 1)


def open_spares(worker: Worker, families: Sequence[Family], info: DeviceInfo, *, cold: bool, parts: int = 1) -> None:
    """Have the processes that most pairs need after the first one open the GPU.

    Each holds memory of the GPU, which a large case may need, or another run while this one waits for its turn. Where
    all together hold a small part of it, all that are there open it: later that takes 0.4 s in which nothing is
    measured. Elsewhere the others open it when a pair is undecided (``open_more_spares``). So they do where a run has
    several ``parts``: a driver opens a GPU for one process at a time, and for 28 of them on four H200s took 6.7 s.
    """
    have_room = parts == 1 and SMALL_PART * info.memory_bytes >= SPARE_BYTES * (MAX_PAIR_PROCESSES - 1)
    count = max(MIN_PROCESSES - 1, worker.spares if have_room else 0)
    worker.open_spares(count, get_ready, "cold" if cold else "warm", one_queue=_use_one_queue(families))


def _use_one_queue(families: Iterable[Family]) -> bool:
    """Tell whether all that is measured of these families is launched on one stream: kernels, and calls of libraries.

    Calls that cannot run here do not count. Only the first process checks that calls keep to their stream, for which it
    needs more queues than one.
    """
    calls = (variant.call for family in families for variant in family.variants)
    return all(call is None or call.is_library or call.missing() for call in calls)


def open_more_spares(measured: Sequence[Measured], done: int) -> None:
    """Have processes open the GPU for pairs that are undecided after ``done`` processes, unless some have opened it.

    First those that most pairs need, and then all others at the same time: three take 0.38 s, one takes 0.3 (H100).
    Their modules are loaded by then.
    """
    worker, kind = measured[0].kernel.worker, measured[0].kind
    if not SCREENING_PROCESSES <= done < MAX_PAIR_PROCESSES:
        return
    if not worker.has_opened_spares:
        one_queue = _use_one_queue(one.case.family for one in measured)
        most = MIN_PROCESSES if done < MIN_PROCESSES else MAX_PAIR_PROCESSES
        worker.open_spares(most - done, get_ready, kind, one_queue=one_queue)
    if done == SCREENING_PROCESSES and (missing := MAX_PAIR_PROCESSES - done - worker.spares) > 0:
        worker.start_spares(missing)
