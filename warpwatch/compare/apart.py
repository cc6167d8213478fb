"""Measures a call and its counterpart of another revision in two processes that take turns on the GPU.

Two versions of Python code cannot be in one process, so each side has a process of its own. That is less precise than
two kernels side by side in one process: each process places its arrays elsewhere, and a turn begins with a change of
context. The first sample after each change is left out.

The other side's process answers in JSON of a few types, not by pickle as a worker process does: what is unpickled may
run code, and that code would run where the verdict is made.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from warpwatch.devices.foreign import conversation
from warpwatch.devices.foreign.conversation import Conversation
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
    """Tells that both sides of a call do the same work, so that there is nothing to measure."""


class OtherProcess:
    """Process that takes samples of another revision's calls.

    ``tree``, ``module``: that revision's files, and its package of kernels. ``settings``: the device to open.
    ``launched``: by its calls, by case, where that is recorded.
    """

    def __init__(self, tree: Path, module: str, settings: Settings) -> None:
        arguments = [json.dumps(asdict(settings)), str(tree), module]
        self._conversation = Conversation(Path(call_process.__file__), arguments, tree, Answer, OtherSideFailed)
        self._settings = settings
        self.launched: dict[str, Launched] = {}
        self._process = 0  # number of the processes so far that both sides have had; a pair is measured in several

    def measure(self, measured: Measured, process: int, plan: Plan, *, same_source: bool = False) -> PairSamples:
        """Prepare and check both sides, and sample them in turns: old new new old, new old old new.

        What the samples scatter ends no turns early. ``same_source``: everything that is declared of both sides is the
        same. Raises WrongResult or DeviceError for the new side, OtherSideFailed for the old one, SameWork.
        """
        if process != self._process:  # this side's process is older than the other's
            self.stop()
            self._process = process
        case, call, cold, checked = measured.case, measured.kernel.worker.call, plan.kind == "cold", not plan.check
        accepted = (measured.accepted or ()) if checked else None
        facts = call(sampling.prepare, case, measured.kernel.image.path, cold, accepted=accepted)
        answer, new = self._ask("prepare", case.id, cold, checked), Launched.of(facts)
        if answer.launches:
            self.launched[case.id] = old = Launched(words=answer.launches, kernels=answer.kernels)
            if same_source and old.is_seen and old == new:
                raise SameWork
        call(sampling.settle)
        call(sampling.warm_up, plan.kind, plan.warm_up)
        before = call(sampling.read_clock)
        rule = Stopping(fewest=FEWEST_TURNS, most=MOST_TURNS, step=2, seconds=plan.seconds)
        pairs = take_turns(self._sampler(measured, plan.kind), rule)
        pairs = replace(pairs, clocks=(before, call(sampling.read_clock)), facts=facts if plan.check else {})
        if plan.check:
            measured.accepted = call(sampling.finish, plan.kind, statistics.median(pairs.new))
            self._ask("finish")
        return self._observe(measured, plan, pairs)

    def _observe(self, measured: Measured, plan: Plan, pairs: PairSamples) -> PairSamples:
        """Observe both sides as far as it is asked for, in turns too, and return the samples with what there was."""
        call, beside, facts = measured.kernel.worker.call, {**pairs.beside}, {**pairs.facts}
        for option in plan.observers:
            turn = option, call(current_core)

            def take(is_new: bool, turn: tuple[str, int] = turn) -> float | None:
                if is_new:
                    return call(sampling.observe_turn, *turn)
                value = self._ask("observe", *turn).value
                return value and value[0]

            beside |= in_turns(take)
        if plan.check and plan.observers:
            facts |= call(sampling.observe, plan.observers)
        return replace(pairs, beside=beside, facts=facts)

    def _sampler(self, measured: Measured, kind: str) -> Callable[[int, bool], tuple[float, int]]:
        """Return a function that takes a sample of a side; the first one after a change of sides is left out."""
        last: bool | None = None

        def take(is_new: bool) -> tuple[float, int]:
            return measured.kernel.worker.call(sampling.sample, kind) if is_new else self.sample(kind)

        def sample(_copy: int, is_new: bool) -> tuple[float, int]:
            nonlocal last
            if is_new != last:
                take(is_new)
            last = is_new
            return take(is_new)

        return sample

    def sample(self, kind: str) -> tuple[float, int]:
        """Take one sample of the prepared case, as ``sampling.sample``. Raises OtherSideFailed."""
        value = self._ask("sample", kind).value
        if value is None:
            self.stop()
            raise OtherSideFailed("its process took no sample")
        return value

    def stop(self) -> None:
        """End the process, if there is one."""
        self._conversation.stop()

    def _ask(self, name: str, *arguments: str | int) -> Answer:
        return self._conversation.ask(self._settings.launch_timeout + CALL_SECONDS, name, *arguments)
