"""Launches that show whether a kernel does its work in each: none of them counts as a sample.

Samples take two sets of inputs in turn and start on poisoned results. A kernel may all the same keep more results than
two, in variables of its module or in memory that is nobody's, or return early where its result is there already. So a
few launches are timed in other ways, and may not differ clearly in time from the samples:

- again: the same inputs as in the launch before, whose results are left where they are;
- unseen: values that no launch has had before, whose results are compared, too, where a reference does not take long,
  or times are in doubt;
- reset: variables of the module have the values that they had after loading.

Nor may the usual launches among these take longer than the samples: a kernel may keep results until it is found out.

One more launch has the inputs of another copy of the arrays: a result that belongs to the place is wrong then.
"""

from __future__ import annotations

import functools
import itertools
import secrets
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from warpwatch.catalogue.arrays import ALL_ROWS, Array
from warpwatch.catalogue.cases import Case
from warpwatch.devices.machine import GuardedArray, in_order
from warpwatch.devices.mismatch import RightElsewhere, WrongResult, compare_all, explain
from warpwatch.devices.references import drawn, expected
from warpwatch.devices.runner import Loaded
from warpwatch.devices.worker import gpu
from warpwatch.timing.checks import again_on, check_sample, fingerprint, mismatches, raise_all
from warpwatch.timing.inputs import Material, Shared, compared_rows, digests_of, seeds_of
from warpwatch.timing.timer import GpuTimer

USUAL, UNSEEN = "usual", "unseen"
ROUNDS, FEWEST_ROUNDS = 10, 2  # of launches in each way: where one differs from the samples, and where none does
LONG_SECONDS = 1e-3  # of a kernel from which on one launch in each way is enough, because its times scatter less
# A way is clearly faster where its median is below this share of the other's: times of a GPU, and of the host, which
# are those of the software device.
CLEARLY, CLEARLY_ON_HOST = 0.8, 0.5
CLEARLY_LATER = 0.5  # of launches of another moment: under a power cap the clock may have fallen to 0.6 of what it was
LEAST_ON_HOST = 2e-4  # seconds by which times of the host differ at least: its caches alone are a few dozen µs
SLACK = 2  # on the tolerance of inputs that are drawn anew in each run: what is not computed is further away
DRAWN_BYTES = 2**16  # of inputs, up to which new ones are drawn; the values of larger ones change their places
KEEPS = "it keeps results from launch to launch: compute them in each"
# What is said of a kernel by the way that differs.
SAID = {
    "again": f"where its result is already there ({{}}, {{}} on fresh inputs and results): {KEEPS}",
    UNSEEN: f"on inputs that it has not seen ({{}}, {{}} on those of its samples): {KEEPS}",
    "later": f"since it had inputs that it had not seen ({{}}, {{}} in its samples): {KEEPS}",
    "reset": f"where its __device__ variables are as after loading ({{}}, {{}} as its launches leave them): {KEEPS}",
}
SAME_INPUTS, NONE_UNSEEN = "all samples had the same inputs", "no launch was on inputs that no sample had"
Timed = Mapping[str, list[float]]  # seconds by way


def check_work(
    copies: Sequence[Loaded], shared: Shared, timer: GpuTimer, usual: float | None, last: Loaded | None
) -> None:
    """Launch in each way, and raise WrongResult where one differs clearly in time. Raises DeviceError.

    It ends as soon as none differs. ``usual``: the median of cold samples, in seconds, if it is known. ``last``: the
    copy whose usual launch was the last one of all, if it is known.
    """
    has_gpu_clock = gpu().info.has_gpu_clock
    clearly, least = (CLEARLY, 0.0) if has_gpu_clock else (CLEARLY_ON_HOST, LEAST_ON_HOST)
    is_long = usual is not None and usual > LONG_SECONDS
    ways, problem = _ways(copies, shared, timer), ""
    times: Timed = {name: [] for name in ways}
    if usual is not None and is_long and last:
        times = {**times, USUAL: [usual], "again": [timer.sample(last.start, last.restore)]}
        others = [name for name, seconds in times.items() if not seconds]
        if not _problem(times | {name: [ways[name]()] for name in others}, clearly, least):
            return
        times = {name: [] for name in ways}
    for number in range(1, ROUNDS + 1):
        if len(copies) > 1:  # so that the next inputs are not those of the launch before
            _launch(copies[1], timer)
        for name, launch in ways.items():
            if name == UNSEEN and times[UNSEEN] and not problem:
                continue  # a reference for nothing
            times[name].append(launch())
            if name != UNSEEN:
                check_sample(copies[0], shared, 0)
        problem = _problem({**times, USUAL: [*times[USUAL], usual or times[USUAL][0]]}, clearly, least)
        if usual and has_gpu_clock:  # the host's own times differ from one moment to the next
            problem = problem or _problem({USUAL: [usual], "later": times[USUAL][1:] or [usual]}, CLEARLY_LATER)
        if number >= FEWEST_ROUNDS and not problem:
            return
    raise WrongResult(f"{copies[0].case.id} {problem}")


