"""Measures both sides of a case in one worker process, on the same arrays and in turns, so that both drift alike.

This is the half of ``--against`` that runs in the worker process; compare/pairs.py is the other.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from warpwatch.catalogue.cases import Case
from warpwatch.devices.arguments import Prepared, named_arguments, prepare_launches
from warpwatch.devices.compile.builds import symbols_in
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.machine import DeviceError, Function, GuardedArray, Machine
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.runner import Loaded, load, load_with
from warpwatch.devices.worker import gpu, machine
from warpwatch.timing import nvml, observers, sampling
from warpwatch.timing.checks import check_fresh_launch, check_lines, check_result, check_sample
from warpwatch.timing.inputs import Shared
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.roofs import check_hardware
from warpwatch.timing.stopping import MOST_TURNS, Stopping, of_turns
from warpwatch.timing.timer import ClockStamps, GpuTimer

# Scrubs between two stamps, which take some 0.3 ms on an H100: GPUs may count nanoseconds in steps of a microsecond.
SCRUBS = 8
# A sample this long, in seconds, has its clock read by stamps, which take 20 µs of the host and no time of the sample:
# what draws so much power that the clock is kept down runs longer.
STAMPED_SECONDS = 100e-6
VARIABLES = ("warpwatch_cycles", "warpwatch_blocks")  # of a kernel that waits (compare/self_check.py)
LOADING = (CompileError, IndexError, TypeError)  # raised where a revision's kernels do not fit its arguments


class OtherSideFailed(DeviceError):
    """A failure or a wrong result of the other revision's side; the message repeats what that side said."""


@dataclass(frozen=True)
class Delay:
    """Wait of the new side of two delayed kernels (compare/self_check.py), as a share of the old side's time.

    ``cycles``: that wait in GPU cycles, where an earlier process has found it; otherwise 0.
    """

    share: float
    cycles: int = 0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Instructions for one process that measures a pair.

    ``kind``: cold or warm. ``swap``: load the old side first. ``check``: compare both sides with NumPy before they are
    timed. Otherwise ``accepted`` are fingerprints of right results in another process. ``seconds``: wall time for the
    samples; noisy ones may take twice that. ``warm_up``: seconds, at most. ``checking_image``: a build of the new side
    that finds more faults; it is checked too where it is another file. ``newer``: the new side's kernel, where it is
    that of a revision too and not the case's own. ``observers``: options of those that are asked for (observers/).
    ``settle``: wait first until no earlier case keeps the clock down. A case that keeps it down itself need not wait.
    """

    kind: str
    swap: bool
    check: bool
    seconds: float
    warm_up: float
    delay: Delay | None = None
    accepted: sampling.Accepted | None = None
    checking_image: Path | None = None
    newer: OtherKernel | None = None
    observers: tuple[str, ...] = ()
    settle: bool = True


def measure_pair(case: Case, image: Path, other: OtherKernel, other_image: Path, plan: Plan) -> PairSamples:
    """Load both sides, check them if asked to, and sample them in turns: old new new old, new old old new.

    Raises WrongResult or DeviceError for the new side, OtherSideFailed for the old one.
    """
    where = machine(on_host=False)
    shared = sampling.begin_case(case, image, plan.checking_image, None if plan.check else plan.accepted or ())
    functions = _functions(where, other, other_image, is_new=False) if plan.swap else ()
    sampling.load_all(lambda arrays, beside: load_side(where, case, image, arrays, plan.newer, beside))
    both = list[tuple[Loaded, Loaded]]()
    for loaded in sampling.state.loaded:
        if other.symbols and both:  # which hold the inputs of one copy
            functions = ()
        functions = functions or _functions(where, other, other_image, is_new=False)
        both.append((_other_side_of(loaded, other, functions), loaded))
    if plan.check:
        _check_both(both[0], shared)
    facts = sampling.describe(both[0][1], len(shared.copies), cold=plan.kind == "cold") if plan.check else {}
    pairs = replace(_sample_both(both, plan), facts=facts)
    _check_last_of_both(both, shared)
    if plan.check and not case.family.prints:
        median = statistics.median(pairs.new)
        sampling.check_work_of_case(plan.kind, median)
        check_hardware(case, plan.kind, median)
    pairs = replace(pairs, accepted=sampling.accepted_so_far())
    if pairs.has_clocks:
        pairs = pairs.with_clocks(sampling.read_clock(), nvml.clocks().highest)
    observed = observers.launch_sides(plan.observers, both)
    facts |= {name: statistics.median(values) for name, (_, values) in observed.items()}
    return replace(pairs, beside={**pairs.beside, **observed})


def _sample_both(both: list[tuple[Loaded, Loaded]], plan: Plan) -> PairSamples:
    """Wait for the clock, warm up, and take the samples of both sides, with NVML's clocks before and after them."""
    takes_long = functools.cache(lambda: _takes_long(both[0][1], plan))
    if plan.settle:
        sampling.settle(lambda: takes_long() and _is_clock_up(plan.kind))
    sampling.begin_ahead()
    before, cycles = sampling.warm_up(plan.kind, plan.warm_up), 0
    if plan.delay:
        cycles, before = _delay(both, plan, plan.delay), sampling.read_clock()
    pairs = _take(both, plan, _stamps() if before.throttle or takes_long() else None)
    return replace(pairs, cycles=cycles, clocks=(before, sampling.read_clock()))


