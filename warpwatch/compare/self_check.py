"""`pytest bench --self-check`: what this gate can see, on the GPU at hand.

First every kernel against itself: what is called slower then is a false alarm, and the spread is the case's own. Then
every kernel against itself made to wait (timing/delayed.py) by a known share of its time: what is called slower then
was found. Kept beside the baseline, where --against learns the cases' floors from it.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from msgspec import Meta

from warpwatch.catalogue.declaration import Case, Family
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare import declarations
from warpwatch.compare.declared import declared_case
from warpwatch.compare.pairs import PAIR_SECONDS, Pair, PairComparison, recorded
from warpwatch.compare.revision import compile_other_kernels, other_kernel_of
from warpwatch.devices.check import WrongResult
from warpwatch.devices.compiler import NVCC_FLAGS, CompileError, Target
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.devices.worker import Kernel
from warpwatch.runs.saved import BadRun, Gpu, Seconds, Text, read_document, typed
from warpwatch.timing.delayed import write_delayed
from warpwatch.timing.parent_samples import Again, Budget, Measured
from warpwatch.timing.worker_pairs import Delay
from warpwatch.verdict.rule import Decision, Verdict

SLOWDOWNS = (0.01, 0.02, 0.03, 0.05, 0.10)
PER_SLOWDOWN = 20  # cases of a size class that are made to wait by the same share
CLASSES = {"under 10 µs": (0.0, 10e-6), "10 to 100 µs": (10e-6, 100e-6), "above 100 µs": (100e-6, float("inf"))}


@dataclass(frozen=True)
class Found:
    """A case made to wait by a share of its time, what was seen of that, whether it was called slower, and why not."""

    slowdown: float
    seen: float
    found: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckedCase:
    """Says what a saved self-check knows of a case; ``slowdown`` and ``seen`` are None where it did not wait."""

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
    """Holds a saved self-check: its cases by their ids, and the GPU that was checked."""

    cases: dict[Text, CheckedCase]
    gpu: Gpu = field(default_factory=Gpu)


@dataclass
class SelfCheck:
    """Compares every kernel with itself, then with itself made to wait.

    ``root``: the folder that messages name files from; ``target``: what delayed kernels are compiled for;
    ``compiling``: progress of that; ``match``: of A against A.
    """

    root: Path
    target: Target
    side_by_side: PairComparison
    compiling: Callable[[int, int], None]
    found: dict[str, Found] = field(default_factory=dict)
    unchanged: dict[str, Decision] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)  # none: nothing here fails a run
    active = True
    alarm = ""

    @property
    def compared(self) -> int:
        return len(self.unchanged)

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """A against A in this process, both proved right. Libraries and the host's own have no machine code of ours."""
        if case.variant.on_host or case.variant.library:
            return None
        measured = Measured(kernel, case, "cold" if cold else "warm")
        image = kernel.image.path
        pair = Pair(measured, own_side(case), image, image, checked=kernel.checked.path)
        pair.first(PAIR_SECONDS, budget.warm_up)
        self.side_by_side.pairs[case.id] = pair
        return measured

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Its samples are known already."""

    def conclude(self, again: Again) -> None:
        """The other processes of A against A, then all of A against A that waits."""
        self.unchanged = self.side_by_side.decide(again)
        for pair in self.side_by_side.pairs.values():
            pair.measured.facts["pairs"] = recorded(pair)
        late = PairComparison(self.side_by_side.doubt, self._delayed(again))
        shares = {name: pair.delay.share for name, pair in late.pairs.items() if pair.delay}
        self._calibrate(late, again)
        self.found = {
            name: Found(shares[name], decision.ratio - 1, decision.verdict == Verdict.SLOWER, decision.reason)
            for name, decision in late.decide(again).items()
        }

    def _delayed(self, again: Again) -> dict[str, Pair]:
        """Cases against themselves made to wait, each by one of SLOWDOWNS."""
        shares = chosen({name: decision.before for name, decision in self.unchanged.items()})
        sides = {
            name: own_side(self.side_by_side.pairs[name].measured.case)
            for name in self.side_by_side.pairs
            if name in shares
        }
        sides = {name: replace(side, source=write_delayed(side.source)) for name, side in sides.items()}
        images = compile_other_kernels(sides.values(), self.root, self.target, self.compiling)
        pairs = {}
        for name, side in sides.items():
            image = images[key(side)]
            if isinstance(image, CompileError):
                again.broken[name] = f"made to wait: {image}"
                continue
            own = self.side_by_side.pairs[name]
            known = own.effect("").settled
            pairs[name] = Pair(own.measured, side, image.path, image.path, Delay(shares[name]), known)
        return pairs

    def _calibrate(self, late: PairComparison, again: Again) -> None:
        """How long each waits is found in a process of its own, whose samples do not count."""
        for pair in list(late.pairs.values())[:1]:
            pair.measured.kernel.worker.stop()
        for done, (name, pair) in enumerate(list(late.pairs.items()), 1):
            try:
                assert pair.delay
                cycles = pair.take(0).cycles
                pair.taken.clear()
                pair.delay = replace(pair.delay, cycles=cycles)
                pair.take(0)
            except (DeviceError, WrongResult) as error:
                again.broken[name] = f"made to wait: {error}"
                del late.pairs[name]
            again.progress(done, len(late.pairs))

    def describe(self) -> list[str]:
        """The table by size class."""
        return table(typed(self.document(), Checked))

    def missing(self, ran: set[str]) -> list[str]:
        return []

    def document(self) -> dict[str, Any]:
        """What is saved: each case's spread, floor and verdicts."""
        cases = {}
        for name, decision in self.unchanged.items():
            spread, freedom = self.side_by_side.pairs[name].effect("").settled
            cases[name] = {
                "median": decision.before,
                "variance": spread,
                "freedom": freedom,
                "floor": decision.floor,
                "verdict": str(decision.verdict),
            }
            if name in self.found:
                cases[name] |= asdict(self.found[name])
        return {"cases": cases, "note": self.side_by_side.doubt}