def check_exchanged(copies: Sequence[Loaded], shared: Shared, timer: GpuTimer) -> None:
    """Launch on the last copy with the inputs of the first, and check the result. Raises WrongResult or DeviceError.

    What keeps results by the addresses of its arrays has one for each copy, which is right as long as the inputs stay.
    """
    first, last, sets = copies[0], copies[-1], len(shared.sets)
    if sets < 2 or len(copies) < sets:
        return
    pairs = [*zip(first.inputs, last.inputs, strict=True)]
    if len(copies) > sets:
        for source, array in pairs:
            array.machine.copy(array.address, source.address, array.nbytes)
    else:
        for source, array in pairs:
            timer.swap(source, array)
    last.take_inputs()
    _launch(last, timer)
    if fingerprint(digests_of(last.results)) not in shared.sets[0].accepted:
        raise_all(mismatches(last, shared, 0), f"{last.case.id} is wrong where the inputs in its arrays have changed")
    if len(copies) > sets:
        _copy_back(last.inputs, copies[-1 - sets].inputs)
    else:
        for source, array in pairs:
            timer.swap(source, array)
    last.take_inputs()


def left_out(case: Case, copies: int, sets: int) -> tuple[str, ...]:
    """Say which probes of a case are left out, and why: its arrays lie in ``copies`` that hold ``sets`` of inputs."""
    if not case.inputs or case.variant.on_host or case.family.prints:
        return ()
    if any(array.is_drawn for array in case.inputs):
        return (
            f"{SAME_INPUTS}, and {NONE_UNSEEN}, because `draw` chooses the shapes: declare them, if they are known",
        )
    sentences = []
    if sets < len(seeds_of(case)):
        sentences.append(f"{SAME_INPUTS}, because memory has room for one set: time a smaller shape")
    if copies <= sets and case.family.draw:
        sentences.append(f"{NONE_UNSEEN}, because they are large and of a `draw` of its own")
    return tuple(sentences)


def _copy_back(arrays: Sequence[GuardedArray], same: Sequence[GuardedArray]) -> None:
    """Give arrays the values again that others of the same inputs hold."""
    for array, source in zip(arrays, same, strict=True):
        array.machine.copy(array.address, source.address, array.nbytes)


def _launch(loaded: Loaded, timer: GpuTimer) -> float:
    """Take a sample as it is usual."""
    return timer.sample(loaded.start, in_order((loaded.poison, loaded.restore)))


def _ways(copies: Sequence[Loaded], shared: Shared, timer: GpuTimer) -> dict[str, Callable[[], float]]:
    """Return the ways to launch a case, each of which returns its seconds; "again" comes directly after the usual.

    Results of launches on unseen values are compared: of the first where its right ones were made, of later ones,
    which a doubt asks for, always. That raises WrongResult.
    """
    first, last = copies[0], copies[-1]
    ways: dict[str, Callable[[], float]] = {
        USUAL: lambda: _launch(first, timer),
        "again": lambda: timer.sample(first.start, first.restore),
    }
    if renew := _renewing(copies, len(shared.sets), timer):
        rounds = itertools.count()

        def on_new_values() -> float:
            is_first = next(rounds) == 0
            made = shared.unseen if is_first and len(copies) > len(shared.sets) else None
            undo = renew(made.inputs if made else None)
            last.take_inputs()
            seconds = _launch(last, timer)
            if made or not is_first:
                _prove(last, made)
            undo()
            last.take_inputs()
            return seconds

        ways[UNSEEN] = on_new_values
    if variables := first.variables:
        ways["reset"] = lambda: timer.sample(first.start, in_order((variables.restore, first.poison, first.restore)))
    return ways


