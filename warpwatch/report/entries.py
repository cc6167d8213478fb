"""The cases of a run as tables, pictures and pages show them: each with its work, rate, share and verdict."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from statistics import median

from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.names import BadCase, split_id
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.saved_verdicts import Verdicts
from warpwatch.report.tables import kernel_times, medians
from warpwatch.runs.record import CaseRecord, RunRecord
from warpwatch.verdict.rule import Decision

HOST = "serial"
NOT_COMPARED = "not compared"
FAILED = "failed"
MISSING = "missing"


def share(cases: Mapping[str, Case], case: Case, times: Mapping[str, float]) -> float | None:
    """Return the share that a case reaches of its reference's rate; None if ``times`` lacks either.

    ``cases``: by id, the reference among them. ``times``: of the kernels alone (timing/timer.py), in seconds by id.
    """
    reference = cases.get(case.reference_case)
    if reference is None or reference.id not in times or case.id not in times or case.variant.on_host:
        return None
    same = reference.family is case.family and reference.shape == case.shape
    work, most = (1.0, 1.0) if same else (case.work.bytes, reference.work.bytes)
    return (work / times[case.id]) / (most / times[reference.id])


@dataclass(frozen=True, kw_only=True)
class Roof:
    """Limits of a roofline: the memory's peak in bytes a second, and the highest rate that was measured."""

    bytes_per_second: float
    rate: float
    of: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Case of a run, or one that is missing from it.

    ``verdict``: that of ``decision``, or why there is none. ``seconds``: the median, and ``own_seconds`` that without
    the fixed overhead of events; 0 where there is none. ``operations``, ``bytes``: the least work of a launch.
    ``share``: of the reference. ``joules``: of a launch, where that was measured.
    """

    id: str
    family: str
    variant: str
    block: str
    shape: str
    dtype: str
    verdict: str
    seconds: float
    own_seconds: float
    timed: CaseRecord | None
    case: Case | None
    decision: Decision | None
    operations: int
    bytes: int
    share: float | None
    joules: float | None

    @cached_property
    def page(self) -> str:
        """Path of its page: its id where that is a plain file name."""
        plain = re.fullmatch(r"[\w-][\w.+-]{0,150}", self.id, re.ASCII)
        return f"c/{self.id if plain else f'{zlib.crc32(self.id.encode()):08x}'}.html"

    @property
    def on_host(self) -> bool:
        return self.verdict == HOST

    @property
    def is_library(self) -> bool:
        """True for a call, such as a vendor's library."""
        return self.case is not None and self.case.variant.call is not None

    @property
    def unit(self) -> str:
        return "Gop/s" if self.operations and self.dtype.startswith("int") else "GFLOP/s" if self.operations else "GB/s"

    @property
    def work(self) -> int:
        """Operations or, where there are none, bytes: the amount that its rate is of."""
        return self.operations or self.bytes

    @property
    def rate(self) -> float | None:
        """Rate in units a second (``unit``), or None where work or time is unknown."""
        return self.work / self.own_seconds / 1e9 if self.work and self.own_seconds else None

    @property
    def intensity_and_rate(self) -> tuple[float, float] | None:
        """Operations a byte and operations a second; None where they are unknown, and on the host."""
        known = self.operations and self.bytes and self.own_seconds and not self.on_host
        return (self.operations / self.bytes, self.operations / self.own_seconds) if known else None

    @property
    def reference(self) -> str:
        """Family and variant of the case whose rate its share is of; empty where it has no share."""
        return "" if self.share is None or not self.case else "-".join(self.case.reference_case.split("-")[:2])

    @property
    def threads(self) -> int:
        """Threads of a block of its first launch; 0 where no kernel of ours is launched."""
        is_kernel = self.case and not self.on_host and not self.is_library
        return prod(self.case.launch.block) if self.case and is_kernel else 0

    @property
    def elements_per_thread(self) -> float | None:
        """Elements of the first result over the threads of the first launch; None where no kernel of ours has both."""
        if not self.case or not self.threads or not self.case.results:
            return None
        return prod(self.case.results[0].shape) / (self.threads * prod(self.case.launch.grid))

    @cached_property
    def ratio(self) -> float | None:
        """Time now over time before; None where the two were not compared."""
        compared = self.decision is not None and self.decision.ratio == self.decision.ratio  # not NaN
        return self.decision.ratio if self.decision and compared else None


