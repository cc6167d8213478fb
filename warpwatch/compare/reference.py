"""Chooses the saved runs that a run is compared with, and says which cannot be used and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwatch.compare.with_baseline import difference, find_runs
from warpwatch.runs.files import run_files
from warpwatch.runs.record import RunRecord

NAMED = 3  # the most files named in one line
RECORD = "python -m warpwatch baseline record"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Holds the runs to compare with.

    ``incomparable_reason`` says why none of ``runs`` can be compared with this run, or is empty. ``notes`` says which
    runs and cases were left out, a line each. ``committed``: the runs are a baseline of the repository. ``absent`` says
    that the repository has no baseline for this GPU, or is empty. ``void``: a committed baseline is of no more use
    here, because driver, toolkit or GPU have changed; a run with another cache mode can be measured anew.
    """

    runs: Sequence[RunRecord] = ()
    incomparable_reason: str = ""
    notes: Sequence[str] = ()
    committed: bool = False
    absent: str = ""
    void: bool = False

    def nothing(self, selected: Collection[str]) -> str:
        """Say why none of these cases can be compared, as far as that is known before anything is measured."""
        if not self.runs:
            return self.absent or "there is no saved run to compare with"
        where = self.runs[0].path.parent
        if self.incomparable_reason:
            return (
                f"the baseline in {where} is void: {self.incomparable_reason}"
                if self.void
                else f"the runs in {where} cannot be compared with this one: {self.incomparable_reason}"
            )
        timed = {name for run in self.runs for name, case in run.cases.items() if case.facts.cache != "host"}
        if not timed:
            return f"no GPU case of the runs in {where} has usable samples"
        if timed.isdisjoint(selected):
            return f"none of the {len(selected)} selected cases has usable samples in the runs in {where}"
        return ""


def find_reference(chosen: str | bool, storage: Path, baselines: Path, gpu: Mapping[str, object]) -> Reference:
    """Choose the runs that --benchmark-compare names, without those that this run cannot be compared with.

    Where none is left, all are kept and ``incomparable_reason`` says why. Raises BadRun where a run was named and
    cannot be read.
    """
    slug, gpu_uuid = str(gpu["slug"]), str(gpu["uuid"])
    committed = chosen is True and bool(run_files(baselines / slug))
    absent = f"there is no baseline for {slug}" if chosen is True and not committed else ""
    runs, problems = find_runs(chosen, storage, baselines, slug, gpu_uuid)
    reasons = {run.path: difference([run], gpu) for run in runs}
    usable = [run for run in runs if not reasons[run.path]]
    if not usable:
        void = committed and all(difference([run], {**gpu, "cache": run.setting("cache")}) for run in runs)
        return Reference(
            runs=runs,
            incomparable_reason=difference(runs, gpu),
            notes=problems,
            committed=committed,
            absent=absent,
            void=void,
        )
    odd = {path: reason for path, reason in reasons.items() if reason}
    return Reference(runs=usable, notes=[*problems, *left_out(odd)], committed=committed, absent=absent)


def left_out(reasons: Mapping[Path, str]) -> list[str]:
    """Say which runs are left out and why, a line for each reason."""
    lines = []
    for reason in dict.fromkeys(reasons.values()):
        paths = [path for path, own in reasons.items() if own == reason]
        names = ", ".join([str(paths[0]), *(path.name for path in paths[1:NAMED])])
        more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
        lines.append(f"left out of the comparison: {names}{more}: {reason}")
    return lines


def how_to_record() -> list[str]:
    """Return the command that records the next baseline where driver or toolkit have changed since the last one."""
    return [f"to record the next baseline, in a clean checkout: {RECORD} --allow mixed"]
