"""Both sides of a case in one process: the same operands and results, in turns, so that drift falls on both.

The half of ``--against`` that runs where the kernels run; warpwatch/compare/with_revision.py is the other.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.declaration import Case
from warpwatch.devices.check import WrongResult
from warpwatch.devices.machine import DeviceError, Function, GuardedArray, Machine
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.runner import Loaded, load, set_constants
from warpwatch.devices.worker import gpu, machine
from warpwatch.timing import worker_samples as sampling
from warpwatch.timing.clocks import Clock
from warpwatch.timing.delayed import VARIABLES
from warpwatch.timing.worker_proof import (
    Shared,
    is_intact,
    poison,
    prove,
    prove_again,
    prove_fresh,
    restore,
    sharing_key,
)

# Of four samples each. What processes differ by in pairs is what their samples scatter, so more turns help as much as
# more processes do: 48 unchanged kernels of 10 to 20 µs differed by 0.60 % from process to process after 25 turns,
# 0.27 after 80, 0.20 after 200, 0.15 after 400 (H200). 200 of them take 0.06 s.
MOST_TURNS, FEWEST_TURNS = 200, 4
# A quiet kernel needs no more turns than make its mean this sure (standard error), as in nvbench's stdrel: what a
# process says then is well within the least floor, 0.5 %. The time goes to the noisy ones.
PRECISE, TURNS_TO_TELL = 0.0006, 6
# And one that is not even this sure when its time is over may take as long again: of slowdowns by 1 % above 100 µs,
# 98 % are found with that and 93 % were without (H200s, played from recorded pairs).
NOISY = 0.0012


class OtherSideFailed(DeviceError):
    """The other revision's side cannot be run, or is wrong; the message says what it said."""


@dataclass(frozen=True)
class Delay:
    """What the new side of two delayed kernels (warpwatch/timing/delayed.py) waits: ``share`` of the old side's time.

    ``cycles``: what that takes, where an earlier process found it.
    """

    share: float
    cycles: int = 0


@dataclass(frozen=True)
class Fingerprints:
    """Numbers that a right result of each side has (warpwatch/timing/worker_proof.py)."""

    old: int
    new: int


@dataclass(frozen=True)
class Plan:
    """How one process measures a pair. ``seconds``: of wall time for its samples, or twice that if they are noisy;
    ``swap``: load the old side first; ``prove``: compare both sides with NumPy before; where not, ``proved`` are the
    fingerprints that their right results had in another process. ``checked``: a build of the new side that finds more
    faults, proved too where it is another."""

    kind: str  # cold or warm
    swap: bool
    prove: bool
    seconds: float
    warm_up: float
    delay: Delay | None = None
    proved: Fingerprints | None = None
    checked: Path | None = None


@dataclass(frozen=True)
class PairSamples:
    """What one process measured: seconds of each side, two of each side a turn, and what was recorded besides."""

    old: tuple[float, ...]
    new: tuple[float, ...]
    clocks: tuple[Clock, Clock]
    cycles: int = 0  # that the new side was made to wait
    thrown_away: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    proved: Fingerprints | None = None

    @property
    def log(self) -> float:
        """Logarithm of new over old in this process."""
        return log_ratio(self.old, self.new)


def log_ratio(old: Sequence[float], new: Sequence[float]) -> float:
    """Of new over old, of two samples a turn each. Turns are balanced against drift.

    The median of the means of all pairs of turns (Hodges and Lehmann 1963): as little moved by outliers as is needed,
    and below 20 µs six tenths of the variance of the turns' own median, on the same recorded pairs of an H200.
    """
    a, b, c, d = (np.array(side[i::2]) for side in (old, new) for i in (0, 1))
    turns = np.log(c * d / (a * b)) / 2
    first, second = np.triu_indices(len(turns))
    return float(np.median((turns[first] + turns[second]) / 2))


