"""A compiled build and the worker process that runs it, as tests and benchmarks are given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Build, Case, make_case
from warpwatch.catalogue.names import print_short
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.evaluate import evaluate, judge, plan
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.runner import Outcome, run_several
from warpwatch.devices.same_bits import Repeated, between_processes, repeated
from warpwatch.devices.worker import Worker, machine


def run_case(case: Case, image: Path, inputs: Mapping[str, Array], placement: Placement) -> Outcome:
    """Launch a case once, in the child."""
    return next(run_several(machine(case.variant.on_host), case, image, [inputs], 1, placement))


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A case that was evaluated: its faults, a remark, and why no further inputs were tried, if any could be."""

    faults: list[str]
    remark: str
    left_out: str


def evaluate_case(case: Case, image: Path, again: str, **options: Any) -> Tested:
    """Evaluate a case, in the child, as ``Kernel.evaluate`` says."""
    evaluated = evaluate(machine(case.variant.on_host), case, image, again, **options)
    return Tested(faults=evaluated.faults, remark=evaluated.remark, left_out=evaluated.trial.left_out)


def repeat_case(case: Case, image: Path, **options: Any) -> Repeated:
    """Launch a case again and again, in the child, as ``same_bits.repeated`` does."""
    return repeated(machine(case.variant.on_host), case, image, **options)


def launch_all(
    case: Case, image: Path, draws: Sequence[Mapping[str, Array]], launches: int, placement: Placement
) -> tuple[list[Outcome], DeviceError | None]:
    """Launch a case, in the child, as ``run_several`` does; return also the error of a launch after the first."""
    outcomes: list[Outcome] = []
    try:
        for outcome in run_several(machine(case.variant.on_host), case, image, draws, launches, placement):
            outcomes.append(outcome)
    except DeviceError as error:
        if not outcomes:
            raise
        return outcomes, error
    return outcomes, None


@dataclass(frozen=True)
class Kernel:
    """A compiled build and the worker that runs it, as the fixture ``kernel`` gives them to a test.

    ``checking_image``: another build of the same kernel, which finds more faults and is slower. A benchmark checks it
    before it times ``image``. None where the device has no such build.
    """

    worker: Worker
    build: Build
    image: Image
    checking_image: Image | None = None

    def __repr__(self) -> str:
        return f"Kernel({self.build.id})"

    _repr_pretty_ = print_short

    @property
    def checked(self) -> Image:
        """Machine code that finds the most faults."""
        return self.checking_image or self.image

    def run(self, shape: Shape, inputs: Mapping[str, Array], placement: Placement = PLAIN) -> Outcome:
        """Launch once on these inputs; ``placement`` says how arrays and blocks are laid out."""
        build = self.build
        case = make_case(build.family, build.variant, build.configuration, shape, build.dtype)
        return self.worker.call(run_case, case, self.image.path, inputs, placement)

    def evaluate(self, case: Case, again: str, **options: Any) -> Tested:
        """Evaluate a case of this build as devices.evaluate.evaluate does, with its options."""
        if self.worker.settings.untrusted:
            return self._evaluate_apart(case, again, **options)
        return self.worker.call(evaluate_case, case, self.image.path, again, **options)

    def _evaluate_apart(
        self,
        case: Case,
        again: str,
        *,
        seed: int = 0,
        launches: int = 1,
        exact: bool = False,
        further: bool = True,
        placement: Placement = PLAIN,
    ) -> Tested:
        """Evaluate as ``evaluate`` does, with the right results in this process and the launches in the other."""
        trial = plan(case, seed, launches=launches, exact=exact, further=further)
        outcomes, error = self.worker.call(launch_all, case, self.image.path, trial.inputs, launches, placement)
        if error and error.lost:
            self.worker.renew()
        problems, remark = judge(trial, iter(outcomes), again, placement)
        if error and not problems:
            raise error
        return Tested(faults=problems, remark=remark, left_out=trial.left_out)

    def repeat(self, case: Case, *, launches: int, seed: int = 0, other: Worker | None = None) -> Repeated:
        """Launch a case again and again, in this process and once in another one, and say where bits differ."""
        image = self.image.path
        own = self.worker.call(repeat_case, case, image, seed=seed, launches=launches)
        if other is None or own.differing:
            return own
        theirs = other.call(repeat_case, case, image, seed=seed, launches=1, known=own.digest)
        if theirs.digest == own.digest:
            return own
        mine = self.worker.call(repeat_case, case, image, seed=seed, launches=1, known=theirs.digest)
        return replace(own, differing=between_processes(mine, theirs))