def chosen(medians: Mapping[str, float]) -> dict[str, float]:
    """Which cases are made to wait, and by what share of their time: of each size class as many for each share.

    By a hash of their names, so that another run chooses the same. More would cost minutes and say little.
    """
    shares: dict[str, float] = {}
    for low, high in CLASSES.values():
        names = [name for name, seconds in medians.items() if low <= seconds < high]
        names.sort(key=lambda name: zlib.crc32(name.encode()))
        shares |= dict(zip(names[: PER_SLOWDOWN * len(SLOWDOWNS)], cycle(SLOWDOWNS), strict=False))
    return shares


def own_side(case: Case) -> OtherKernel:
    """The case itself, as if it were another revision's."""
    root = case.family.root
    return other_kernel_of(root, NVCC_FLAGS, declared_case(declarations.declared(case, root)))


def table(checked: Checked) -> list[str]:
    """For each size class false alarms, floors, the slowdowns found 80 and 95 % of the time, and the missed."""
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
    """How many waits were found, in words and as rates, by what was seen of them: it can be more than was asked for."""
    words, rates = [], {}
    for share in SLOWDOWNS:
        waited = [(case.seen, case.found) for case in cases if case.slowdown == share and case.seen is not None]
        if waited:
            found, seen = sum(found for _, found in waited), median(seen for seen, _ in waited)
            rates[seen] = found / len(waited)
            words.append(f"{100 * share:g} % (seen {100 * seen:.1f}): {found} of {len(waited)}")
    return ", ".join(words), rates


def _missed(case_id: str, case: CheckedCase) -> str:
    """A line for a wait that was not found for a reason that is known, else nothing."""
    if case.found or not case.reason or case.slowdown is None or case.seen is None:
        return ""
    return f"  missed: {case_id} by {100 * case.slowdown:g} %, seen {100 * case.seen:+.1f} %: {case.reason}"


def _least(rates: Mapping[float, float], wanted: float) -> str:
    """The smallest share from which on so many are found, in words."""
    least = None
    for share in sorted(rates, reverse=True):
        if rates[share] < wanted:
            break
        least = share
    return f"{100 * least:.1f} %" if least else f"more than {100 * max(rates, default=0):.1f} %"


def path_of(slug: str, folder: Path) -> Path:
    """Where the self-check of a GPU is kept: beside its baseline."""
    return folder / f"{slug}.self-check.json"


def save(document: Mapping[str, Any], path: Path) -> None:
    """Write it whole or not at all, in place of an earlier one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        json.dump(document, file, separators=(",", ":"), allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


def read(path: Path) -> Checked:
    """A self-check that was saved. Raises BadRun."""
    return _check(path, read_document(path))


def _check(path: Path, document: Any) -> Checked:
    where = "the file"
    try:
        if isinstance(document, dict) and isinstance(document.get("cases"), dict):
            for name, case in document["cases"].items():  # one by one, so that the message names the case
                where = repr(name)
                typed(case, CheckedCase)
            where = "the file"
        return typed(document, Checked)
    except ValueError as error:
        raise BadRun(f"{path}: is no self-check that can be read ({where}: {error})") from None


def merge(paths: Sequence[Path], families: Sequence[Family], folder: Path) -> Path:
    """Parts of one self-check, each of other cases, as one. Raises BadRun where that is no whole."""
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
    wanted = {c.id for c in timed_cases(families) if not (c.variant.on_host or c.variant.library)}
    if lacking := wanted - cases.keys():
        raise BadRun(f"{len(lacking)} cases are in no part, such as {min(lacking)}")
    path = path_of(slug, folder)
    save(documents[paths[0]] | {"cases": dict(sorted(cases.items()))}, path)
    return path


def known_spreads(slug: str, folder: Path) -> dict[str, tuple[float, int]]:
    """Variance of each case between processes and its degrees of freedom, where a self-check is kept for the GPU."""
    path = path_of(slug, folder)
    cases = read(path).cases if path.exists() else {}
    return {name: (case.variance, case.freedom) for name, case in cases.items()}