def measure_pair(case: Case, image: Path, other: OtherKernel, other_image: Path, plan: Plan) -> PairSamples:
    """Load both sides, prove them if asked to, and sample them in turns: old new new old, new old old new.

    Raises WrongResult or DeviceError for the new side, OtherSideFailed for the old one.
    """
    cold = plan.kind == "cold"
    sampling.release(keep=sharing_key(case))
    shared, where = sampling.share_operands(case, plan.prove), machine(on_host=False)
    if plan.prove and plan.checked not in (None, image):
        sampling.prove_checked(where, case, plan.checked, shared)
    function = _load_other(where, other, other_image) if plan.swap else None
    new = [load(where, case, image, place) for place in shared.places]
    sampling.state.loaded = tuple(new)
    function = function or _load_other(where, other, other_image)
    old = [_other_side_of(loaded, other, function) for loaded in new]
    both = list(zip(old, new, strict=True))
    proved = _prove(both[0], shared) if plan.prove else plan.proved
    poison(new)
    facts = sampling.describe(new[0], len(shared.places), cold) if plan.prove else {}
    sampling.settle()
    sampling.warm_up(plan.kind, plan.warm_up)
    cycles = _delay(both, plan, plan.delay) if plan.delay else 0
    before = sampling.read_clock()
    pairs = _take(both, plan)
    pairs = replace(pairs, clocks=(before, sampling.read_clock()), cycles=cycles, facts=facts, proved=proved)
    if proved:
        _prove_again(both, shared, proved, len(pairs.old) // 2)
    return pairs


def _load_other(where: Machine, other: OtherKernel, image: Path) -> Function:
    try:
        return where.load(image, other.entry)
    except DeviceError as error:
        raise OtherSideFailed(str(error), error.lost) from None


def _other_side_of(loaded: Loaded, other: OtherKernel, function: Function) -> Loaded:
    """The old side on the new one's operands and result."""
    arrays = [array for array in (*loaded.operands, loaded.result) if isinstance(array, GuardedArray)]
    try:
        arguments = other.fill([array.address for array in arrays])
        set_constants(loaded.machine, function, other.constant, loaded.operands)
        start = loaded.machine.launcher(function, other.launch, arguments)
    except (DeviceError, IndexError, TypeError) as error:
        raise OtherSideFailed(str(error), getattr(error, "lost", False)) from None
    return replace(loaded, function=function, start=start)


def _prove(pair: tuple[Loaded, Loaded], shared: Shared) -> Fingerprints:
    """Compare both sides with NumPy. Raises WrongResult or DeviceError for the new one, OtherSideFailed for the old."""
    old, new = pair
    right = prove(new, shared)
    poison([old])
    with _blaming(is_new=False):
        return Fingerprints(prove(old, shared), right)


@contextmanager
def _blaming(is_new: bool) -> Iterator[None]:
    """Turn what is wrong with the old side into OtherSideFailed."""
    try:
        yield
    except (DeviceError, WrongResult) as error:
        if is_new:
            raise
        raise OtherSideFailed(str(error), getattr(error, "lost", False)) from None


def _prove_again(pairs: list[tuple[Loaded, Loaded]], shared: Shared, proved: Fingerprints, turns: int) -> None:
    """Compare what the last samples left, and one more launch of each side. Raises as ``_prove``.

    Both sides write to the same arrays, and nothing may come between their samples; so a side that no longer writes
    is found by the launch after them, whose result starts as poison.
    """
    case = pairs[0][1].case
    results = [new.result for _, new in pairs if new.result]
    spoilt = not is_intact(shared) or any(result.overrun() for result in results)
    if spoilt:  # one of the two did it: the launches below show which
        restore(shared, case)
        for result in results:
            result.clear()
    else:
        _prove_last_samples(pairs, shared, proved, turns)
    for is_new, right in ((True, proved.new), (False, proved.old)):
        with _blaming(is_new):
            prove_fresh(pairs[0][is_new], shared, right)
    if spoilt:
        raise WrongResult(
            f"{case.id}: one of the two sides wrote outside its result while they were timed, and launched once more "
            "neither does"
        )


def _prove_last_samples(pairs: list[tuple[Loaded, Loaded]], shared: Shared, proved: Fingerprints, turns: int) -> None:
    last = (turns - 1) % len(pairs)
    # What is printed is that of the very last sample.
    for place in range(len(pairs)) if pairs[0][1].result else [last]:
        is_new = _last_is_new(place, turns, len(pairs))
        with _blaming(is_new):
            right = proved.new if is_new else proved.old
            prove_again(pairs[place][is_new], shared, right, sampling.state.printed)


def _last_is_new(place: int, turns: int, places: int) -> bool:
    """Whether the last sample at a place was the new side's: each turn ends with the side that it began with."""
    return _begins_new(place, (turns - 1 - place) // places)


def _begins_new(place: int, again: int) -> bool:
    """In turns, and the other way round each time at the same place."""
    return (place + again) % 2 == 1


def _delay(pairs: list[tuple[Loaded, Loaded]], plan: Plan, delay: Delay) -> int:
    """Make the new sides wait as asked. In cycles of a block; found from what a first guess makes of the time."""
    resident = gpu().resident_blocks(pairs[0][1].function, pairs[0][1].case.launch) or 1
    blocks = np.uint32(resident * gpu().info.multiprocessors)

    def wait(cycles: int) -> None:
        for old, new in pairs:
            for side, own in ((old, 0), (new, cycles)):
                gpu().set_variable(side.function, VARIABLES[0], np.int64(own))
                gpu().set_variable(side.function, VARIABLES[1], blocks)

    if delay.cycles:
        wait(delay.cycles)
        return delay.cycles
    trial = replace(plan, seconds=plan.seconds / 2)
    wait(0)
    cycles = round(delay.share * statistics.median(_take(pairs, trial).old) * gpu().info.clock_hz)
    for _ in range(2):
        wait(cycles)
        reached = math.expm1(_take(pairs, trial).log)
        # No more than a tenth or ten times: a trial of a few samples may be far off.
        cycles = round(cycles * min(10.0, max(0.1, delay.share / max(reached, 1e-6))))
    wait(cycles)
    return cycles


def _take(pairs: list[tuple[Loaded, Loaded]], plan: Plan) -> PairSamples:
    timer, begin = sampling.timer_of(plan.kind), time.perf_counter()
    times: dict[bool, list[float]] = {True: [], False: []}  # of the new side, of the old
    thrown_away, sums = 0, (0.0, 0.0)  # of the turns' logarithms, and of their squares
    for turn in count():
        if turn >= FEWEST_TURNS and turn % 2 == 0:  # a turn and its mirror
            elapsed, error = time.perf_counter() - begin, _standard_error(turn, *sums)
            out_of_time = elapsed * (turn + 2) / turn > plan.seconds * (2 if error > NOISY else 1)
            if turn == MOST_TURNS or out_of_time or (turn >= TURNS_TO_TELL and error < PRECISE):
                break
        where, again = turn % len(pairs), turn // len(pairs)
        first = _begins_new(where, again)
        for is_new in (first, not first, not first, first):
            seconds, lost = sampling.sample_of(pairs[where][is_new], timer)
            times[is_new].append(seconds)
            thrown_away += lost
        log = math.log(math.prod(times[True][-2:]) / math.prod(times[False][-2:])) / 2
        sums = sums[0] + log, sums[1] + log * log
    nothing = Clock(0, ())
    clocks = (nothing, nothing)
    return PairSamples(old=tuple(times[False]), new=tuple(times[True]), clocks=clocks, thrown_away=thrown_away)


def _standard_error(turns: int, total: float, squares: float) -> float:
    """Of the turns' mean. By sums: a pause here would be the next sample's."""
    return math.sqrt(max(squares - total * total / turns, 0.0) / (turns - 1) / turns)
