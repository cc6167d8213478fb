"""Reads, writes, joins and shows self-checks: false alarms and slowdowns found on one GPU, by size of the kernel."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from msgspec import Meta

from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.selection import timed_cases
from warpwatch.runs.files import write_whole
from warpwatch.runs.record import BadRun, Gpu, Seconds, Text, read_document, typed

SLOWDOWNS = (0.01, 0.02, 0.03, 0.05, 0.10)
CLASSES = {"under 10 µs": (0.0, 10e-6), "10 to 100 µs": (10e-6, 100e-6), "above 100 µs": (100e-6, float("inf"))}


@dataclass(frozen=True, kw_only=True)
class CheckedCase:
    """Case of a saved self-check; ``slowdown`` and ``seen`` are None where none was injected."""

    median: Seconds
    variance: Annotated[float, Meta(ge=0, le=1e6)]  # of the logarithm, between processes
    freedom: Annotated[int, Meta(ge=0, le=10**6)]
    floor: Annotated[float, Meta(ge=0, le=1e6)]
    verdict: Text = ""
    slowdown: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    seen: Annotated[float, Meta(ge=-1, le=1e24)] | None = None
    found: bool = False
    reason: Text = ""

    def __post_init__(self) -> None:
        if (self.slowdown is None) != (self.seen is None):
            raise ValueError("a case has both a slowdown and what was seen of it, or neither")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Saved self-check: its cases by their ids, and the GPU that it was made on."""

    cases: dict[Text, CheckedCase]
    gpu: Gpu = field(default_factory=Gpu)


def table(checked: Checked) -> list[str]:
    """Lines for each size class: false alarms, noise floors, minimum detectable slowdowns, and the missed ones."""
    lines = []
    for name, (low, high) in CLASSES.items():
        of_size = {case_id: case for case_id, case in checked.cases.items() if low <= case.median < high}
        if not of_size:
            continue
        cases = list(of_size.values())
        verdicts = Counter(case.verdict for case in cases)
        floors = sorted(100 * case.floor for case in cases)
        found, rates = _power(cases)
        lines += [
            f"{name}: {len(cases)} cases; unchanged: {verdicts['slower']} slower, {verdicts['faster']} faster, "
            f"{verdicts['unsure']} unsure; floor {floors[len(floors) // 2]:.1f} % (median)",
            f"  slowdowns found: {found}; 80 % of the time from {_least(rates, 0.80)}, 95 % from {_least(rates, 0.95)}",
            *(_missed(case_id, case) for case_id, case in of_size.items()),
        ]
    return list(filter(None, lines))


def _power(cases: Sequence[CheckedCase]) -> tuple[str, dict[float, float]]:
    """Count the slowdowns found, in words and as rates by the slowdown seen, which can exceed the injected one."""
    words, rates = [], {}
    for share in SLOWDOWNS:
        waited = [(case.seen, case.found) for case in cases if case.slowdown == share and case.seen is not None]
        if waited:
            found, seen = sum(found for _, found in waited), median(seen for seen, _ in waited)
            rates[seen] = found / len(waited)
            words.append(f"{100 * share:g} % (seen {100 * seen:.1f}): {found} of {len(waited)}")
    return ", ".join(words), rates


def _missed(case_id: str, case: CheckedCase) -> str:
    """Line for a slowdown that was missed with a reason, else nothing."""
    if case.found or not case.reason or case.slowdown is None or case.seen is None:
        return ""
    return f"  missed: {case_id} by {100 * case.slowdown:g} %, seen {100 * case.seen:+.1f} %: {case.reason}"


def _least(rates: Mapping[float, float], wanted: float) -> str:
    """Minimum detectable slowdown, in words: from it on, at least the wanted share of slowdowns is found."""
    least = None
    for share in sorted(rates, reverse=True):
        if rates[share] < wanted:
            break
        least = share
    return f"{100 * least:.1f} %" if least else f"more than {100 * max(rates, default=0):.1f} %"


def path_of(slug: str, folder: Path) -> Path:
    """Path of a GPU's self-check, beside its baseline."""
    return folder / f"{slug}.self-check.json"


def save(document: Mapping[str, Any], path: Path) -> None:
    """Write a self-check whole or not at all, in place of an earlier one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n")


def read(path: Path) -> Checked:
    """Read a saved self-check. Raises BadRun."""
    return _check(path, read_document(path))


def _check(path: Path, document: Any) -> Checked:
    where = "the file"
    try:
        if isinstance(document, dict) and isinstance(document.get("cases"), dict):
            for name, case in document["cases"].items():  # singly, so that the message names the case
                where = repr(name)
                typed(case, CheckedCase)
            where = "the file"
        return typed(document, Checked)
    except ValueError as error:
        raise BadRun(f"{path}: is no self-check that can be read ({where}: {error})") from None


def merge(paths: Sequence[Path], families: Sequence[Family], folder: Path) -> Path:
    """Join parts of one self-check, each of other cases. Raises BadRun where they do not make a whole one."""
    documents = {path: read_document(path) for path in paths}
    parts = {path: _check(path, document) for path, document in documents.items()}
    slugs = {part.gpu.slug for part in parts.values()}
    if len(slugs) > 1:
        raise BadRun(f"they are of different GPUs: {', '.join(sorted(slugs))}")
    if not (slug := slugs.pop()):
        raise BadRun(f"{paths[0]}: does not say which GPU it is of")
    cases: dict[str, Any] = {}
    for path, part in parts.items():
        if twice := cases.keys() & part.cases.keys():
            raise BadRun(f"{path}: {len(twice)} cases are in another part too, such as {min(twice)}")
        cases |= documents[path]["cases"]
    wanted = {c.id for c in timed_cases(families) if not (c.variant.on_host or c.variant.call)}
    if lacking := wanted - cases.keys():
        raise BadRun(f"{len(lacking)} cases are in no part, such as {min(lacking)}")
    path = path_of(slug, folder)
    save(documents[paths[0]] | {"cases": dict(sorted(cases.items()))}, path)
    return path


def read_variances(slug: str, folder: Path) -> dict[str, tuple[float, int]]:
    """Read each case's variance between processes and its degrees of freedom; empty where no self-check is kept."""
    path = path_of(slug, folder)
    cases = read(path).cases if path.exists() else {}
    return {name: (case.variance, case.freedom) for name, case in cases.items()}