def _prove(loaded: Loaded, made: Material | None) -> None:
    """Compare the results of a launch on inputs that no sample has. Raises WrongResult.

    ``made``: the inputs with their right results, where these were made before.
    """
    case, rows = loaded.case, compared_rows(loaded.case)
    right = made.right if made else None
    if right is None:
        inputs = {array.name: array.read() for array in loaded.inputs}
        right = expected(case, inputs, ALL_ROWS if rows is None else rows)
    if not isinstance(right, RightElsewhere):
        right = {name: replace(each, bound=SLACK * each.bound) for name, each in right.items()}
    wrong = compare_all({array.name: array.read_sample(rows) for array in loaded.results}, right, rows)
    again = again_on(case, made.seed if made else None)
    problems = [explain(case, name, mismatch, again) for name, mismatch in wrong.items()]
    raise_all(problems, f"{case.id} is right on the inputs of its samples, and wrong on inputs that it has not seen")


Renew: TypeAlias = Callable[[Mapping[str, Array] | None], Callable[[], None]]


def _renewing(copies: Sequence[Loaded], sets: int, timer: GpuTimer) -> Renew | None:
    """Return a function that gives the last copy values which no launch has had, and returns one that undoes it.

    It takes the values, where they are made already. None where there is nothing to draw, where a draw chooses the
    shapes, and where drawn inputs are large.
    """
    case, last = copies[-1].case, copies[-1].inputs
    size = sum(array.nbytes for array in last)
    if not size or any(array.is_drawn for array in case.inputs):
        return None
    if len(copies) <= sets:
        return None if case.family.draw else lambda _: _exchange(last, timer)
    same = copies[-1 - sets].inputs  # as the last copy's

    def renew(values: Mapping[str, Array] | None) -> Callable[[], None]:
        if values is None and (case.family.draw or size <= DRAWN_BYTES):
            values = drawn(case, secrets.randbits(32))
        if values is not None:
            for array in last:
                array.write(values[array.name])
        else:
            for array, source in zip(last, same, strict=True):
                _rotate(array, source)
        return functools.partial(_copy_back, last, same)

    return renew


def _exchange(arrays: Sequence[GuardedArray], timer: GpuTimer) -> Callable[[], None]:
    """Exchange elements of arrays, and return a function that undoes it."""
    most = max(array.nbytes // array.dtype.itemsize for array in arrays)
    bits = 1 + secrets.randbelow(max(1, most // 2))  # 1 of a single element, which stays what it is

    def exchange() -> None:
        for array in arrays:
            timer.exchange(array, bits)

    exchange()
    return exchange


def _rotate(array: GuardedArray, source: GuardedArray) -> None:
    """Fill an array with the values of another, from a random one on."""
    first = secrets.randbelow(array.nbytes // array.dtype.itemsize) * array.dtype.itemsize
    rest = array.nbytes - first
    array.machine.copy(array.address, source.address + first, rest)
    if first:
        array.machine.copy(array.address + rest, source.address, first)


def _problem(times: Timed, share: float, least: float = 0.0) -> str:
    """Say how a way differs clearly from the usual one; empty where none does.

    ``least``: above 0 where the host takes the times: seconds by which they differ at least. What else runs there only
    makes them longer, by chance some of one way only, or so many of both that they overlap; the shortest decide.
    """
    usual = times[USUAL]
    typical: Callable[[Sequence[float]], float] = min if least else statistics.median
    for name, seconds in times.items():
        fast, slow = (seconds, usual) if name == "again" else (usual, seconds)
        is_apart = least or np.quantile(fast, 0.75) < np.quantile(slow, 0.25)  # hardly a value of both overlaps
        if name != USUAL and is_apart and typical(fast) < min(share * typical(slow), typical(slow) - least):
            own, other = typical(seconds), typical(usual)
            said = SAID[name].format(*(f"{each * 1e6:,.2f} µs" for each in (own, other)))
            return f"takes {own / other:.3g} times as long {said}"
    return ""
