"""Anchors of a baseline: of each case and GPU the oldest run of the work that the baseline has now.

A baseline is replaced by newer runs, so that a kernel may become slower by less than a noise floor each time, and a
fast night may become what later ones are compared with. Anchors show both. They are thinned copies of earlier runs, of
the cases alone that still do the same work, in a folder beside the baseline's runs. So no reader takes them for one of
these, and they do not count for the spread.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from statistics import median

from warpwatch.runs.baseline import ANCHORS, unnumbered
from warpwatch.runs.files import PACKED, compact_json, run_files, write_numbered
from warpwatch.runs.identity import difference
from warpwatch.runs.record import (
    SETTINGS,
    BadRun,
    CaseRecord,
    Facts,
    RunRecord,
    by_gpu,
    by_uuid,
    read_document,
    read_runs,
    read_usable,
)
from warpwatch.runs.thinned import case_of, thinned
from warpwatch.verdict.process_effects import process_effect

MOST_GPUS = 8  # whose anchors are kept
LATEST = datetime.max.replace(tzinfo=UTC)
DAY = timedelta(days=1)  # runs of a GPU that lie within it are of the same day


def read_anchors(folder: Path) -> list[RunRecord]:
    """Read the anchors beside a baseline's runs, a run for each GPU, without those that cannot be read."""
    try:
        return read_usable(run_files(folder / ANCHORS))[0]
    except BadRun:
        return []


def same_work(old: Facts, new: Facts) -> bool:
    """Tell whether a case is known to have done the same work, timed in the same way."""
    return old.way == new.way and not difference(old.identity, new.identity)


def of_other_gpus(anchors: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the anchors of GPUs other than those of the runs, with the cases whose work equals the last run's."""
    uuids = {run.gpu_uuid for run in runs}
    newest = {name: case.facts for run in runs for name, case in run.cases.items()}
    unchanged = [
        replace(anchor, cases={n: c for n, c in anchor.cases.items() if n in newest and same_work(c.facts, newest[n])})
        for anchor in anchors
        if anchor.slug == runs[0].slug and anchor.gpu_uuid not in uuids
    ]
    return [anchor for anchor in unchanged if anchor.cases]


@dataclass(frozen=True)
class Anchors:
    """Choice of anchors. ``cases``: those that each file is the anchor of, by the file's path.

    ``earlier``: the anchors before. ``previous``: the runs of the baseline before.
    """

    folder: Path
    earlier: Sequence[RunRecord]
    previous: Sequence[RunRecord]
    cases: Mapping[Path, set[str]]

    @classmethod
    def choose(cls, folder: Path, runs: Sequence[RunRecord], previous: Sequence[RunRecord]) -> Anchors:
        """Choose the anchors of ``runs`` that replace those that a baseline has now, ``previous``.

        Raises BadRun for an anchor that cannot be read: without it a later one would take its place.
        """
        earlier = [part for run in read_runs(folder / ANCHORS) for part in by_gpu(run)]
        candidates = [part for run in (*earlier, *previous) for part in by_gpu(run)]
        comparable = [run for run in candidates if all(run.setting(name) == runs[0].setting(name) for name in SETTINGS)]
        comparable.sort(key=lambda run: run.when or LATEST)
        present = {name: timed.facts for run in runs for name, timed in run.cases.items()}
        ours = {part.gpu_uuid for run in runs for part in by_gpu(run)}
        known = dict.fromkeys(run.gpu_uuid for run in reversed(comparable))
        uuids = sorted(known, key=lambda uuid: uuid not in ours)[:MOST_GPUS]
        cases: dict[Path, set[str]] = {}
        for uuid in uuids:
            anchored = set[str]()
            for run in (run for run in comparable if run.gpu_uuid == uuid):
                same = {n for n, timed in run.cases.items() if n in present and same_work(timed.facts, present[n])}
                if same - anchored:
                    cases.setdefault(run.path, set()).update(same - anchored)
                    anchored |= same
        return cls(folder, earlier, previous, cases)

    @cached_property
    def runs(self) -> list[RunRecord]:
        """The anchors, a run for each GPU and file, with the medians of the other runs of their days in ``again``."""
        parts = [part for run in self.previous for part in by_gpu(run)]
        runs = []
        for run in (*self.earlier, *parts):
            if run.path in self.cases:
                own = {name: timed for name, timed in run.cases.items() if name in self.cases[run.path]}
                runs.append(
                    replace(run, cases=own if run.path.parent.name == ANCHORS else _with_others(run, own, parts))
                )
        return runs

    def write(self) -> list[Path]:
        """Write the anchors that there are not yet; returns those of the others that are none any more."""
        there: dict[Path, set[str]] = {}
        for run in self.earlier:
            there.setdefault(run.path, set()).update(run.cases)
        new = {path: dict[str, CaseRecord]() for path, cases in self.cases.items() if there.get(path) != cases}
        for run in self.runs:
            new.get(run.path, {}).update(run.cases)
        if new:
            write_numbered(self.folder / ANCHORS, [_copied(path, cases) for path, cases in new.items()])
        return [path for path, cases in there.items() if self.cases.get(path) != cases]


def _with_others(run: RunRecord, cases: Mapping[str, CaseRecord], runs: Sequence[RunRecord]) -> dict[str, CaseRecord]:
    """Return cases with the medians of other runs of the day, as this one would have measured them.

    One process does not tell a rare mode of a case from its usual time.
    """
    again: dict[str, list[tuple[float, ...]]] = {name: [] for name in cases}
    times = {name: median(timed.samples) for name, timed in cases.items()}
    for other in runs:
        apart = abs(other.when - run.when) if other.when and run.when else DAY
        if other.path != run.path and other.gpu_uuid == run.gpu_uuid and apart < DAY:
            alike = {n: t for n, t in other.cases.items() if n in cases and same_work(t.facts, cases[n].facts)}
            seconds = {name: median(timed.samples) for name, timed in alike.items()}
            effect = process_effect(times, seconds)
            for name, time in seconds.items():
                again[name].append((effect.remove(time),))
    return {n: replace(timed, facts=replace(timed.facts, again=tuple(again[n]))) for n, timed in cases.items()}


def _copied(path: Path, cases: Mapping[str, CaseRecord]) -> tuple[str, bytes]:
    """Return the name without a number, and the compressed content, of an anchor. Raises BadRun."""
    document = thinned(read_document(path), cases)
    for entry in document["benchmarks"]:
        entry["extra_info"]["again"] = cases[case_of(entry)].facts.again
    return f"{unnumbered(path)}{PACKED}", lzma.compress(compact_json(document))


def spans(runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield how many runs of a baseline each GPU has, and on which days."""
    for uuid, parts in by_uuid(runs).items():
        days = sorted({part.day for part in parts})
        yield f"{uuid or 'a GPU without a UUID'}: {len(parts)} run{'s' * (len(parts) > 1)}, {', '.join(days)}"
