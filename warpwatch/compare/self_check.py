"""Check of the comparison itself on the GPU at hand: ``pytest bench --self-check``.

The first part is an A/A test: every kernel is compared with itself, what is called slower is a false alarm, and the
spread is the case's own. In the second part slowdowns are injected: a copy of the kernel waits (timing/delayed.py) for
a given share of its time, and what is called slower was found. The result is kept beside the baseline, and --against
learns the cases' noise floors from it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.compare.comparison import Comparison
from warpwatch.compare.pairs import PAIR_SECONDS, Pair, PairComparison, recorded
from warpwatch.compare.saved_self_check import CLASSES, SLOWDOWNS, Checked, table
from warpwatch.devices.check import WrongResult
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.devices.worker import Kernel
from warpwatch.revision import declarations
from warpwatch.revision.commit import compile_other_kernels, other_kernel_of
from warpwatch.revision.declared import DeclaredCase
from warpwatch.runs.record import typed
from warpwatch.timing.delayed import write_delayed
from warpwatch.timing.measurement import Again, Budget, Measured
from warpwatch.timing.side_by_side import Delay
from warpwatch.verdict.rule import Decision, Verdict

OPTION = "--self-check"
PER_SLOWDOWN = 20  # cases of a size class that get the same slowdown


@dataclass(frozen=True)
class Found:
    """Detection of an injected slowdown. ``seen``: the share that was measured; ``reason``: why it was missed."""

    slowdown: float
    seen: float
    found: bool
    reason: str = ""


@dataclass(kw_only=True)
class SelfCheck(Comparison):
    """Comparison of every kernel with itself, then with a copy that is made to wait; it decides about no case.

    ``root``: the folder that messages name files from. ``target``: what delayed kernels are compiled for.
    ``compiling``: progress of that. ``side_by_side``: the pairs of the A/A test.
    """

    root: Path
    target: Target
    side_by_side: PairComparison
    compiling: Callable[[int, int], None]
    found: dict[str, Found] = field(default_factory=dict)
    unchanged: dict[str, Decision] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        return len(self.unchanged)

    @property
    def against(self) -> str:
        return OPTION

    def measures(self, case: Case, image: Image) -> bool:
        return not (case.variant.on_host or case.variant.call)

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Measure a kernel and itself in this process; None for libraries and the host, which have no cubin."""
        if not self.measures(case, kernel.image):
            return None
        measured = Measured(kernel=kernel, case=case, kind="cold" if cold else "warm")
        image, checked = kernel.image.path, kernel.checked.path
        pair = Pair(measured=measured, other=own_side(case), other_image=image, image=image, checked=checked)
        pair.first(PAIR_SECONDS, budget.warm_up)
        self.side_by_side.pairs[case.id] = pair
        return measured

    def conclude(self, again: Again) -> None:
        """Run the other processes of the A/A test, then all of the injected slowdowns."""
        self.unchanged = self.side_by_side.decide(again)
        for pair in self.side_by_side.pairs.values():
            pair.measured.facts["pairs"] = recorded(pair)
        late = PairComparison(self.side_by_side.doubt, pairs=self._delayed(again))
        shares = {name: pair.delay.share for name, pair in late.pairs.items() if pair.delay}
        calibrate(late, again)
        self.found = {
            name: Found(shares[name], decision.ratio - 1, decision.verdict == Verdict.SLOWER, decision.reason)
            for name, decision in late.decide(again).items()
        }

    def _delayed(self, again: Again) -> dict[str, Pair]:
        """Pairs of a case and its copy that waits, each with one of SLOWDOWNS."""
        shares = chosen({name: decision.before for name, decision in self.unchanged.items()})
        sides = {}
        for name, pair in self.side_by_side.pairs.items():
            if name in shares:
                try:
                    sides[name] = delayed_side(own_side(pair.measured.case))
                except (OSError, ValueError) as error:  # no space for it, or no kernel that is known as one
                    again.broken[name] = f"its copy that waits cannot be made: {error}"
        images = compile_other_kernels(sides.values(), self.target, self.compiling)
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

    def describe(self) -> list[str]:
        """Return the lines of the table by size class."""
        return table(typed(self.document(), Checked))

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


def calibrate(late: PairComparison, again: Again) -> None:
    """Find how many cycles each copy must wait, in a process of its own whose samples do not count."""
    for pair in list(late.pairs.values())[:1]:
        pair.measured.kernel.worker.renew()
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


def delayed_side(side: OtherKernel) -> OtherKernel:
    """Return a side whose kernels wait for a set time (warpwatch/timing/delayed.py)."""
    return replace(side, kernels=replace(side.kernels, source=write_delayed(side.kernels.source)))


def own_side(case: Case) -> OtherKernel:
    """Describe the case itself as another revision would be described."""
    root = case.family.root
    return other_kernel_of(root, typed(declarations.declared(case, root), DeclaredCase))
