"""Measures a call and its counterpart of another revision in two processes that take turns on the GPU.

Two versions of Python code cannot be in one process, so each side has a process of its own. That is less precise than
two kernels side by side in one process: each process places its arrays elsewhere, and a turn begins with a change of
context. The first sample after each change is left out.

The other side's process answers in JSON of a few types, not by pickle as a worker process does: what is unpickled may
run code, and that code would run where the verdict is made.
"""

from __future__ import annotations

import functools
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from warpwatch.devices.foreign import conversation
from warpwatch.devices.foreign.conversation import Conversation
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import CALL_SECONDS
from warpwatch.revision import call_process
from warpwatch.runs.faults import Text
from warpwatch.runs.launched import Launched, LaunchedKernel
from warpwatch.timing import sampling
from warpwatch.timing.measurement import Measured
from warpwatch.timing.observers.host import current_core, in_turns
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import OtherSideFailed, Plan, take_turns
from warpwatch.timing.stopping import FEWEST_TURNS, MOST_TURNS, Stopping


@dataclass(frozen=True, kw_only=True)
class Answer(conversation.Answer):
    """Answer of call_process.py. ``value``: of a sample, its seconds, and how many were thrown away before it.

    Of what is observed, the value and 0, if there is one. ``launches``, ``kernels``: of a call that is prepared, as in
    ``Facts``.
    """

    value: tuple[Annotated[float, Meta(gt=0, le=1e6)], Annotated[int, Meta(ge=0, le=10**6)]] | None = None
    launches: tuple[Text, ...] = ()
    kernels: tuple[LaunchedKernel, ...] = ()


class SameWork(Exception):
    """Raised where both sides of a call do the same work: there is nothing to measure."""


def _take_turn(sides: Sequence[Callable[[], float | None]], is_new: bool) -> float | None:
    return sides[is_new]()


class _Own:
    """This revision's side of a pair, in the worker process."""

    def __init__(self, measured: Measured) -> None:
        self._measured, self._call = measured, measured.kernel.worker.call

    def prepare(self, case: str, cold: bool, checked: bool) -> tuple[dict[str, Any], Launched]:
        """Return what is recorded of a case, and what it launches. ``checked``: its results were compared before."""
        own, accepted = self._measured, (self._measured.accepted or ()) if checked else None
        facts = self._call(sampling.prepare, own.case, own.kernel.image.path, cold, accepted=accepted)
        return facts, Launched.of(facts)

    def warm_up(self, kind: str, seconds: float) -> None:
        self._call(sampling.warm_up, kind, seconds)

    def sample(self, kind: str) -> tuple[float, int]:
        return self._call(sampling.sample, kind)

    def observe_turn(self, option: str, core: int) -> float | None:
        return self._call(sampling.observe_turn, option, core)

    def observe(self, options: Sequence[str]) -> dict[str, Any]:
        """Return what observers record of this side alone."""
        return self._call(sampling.observe, options)

    def finish(self, kind: str, seconds: float | None = None) -> None:
        """Check the case after its samples. ``seconds``: their median, where it is judged."""
        self._measured.accepted = self._call(sampling.finish, kind, seconds)


class OtherProcess:
    """Process that takes samples of another revision's calls.

    ``tree``, ``module``: that revision's files, and its package of kernels. ``settings``: the device to open.
    ``fails``: what is raised where it fails. ``launched``: by its calls, by case, where that is recorded.
    """

    def __init__(
        self, tree: Path, module: str, settings: Settings, fails: Callable[[str], DeviceError] = OtherSideFailed
    ) -> None:
        arguments = [json.dumps(asdict(settings)), str(tree), module]
        self._conversation = Conversation(Path(call_process.__file__), arguments, tree, Answer, fails)
        self._settings, self._fails = settings, fails
        self.launched: dict[str, Launched] = {}
        self._process = 0  # number of the processes so far that both sides have had; a pair is measured in several

    def measure(
        self,
        measured: Measured,
        process: int,
        plan: Plan,
        *,
        same_source: bool = False,
        newer: OtherProcess | None = None,
    ) -> PairSamples:
        """Prepare and check both sides, and sample them in turns: old new new old, new old old new.

        What the samples scatter ends no turns early. ``same_source``: everything that is declared of both sides is the
        same. ``newer``: the new side, where it is another revision's too. Raises WrongResult or DeviceError for the new
        side, OtherSideFailed for the old one, SameWork.
        """
        case, call, cold, checked = measured.case.id, measured.kernel.worker.call, plan.kind == "cold", not plan.check
        own = newer or _Own(measured)
        self.renew(process)
        facts, new = own.prepare(case, cold, checked)
        _, old = self.prepare(case, cold, checked)
        if same_source and old.is_seen and old == new:
            raise SameWork
        call(sampling.settle)
        own.warm_up(plan.kind, plan.warm_up)
        before = call(sampling.read_clock)
        rule = Stopping(fewest=FEWEST_TURNS, most=MOST_TURNS, step=2, seconds=plan.seconds)
        pairs = take_turns(self._sampler(own, plan.kind), rule)
        pairs = replace(pairs, clocks=(before, call(sampling.read_clock)), facts=facts if plan.check else {})
        if plan.check:
            own.finish(plan.kind, statistics.median(pairs.new))
            self.finish(plan.kind)
        core, beside = call(current_core), {**pairs.beside}
        for option in plan.observers:
            sides = [functools.partial(side.observe_turn, option, core) for side in (self, own)]
            beside |= in_turns(functools.partial(_take_turn, sides))
        more = own.observe(plan.observers) if plan.check and plan.observers else {}
        return replace(pairs, beside=beside, facts={**pairs.facts, **more})

    def _sampler(self, own: _Own | OtherProcess, kind: str) -> Callable[[int, bool], tuple[float, int]]:
        """Return a function that takes a sample of a side; the first one after a change of sides is left out."""
        last: bool | None = None

        def sample(_copy: int, is_new: bool) -> tuple[float, int]:
            nonlocal last
            side = own if is_new else self
            if is_new != last:
                side.sample(kind)
            last = is_new
            return side.sample(kind)

        return sample

    # What either side does, as ``_Own``

    def renew(self, process: int) -> None:
        """End the process where another than the ``process``-th is wanted: the other side's is new too."""
        if process != self._process:
            self.stop()
            self._process = process

    def prepare(self, case: str, cold: bool, checked: bool) -> tuple[dict[str, Any], Launched]:
        answer = self._ask("prepare", case, cold, checked)
        launched = Launched(words=answer.launches, kernels=answer.kernels)
        if answer.launches:  # the first process of a pair alone looks
            self.launched[case] = launched
        return {}, launched

    def warm_up(self, kind: str, seconds: float) -> None:
        self._ask("warm_up", kind, seconds)

    def sample(self, kind: str) -> tuple[float, int]:
        """Take one sample of the prepared case, as ``sampling.sample``. Raises OtherSideFailed."""
        value = self._ask("sample", kind).value
        if value is None:
            self.stop()
            raise self._fails("its process took no sample")
        return value

    def observe_turn(self, option: str, core: int) -> float | None:
        value = self._ask("observe", option, core).value
        return value and value[0]

    def observe(self, options: Sequence[str]) -> dict[str, Any]:
        return {}

    def finish(self, kind: str, seconds: float | None = None) -> None:
        self._ask("finish")

    def stop(self) -> None:
        """End the process, if there is one."""
        self._conversation.stop()

    def _ask(self, name: str, *arguments: str | float) -> Answer:
        return self._conversation.ask(self._settings.launch_timeout + CALL_SECONDS, name, *arguments)
