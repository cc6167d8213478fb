"""Choice of the saved runs that a run is compared with, and what to do about those that cannot be used."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwatch.runs.files import number_of, run_files
from warpwatch.runs.record import SETTINGS, BadRun, CaseRecord, Gpu, RunRecord, read_usable, typed

NAMED = 3  # the most files named in one line
RECORD = "python -m warpwatch baseline record"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Saved runs to compare with.

    ``incomparable_reason`` says why none of ``runs`` can be compared with this run, or is empty. ``notes`` says which
    runs and cases were left out, a line each. ``absent`` says that the repository has no baseline for this GPU, or is
    empty. ``void``: a committed baseline is of no more use here, because driver, toolkit or GPU have changed; a run
    with another cache mode can be measured anew. ``toolchain``: only the driver or toolkit of ``runs`` is another, so
    that pairs can compare their commit with this one.
    """

    runs: Sequence[RunRecord] = ()
    incomparable_reason: str = ""
    notes: Sequence[str] = ()
    absent: str = ""
    void: bool = False
    toolchain: bool = False

    @classmethod
    def find(cls, chosen: str | bool, storage: Path, baselines: Path, gpu: Mapping[str, object]) -> Reference:
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
        if usable:
            return cls(runs=usable, notes=[*problems, *_left_out(reasons)], absent=absent)
        void = committed and all(difference([run], {**gpu, "cache": run.setting("cache")}) for run in runs)
        as_then = ({**gpu, "driver": run.gpu.driver, "toolkit": run.gpu.toolkit} for run in runs)
        toolchain = not any(difference([run], then) for run, then in zip(runs, as_then, strict=True))
        reason = difference(runs, gpu)
        return cls(runs=runs, incomparable_reason=reason, notes=problems, absent=absent, void=void, toolchain=toolchain)

    @property
    def advice(self) -> list[str]:
        """The command that records the next baseline where driver or toolkit have changed since the last one."""
        return [f"to record the next baseline, in a clean checkout: {RECORD} --allow mixed"] if self.void else []

    @property
    def unusable(self) -> str:
        """Say why saved times cannot be compared with those of this run; empty where they can."""
        where = self.runs[0].path.parent if self.incomparable_reason else ""
        if self.void:
            return f"the baseline in {where} is void: {self.incomparable_reason}"
        reason = f"the runs in {where} cannot be compared with this one: {self.incomparable_reason}"
        return reason * bool(self.incomparable_reason)

    def nothing(self, selected: Collection[str], *, has_pairs: bool = False) -> str:
        """Say why none of these cases can be compared, as far as that is known before anything is measured.

        ``has_pairs``: pairs can be measured, for which times of another toolchain need not be comparable.
        """
        if not self.runs:
            return self.absent or "there is no saved run to compare with"
        where = self.runs[0].path.parent
        if self.incomparable_reason and not (has_pairs and self.toolchain):
            return self.unusable
        timed = set().union(*map(on_gpu, self.runs))
        if not timed:
            return f"no GPU case of the runs in {where} has usable samples"
        if timed.isdisjoint(selected):
            return f"none of the {len(selected)} selected cases has usable samples in the runs in {where}"
        return ""


def _left_out(reasons: Mapping[Path, str]) -> list[str]:
    """Say which runs are left out and why, a line for each reason; those without a reason are not."""
    lines = []
    for reason in dict.fromkeys(filter(None, reasons.values())):
        paths = [path for path, own in reasons.items() if own == reason]
        names = ", ".join([str(paths[0]), *(path.name for path in paths[1:NAMED])])
        more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
        lines.append(f"left out of the comparison: {names}{more}: {reason}")
    return lines


def on_gpu(run: RunRecord) -> dict[str, CaseRecord]:
    """Return the cases of a run that a GPU ran, not the host."""
    return {name: timed for name, timed in run.cases.items() if timed.facts.cache != "host"}


def find_runs(
    chosen: str | bool, storage: Path, baselines: Path, slug: str, gpu_uuid: str
) -> tuple[list[RunRecord], list[str]]:
    """Read the baseline that --benchmark-compare names, and say what of it cannot be used. Raises BadRun.

    Without a value it is the committed one of this GPU, or where there is none, all runs that were saved here with no
    case wrong or slower. A value is a file, a folder of runs, or the start of the names of saved runs, such as 0003.
    """
    if chosen is True:
        runs, problems = read_usable(run_files(baselines / slug))
        if not runs:
            runs, problems = read_usable(run_files(storage / slug))
            runs = [run for run in runs if run.gpu_uuid == gpu_uuid and not (run.failed or run.slower or run.against)]
        return runs, problems
    path = Path(str(chosen))
    if os.path.isfile(path):  # Path.is_file can raise OSError
        return read_usable([path])
    folder = path if os.path.isdir(path) else storage / slug
    files = run_files(folder, "*" if folder == path else f"{chosen}*")
    if re.fullmatch("[0-9]{4,}", str(chosen)) and folder != path:  # 1000 is a number, and not the start of 10000
        files = [file for file in files if number_of(file.name) == int(str(chosen))]
    if not files:
        raise BadRun(f"--benchmark-compare={chosen}: no such run in {folder}")
    return read_usable(files)


def difference(runs: Sequence[RunRecord], gpu: Mapping[str, object]) -> str:
    """Return the settings that make this run and the baseline incomparable, or an empty text."""
    here = RunRecord(path=Path(), gpu=typed(gpu, Gpu))
    reasons = [
        f"another {word} ({run.setting(name) or 'none'} then, {here.setting(name) or 'none'} now)"
        for name, word in SETTINGS.items()
        for run in runs
        if run.setting(name) != here.setting(name)
    ]
    return "; ".join(dict.fromkeys(reasons))