@dataclass(frozen=True, kw_only=True)
class Results:
    """Cases of one run, or of several as medians. ``today``: the last run, which all but times is of."""

    families: Sequence[Family]
    runs: Sequence[RunRecord]
    verdicts: Verdicts = Verdicts()  # noqa: RUF009  # frozen

    @property
    def today(self) -> RunRecord:
        return self.runs[-1]

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """Cases of the runs, those that failed in the last one and those that are missing, in the catalogue's order."""
        known = {case.id: case for case in timed_cases(self.families)}
        names = dict.fromkeys([n for run in self.runs for n in (*run.cases, *run.failed)] + [*self.verdicts.missing])
        for name in names.keys() - known.keys():
            try:
                known[name] = find_case(self.families, name)
            except BadCase:  # renamed or taken away since
                continue
        places = {(f.name, v.name): (i, j) for i, f in enumerate(self.families) for j, v in enumerate(f.variants)}

        def order(entry: Entry) -> tuple[object, ...]:
            case = entry.case
            if not case:
                return (len(places), entry.id)
            (family, variant), label = places[entry.family, entry.variant], case.build.configuration.label
            own = [each.label for each in case.variant.listed]
            block = own.index(label) if label in own else len(own)
            return (family, case.dtype, case.shape, variant, block, entry.id)

        times = medians(self.runs), kernel_times(self.runs)
        return sorted((self._entry(name, known, *times) for name in names), key=order)

    def _entry(
        self, name: str, known: Mapping[str, Case], times: Mapping[str, float], own_times: Mapping[str, float]
    ) -> Entry:
        timed = next((run.cases[name] for run in reversed(self.runs) if name in run.cases), None)
        case, decision = known.get(name), self.verdicts.decisions.get(name)
        facts = timed.facts if timed else None
        if name in self.today.failed:
            verdict = FAILED
        elif facts is None:
            verdict = MISSING
        elif facts.cache == "host" or (case and case.variant.on_host):
            verdict = HOST
        else:
            verdict = str(decision.verdict) if decision else NOT_COMPARED
        try:
            family, variant, block, shape, dtype = split_id(name)
        except BadCase:
            family, variant, block, shape, dtype = "other", name, "", "", ""
        work = case.work if case else facts
        joules = [j for run in self.runs if name in run.cases and (j := run.cases[name].facts.joules)]
        return Entry(
            id=name,
            family=family,
            variant=variant,
            block=block,
            shape=shape,
            dtype=dtype,
            verdict=verdict,
            seconds=times.get(name, 0.0),
            own_seconds=own_times.get(name, 0.0),
            timed=timed,
            case=case,
            decision=decision,
            operations=work.operations if work else 0,
            bytes=work.bytes if work else 0,
            share=share(known, case, own_times) if case else None,
            joules=median(joules) if joules else None,
        )

    @property
    def described(self) -> str:
        """A line on what was measured, where and how."""
        gpu, count = self.today.gpu, len(self.runs)
        medians_of = f"medians of {count} runs" if count > 1 else f"medians of {self.today.path.name}"
        parts = [f"GPU: {gpu.name or 'none'}, L2 {gpu.cache or '-'}, {medians_of}, commit {self.today.commit}"]
        if gpu.peak_bytes_per_second:
            parts.append(f"its memory moves at most {gpu.peak_bytes_per_second / 1e9:,.0f} GB/s, by clock and width")
        return "; ".join(parts)

    def by_type(self, family: str) -> dict[str, list[Entry]]:
        """Return the timed cases of a family by their element type."""
        cases: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if entry.family == family and entry.seconds:
                cases.setdefault(entry.dtype, []).append(entry)
        return cases

    @cached_property
    def roofs(self) -> Mapping[str, Roof]:
        """The roof of each element type: the memory's peak, and the highest rate that any case of it reached."""
        peak, roofs = self.today.gpu.peak_bytes_per_second, dict[str, Roof]()
        for entry in self.entries if peak else ():
            point = entry.intensity_and_rate
            if point and (entry.dtype not in roofs or point[1] > roofs[entry.dtype].rate):
                roofs[entry.dtype] = Roof(bytes_per_second=peak, rate=point[1], of=entry.id)
        return roofs