def load_side(
    where: Machine,
    case: Case,
    image: Path,
    inputs: tuple[GuardedArray, ...],
    newer: OtherKernel | None,
    beside: Function | None = None,
) -> Loaded:
    """Load the new side on uploaded inputs: the case's own kernel, or that of a revision. Raises DeviceError.

    ``beside``: as for ``runner.load``.
    """
    if newer is None:
        return load(where, case, image, inputs, beside=beside)
    shared = None if newer.symbols else beside

    def prepare(addresses: Mapping[str, int]) -> Prepared:
        return _prepare(where, case, newer, _functions(where, newer, image, shared), addresses, inputs)

    return load_with(where, case, inputs, prepare)


def _functions(
    where: Machine, other: OtherKernel, image: Path, beside: Function | None = None, *, is_new: bool = True
) -> tuple[Function, ...]:
    functions: list[Function] = []
    with _blaming(is_new, LOADING):
        symbols = symbols_in(image, other.kernels.entries)
        for step in other.steps:
            functions.append(where.load(image, symbols[step.entry], functions[0] if functions else beside))
    return tuple(functions)


def _prepare(
    where: Machine,
    case: Case,
    other: OtherKernel,
    functions: Sequence[Function],
    addresses: Mapping[str, int],
    inputs: Sequence[GuardedArray],
    *,
    is_new: bool = True,
) -> Prepared:
    """Prepare the launches of a revision's kernels on a case's arrays."""
    with _blaming(is_new, LOADING):
        launches = [
            (function, step.launch, named_arguments(case, addresses, step.fill(addresses)))
            for function, step in zip(functions, other.steps, strict=True)
        ]
        return prepare_launches(where, case, other.kernels, launches, inputs, other.symbols)


def _other_side_of(loaded: Loaded, other: OtherKernel, functions: Sequence[Function]) -> Loaded:
    """Load the old side on the new side's arrays."""
    prepared = _prepare(loaded.machine, loaded.case, other, functions, loaded.addresses, loaded.inputs, is_new=False)
    return replace(
        loaded,
        function=prepared.function,
        start=prepared.start,
        notes=prepared.notes,
        symbols=prepared.symbols,
        launches=prepared.launches,
    )


def _check_both(pair: tuple[Loaded, Loaded], shared: Shared) -> None:
    """Compare both sides with NumPy. Raises WrongResult or DeviceError for the new one, OtherSideFailed for the old."""
    old, new = pair
    check_result(new, shared)
    old.poison()
    with _blaming(is_new=False):
        check_result(old, shared)


