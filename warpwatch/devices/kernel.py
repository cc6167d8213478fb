"""A compiled build and the worker process that runs it, as tests and benchmarks are given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Build, Case, make_case
from warpwatch.catalogue.names import print_short
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.evaluate import Evaluation, evaluate, judge, plan
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.runner import Outcome, run_several
from warpwatch.devices.same_bits import Repeated, between_processes, repeated
from warpwatch.devices.worker import Worker, machine


def run_case(case: Case, image: Path, inputs: Mapping[str, Array], placement: Placement) -> Outcome:
    return next(run_several(machine(case.variant.on_host), case, image, [inputs], 1, placement))


def evaluate_case(case: Case, image: Path, again: str, placement: Placement = PLAIN, **options: Any) -> Evaluation:
    """Evaluate a case, in the child, as ``Kernel.evaluate`` says."""
    return evaluate(machine(case.variant.on_host), plan(case, **options), image, again, placement)


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


@dataclass(frozen=True, kw_only=True)
class NotedLaunch:
    """A launch of a test, to be repeated under the tools. ``inputs``: None for those that ``seed`` draws."""

    case: Case
    image: Path
    placement: Placement
    inputs: Mapping[str, Array] | None = None
    seed: int = 0
    exact: bool = False

    @property
    def key(self) -> tuple[str, Path, Placement]:
        """Identity of a launch: of several with the same one, the tools watch the first."""
        return self.case.id, self.image, self.placement


@dataclass(frozen=True)
class Kernel:
    """A compiled build and the worker that runs it, as the fixture ``kernel`` gives them to a test.

    ``checking_image``: another build of the same kernel, which finds more faults and is slower. A benchmark checks it
    before it times ``image``. None where the device has no such build. ``launched``: takes each launch, for
    compute-sanitizer.
    """

    worker: Worker
    build: Build
    image: Image
    checking_image: Image | None = None
    launched: list[NotedLaunch] | None = field(default=None, compare=False)

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
        self._note(NotedLaunch(case=case, image=self.image.path, placement=placement, inputs=inputs))
        return self.worker.call(run_case, case, self.image.path, inputs, placement)

    def _note(self, launch: NotedLaunch) -> None:
        if self.launched is not None:
            self.launched.append(launch)

    def evaluate(self, case: Case, again: str, placement: Placement = PLAIN, **options: Any) -> Evaluation:
        """Evaluate a case of this build as devices/evaluate.py does; ``options``: of ``plan`` there."""
        image = self.image.path
        drawn = {name: options[name] for name in ("seed", "exact") if name in options}
        self._note(NotedLaunch(case=case, image=image, placement=placement, **drawn))
        if not self.worker.settings.untrusted:
            return self.worker.call(evaluate_case, case, image, again, placement, **options)
        trial = plan(case, **options)  # right results stay in this process, and the other one launches
        outcomes, error = self.worker.call(launch_all, case, image, trial.inputs, trial.launches, placement)
        if error and error.lost:
            self.worker.renew()
        tested = judge(trial, iter(outcomes), again, placement)
        if error and not tested.faults:
            raise error
        return tested

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
