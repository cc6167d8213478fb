"""Both sides of a case in one process: the same operands and results, in turns, so that drift falls on both.

The half of ``--against`` that runs where the kernels run; bench/against.py is the other.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from bench import sampling
from bench.clocks import Clock
from bench.revision import Rival
from kernels import FAMILIES
from kernels.catalogue import find_case
from kernels.check import WrongResult
from kernels.machine import DeviceError, Function, GuardedArray, Machine
from kernels.runner import Loaded, load
from kernels.worker import machine

MOST_TURNS, FEWEST_TURNS = 25, 3  # of four samples each


class RivalFailed(Exception):
    """The other revision's side cannot be run, or is wrong; the message says what it said."""

    def __init__(self, message: str, lost: bool = False) -> None:
        super().__init__(message, lost)
        self.lost = lost

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Plan:
    """How one process measures a pair. ``seconds``: of wall time for its samples; ``swap``: load the old side first;
    ``prove``: compare both sides with NumPy before."""

    kind: str  # cold or warm
    swap: bool
    prove: bool
    seconds: float
    warm_up: float


@dataclass(frozen=True)
class Pairs:
    """What one process measured: seconds of each side, two of each side a turn, and what was recorded besides."""

    old: tuple[float, ...]
    new: tuple[float, ...]
    clocks: tuple[Clock, Clock]
    thrown_away: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def log(self) -> float:
        """Logarithm of new over old: the median over the turns, each of which is balanced against drift."""
        turns = zip(self.old[::2], self.old[1::2], self.new[::2], self.new[1::2], strict=True)
        return statistics.median(math.log(c * d / (a * b)) / 2 for a, b, c, d in turns)


def measure_pair(case_id: str, image: Path, rival: Rival, rival_image: Path, plan: Plan) -> Pairs:
    """Load both sides, prove them if asked to, and sample them in turns: old new new old, new old old new.

    Raises WrongResult or DeviceError for the new side, RivalFailed for the old one.
    """
    case, cold = find_case(FAMILIES, case_id), plan.kind == "cold"
    sampling.release(keep=sampling.sharing_key(case))
    shared, where = sampling.share_operands(case, plan.prove), machine(on_host=False)
    function = _load_rival(where, rival, rival_image) if plan.swap else None
    new = [load(where, case, image, place) for place in shared.places]
    sampling.state.loaded = tuple(new)
    old = [_rival_of(loaded, rival, function or _load_rival(where, rival, rival_image)) for loaded in new]
    if plan.prove:
        sampling.prove(new[0], shared)
        _prove_rival(old[0], shared)
    facts = sampling.describe(new[0], len(shared.places), cold) if plan.prove else {}
    sampling.warm_up(plan.kind, plan.warm_up)
    before = sampling.read_clock()
    pairs = _take(list(zip(old, new, strict=True)), plan)
    return replace(pairs, clocks=(before, sampling.read_clock()), facts=facts)


def _load_rival(where: Machine, rival: Rival, image: Path) -> Function:
    try:
        return where.load(image, rival.entry)
    except DeviceError as error:
        raise RivalFailed(str(error), error.lost) from None


def _rival_of(loaded: Loaded, rival: Rival, function: Function) -> Loaded:
    """The old side on the new one's operands and result."""
    arrays = [array for array in (*loaded.operands, loaded.result) if isinstance(array, GuardedArray)]
    try:
        arguments = rival.fill([array.address for array in arrays])
        start = loaded.machine.launcher(function, rival.launch, arguments)
    except (DeviceError, IndexError, TypeError) as error:
        raise RivalFailed(str(error), getattr(error, "lost", False)) from None
    return replace(loaded, function=function, start=start)


def _prove_rival(loaded: Loaded, shared: sampling.Shared) -> None:
    if loaded.result:
        loaded.result.poison()
    try:
        sampling.prove(loaded, shared)
    except (DeviceError, WrongResult) as error:
        raise RivalFailed(str(error), getattr(error, "lost", False)) from None


def _take(pairs: list[tuple[Loaded, Loaded]], plan: Plan) -> Pairs:
    timer, begin = sampling.timer_of(plan.kind), time.perf_counter()
    times: dict[bool, list[float]] = {True: [], False: []}  # of the new side, of the old
    thrown_away = 0
    for turn in count():
        elapsed = time.perf_counter() - begin
        if turn == MOST_TURNS or (turn >= FEWEST_TURNS and elapsed * (turn + 1) / turn > plan.seconds):
            break
        pair = pairs[turn % len(pairs)]
        first = turn // len(pairs) % 2 == 1
        for is_new in (first, not first, not first, first):
            seconds, lost = sampling.sample_of(pair[is_new], timer)
            times[is_new].append(seconds)
            thrown_away += lost
    nothing = Clock(0, ())
    return Pairs(tuple(times[False]), tuple(times[True]), (nothing, nothing), thrown_away)