@contextmanager
def _blaming(is_new: bool, also: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn errors of the old side into OtherSideFailed, and those of ``also`` of the new side into DeviceError."""
    errors: tuple[type[Exception], ...] = (DeviceError, WrongResult, *also)
    try:
        yield
    except errors as error:
        if not is_new:
            raise OtherSideFailed(str(error), getattr(error, "lost", False)) from None
        if isinstance(error, also):
            raise DeviceError(str(error)) from None
        raise


def _check_last_of_both(pairs: list[tuple[Loaded, Loaded]], shared: Shared) -> None:
    """Check the last sample on each copy, and that nothing but results was written. Raises as ``_check_both`` does.

    Both sides write to the same arrays. Where something else was written, one more launch of each shows by which.
    """
    case, launched, printed = pairs[0][1].case, sampling.state.launched, sampling.state.printed
    sides = {copy: loaded is pairs[copy][True] for copy, loaded in launched.items()}  # true for the new one
    own = [array for _, new in pairs for array in new.own.values()]
    spoilt = not shared.is_intact() or any(array.overrun() for array in own)
    if spoilt:
        shared.restore(case)
        for array in own:
            array.clear()
    elif case.family.prints:  # lines are kept of the very last sample alone
        last = [*launched][-1]
        with _blaming(sides[last]):
            check_lines(launched[last], shared.sets[0], printed)
    else:
        for copy, loaded in launched.items():
            with _blaming(sides[copy]):
                check_sample(loaded, shared, copy)
    for is_new in (True, False):
        with _blaming(is_new):
            check_fresh_launch(pairs[0][is_new], shared)
    if spoilt:
        raise WrongResult(
            f"{case.id}: one of the two sides wrote outside its result while they were timed, and launched once more "
            "neither does"
        )


def _delay(pairs: list[tuple[Loaded, Loaded]], plan: Plan, delay: Delay) -> int:
    """Make the new sides wait as asked, and return the wait in cycles, found by trial where ``delay`` has none."""
    info = gpu().info
    resident = gpu().resident_blocks(pairs[0][1].function, pairs[0][1].case.launch) or 1
    # The software device runs one block after another.
    blocks = np.uint32(resident * info.multiprocessors if info.has_gpu_clock else 1)

    def wait(cycles: int) -> None:
        for old, new in pairs:
            for side, own in ((old, 0), (new, cycles)):
                gpu().set_variable(side.function, VARIABLES[0], np.int64(own))
                gpu().set_variable(side.function, VARIABLES[1], blocks)
            if new.variables:
                new.variables.keep()

    if delay.cycles:
        wait(delay.cycles)
        return delay.cycles
    trial = replace(plan, seconds=plan.seconds / 2)
    wait(0)
    cycles = round(delay.share * statistics.median(_take(pairs, trial).old) * gpu().info.clock_hz)
    for _ in range(2):
        wait(cycles)
        reached = math.expm1(_take(pairs, trial).log)
        # At most ten times more or less, because a trial of few samples may be far off.
        cycles = round(cycles * min(10.0, max(0.1, delay.share / max(reached, 1e-6))))
    wait(cycles)
    return cycles


def _takes_long(loaded: Loaded, plan: Plan) -> bool:
    """Take a sample, and tell whether it is so long that the clock beside each of them is to be read."""
    if not gpu().info.has_gpu_clock:
        return False
    return sampling.sample_of(loaded, 0, sampling.timer_of(plan.kind))[0] >= STAMPED_SECONDS


@functools.cache
def _stamps() -> ClockStamps:
    """Return this process's stamps of the SM clock."""
    return ClockStamps(gpu(), 2 * 4 * MOST_TURNS)


def _is_clock_up(kind: str) -> bool:
    """Measure the SM clock around SCRUBS scrubs of L2, and tell whether it is as high as a pair needs it.

    The clock may still be 1.5 % below its highest: both sides of a pair have the same one, and it is known of each
    sample (pair_samples.py).
    """
    stamps, timer = _stamps(), sampling.timer_of(kind)
    assert isinstance(timer, GpuTimer)
    stamps.clear()
    stamps.stamp()
    for _ in range(SCRUBS):
        timer.scrub()
    stamps.stamp()
    return min(stamps.megahertz(), default=0.0) >= nvml.STEADY_CLOCK * nvml.clocks().highest


def _take(pairs: list[tuple[Loaded, Loaded]], plan: Plan, stamps: ClockStamps | None = None) -> PairSamples:
    """Take samples of both sides in turns, again where a result's bits are not known to be right.

    ``stamps``: each sample lies between two of them.
    """
    new = [loaded for _, loaded in pairs]
    taken = _take_unproved(pairs, plan, stamps)
    is_known = sampling.prove(lambda loaded: _blaming(any(loaded is each for each in new)))
    return taken if is_known else _take_unproved(pairs, plan, stamps)


def _take_unproved(pairs: list[tuple[Loaded, Loaded]], plan: Plan, stamps: ClockStamps | None) -> PairSamples:
    timer, order = sampling.timer_of(plan.kind), list[bool]()  # of the samples, true for the new side's

    def sample(copy: int, is_new: bool) -> tuple[float, int]:
        with _blaming(is_new):
            return sampling.sample_of(pairs[copy][is_new], copy, timer)

    if stamps is None:
        return take_turns(sample, of_turns(plan.seconds), len(pairs))

    def stamped(copy: int, is_new: bool) -> tuple[float, int]:
        order.append(is_new)
        stamps.stamp()
        taken = sample(copy, is_new)
        stamps.stamp()
        return taken

    stamps.clear()
    samples = take_turns(stamped, of_turns(plan.seconds), len(pairs))
    clocks = [*zip(stamps.megahertz(), order, strict=False)]  # none where one is missing
    old, new = (tuple(mhz for mhz, is_new in clocks if is_new is side) for side in (False, True))
    return replace(samples, beside={"mhz": (old, new)} if clocks else {})


def take_turns(sample: Callable[[int, bool], tuple[float, int]], rule: Stopping, copies: int = 1) -> PairSamples:
    """Take samples of both sides in turns until the rule is finished: old new new old, new old old new.

    ``sample``: takes one on a copy of the arrays, of the new side or the old; returns its seconds, and how many samples
    were discarded before it.
    """
    times: dict[bool, list[float]] = {True: [], False: []}  # of the new side, of the old
    thrown_away = 0
    while not rule.is_finished:
        repetition, copy = divmod(rule.count, copies)
        first = (copy + repetition) % 2 == 1  # alternately over the copies, and over the turns of each copy
        for is_new in (first, not first, not first, first):
            seconds, lost = sample(copy, is_new)
            times[is_new].append(seconds)
            thrown_away += lost
        rule.add(math.log(math.prod(times[True][-2:]) / math.prod(times[False][-2:])) / 2)
    return PairSamples(old=tuple(times[False]), new=tuple(times[True]), thrown_away=thrown_away)
