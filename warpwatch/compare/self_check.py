"""Checks the comparison itself on the GPU at hand: ``pytest bench --self-check``.

The first part is an A/A test: every kernel is compared with itself, what is called slower is a false alarm, and the
spread is the case's own. In the second part slowdowns are injected: a copy of the kernel waits (timing/delayed.py) for
a given share of its time, and what is called slower was found. The result is kept beside the baseline, and --against
learns the cases' noise floors from it.
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
PER_SLOWDOWN = 20  # cases of a size class that get the same slowdown
CLASSES = {"under 10 µs": (0.0, 10e-6), "10 to 100 µs": (10e-6, 100e-6), "above 100 µs": (100e-6, float("inf"))}


@dataclass(frozen=True)
class Found:
    """Holds what was found of a slowdown: the share injected, the share seen, the verdict, and the reason if missed."""

    slowdown: float
    seen: float
    found: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckedCase:
    """Holds what a saved self-check says of a case; ``slowdown`` and ``seen`` are None where none was injected."""

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
    """Holds a saved self-check: its cases by their ids, and the GPU that it was made on."""

    cases: dict[Text, CheckedCase]
    gpu: Gpu = field(default_factory=Gpu)


@dataclass(kw_only=True)
class SelfCheck:
    """Compares every kernel with itself, then with a copy that is made to wait.

    ``root``: the folder that messages name files from. ``target``: what delayed kernels are compiled for.
    ``compiling``: progress of that. ``side_by_side``: the pairs of the A/A test.
    """

    root: Path
    target: Target
    side_by_side: PairComparison
    compiling: Callable[[int, int], None]
    found: dict[str, Found] = field(default_factory=dict)
    unchanged: dict[str, Decision] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)  # empty: nothing here fails a run
    active = True
    alarm = ""

    @property
    def compared(self) -> int:
        return len(self.unchanged)

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Measure a kernel and itself in this process; None for libraries and the host, which have no cubin."""
        if case.variant.on_host or case.variant.library:
            return None
        measured = Measured(kernel, case, "cold" if cold else "warm")
        image = kernel.image.path
        pair = Pair(
            measured=measured,
            other=own_side(case),
            other_image=image,
            image=image,
            checked=kernel.checked.path,
        )
        pair.first(PAIR_SECONDS, budget.warm_up)
        self.side_by_side.pairs[case.id] = pair
        return measured

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Do nothing: the samples were taken by ``measure``."""

    def conclude(self, again: Again) -> None:
        """Run the other processes of the A/A test, then all of the injected slowdowns."""
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
        """Pairs of a case and its copy that waits, each with one of SLOWDOWNS."""
        shares = chosen({name: decision.before for name, decision in self.unchanged.items()})
        cases = {name: pair.measured.case for name, pair in self.side_by_side.pairs.items() if name in shares}
        sides = {name: own_side(case) for name, case in cases.items()}
        sides = {name: replace(side, source=write_delayed(side.source)) for name, side in sides.items()}
        images = compile_other_kernels(sides.values(), self.root, self.target, self.compiling)
        pairs = {}
        for name, side in sides.items():
            image = images[key(side)]
            if isinstance(image, CompileError):
                again.broken[name] = f"delayed copy: {image}"
                continue
            own = self.side_by_side.pairs[name]
            effect = own.effect("")
            pairs[name] = Pair(
                measured=own.measured,
                other=side,
                other_image=image.path,
                image=image.path,
                delay=Delay(shares[name]),
                recorded_variance=(effect.baseline_variance, effect.baseline_df),
            )
        return pairs

    def _calibrate(self, late: PairComparison, again: Again) -> None:
        """Find how many cycles each copy must wait, in a process of its own whose samples do not count."""
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
                again.broken[name] = f"delayed copy: {error}"
                del late.pairs[name]
            again.progress(done, len(late.pairs))

    def describe(self) -> list[str]:
        """Lines of the table by size class."""
        return table(typed(self.document(), Checked))

    def missing(self, ran: set[str]) -> list[str]:
        return []

    def document(self) -> dict[str, Any]:
        """Document to save: each case's variance, noise floor and verdicts."""
        cases = {}
        for name, decision in self.unchanged.items():
            effect = self.side_by_side.pairs[name].effect("")
            cases[name] = {
                "median": decision.before,
                "variance": effect.baseline_variance,
                "freedom": effect.baseline_df,
                "floor": decision.floor,
                "verdict": str(decision.verdict),
            }
            if name in self.found:
                cases[name] |= asdict(self.found[name])
        return {"cases": cases, "note": self.side_by_side.doubt}


def chosen(medians: Mapping[str, float]) -> dict[str, float]:
    """Choose the cases that get a slowdown, and which: of each size class as many for each slowdown.

    They are chosen by a hash of their names, so that another run chooses the same. More would cost minutes and add
    little.
    """
    shares: dict[str, float] = {}
    for low, high in CLASSES.values():
        names = [name for name, seconds in medians.items() if low <= seconds < high]
        names.sort(key=lambda name: zlib.crc32(name.encode()))
        shares |= dict(zip(names[: PER_SLOWDOWN * len(SLOWDOWNS)], cycle(SLOWDOWNS), strict=False))
    return shares


def own_side(case: Case) -> OtherKernel:
    """Describe the case itself as another revision would be described."""
    root = case.family.root
    return other_kernel_of(root, NVCC_FLAGS, declared_case(declarations.declared(case, root)))


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
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        json.dump(document, file, separators=(",", ":"), allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


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
    wanted = {c.id for c in timed_cases(families) if not (c.variant.on_host or c.variant.library)}
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
