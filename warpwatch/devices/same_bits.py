"""Asks whether a case gives the same bits again: in later launches, in other orders of blocks, and on fewer rows.

Nothing is compared with the reference unless bits differ: evaluate.py has done that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import is_float, wide
from warpwatch.catalogue.expected import Expected
from warpwatch.catalogue.same_for import first_part, smaller_cases
from warpwatch.devices.compile.builds import entries_of
from warpwatch.devices.compile.entries import needs_names
from warpwatch.devices.machine import Machine
from warpwatch.devices.mismatch import compare_all
from warpwatch.devices.references import drawn, expected
from warpwatch.devices.runner import Outcome, bytes_of, launch_once, loaded_with

Results = Mapping[str, Array]
DIGITS = (".9g", ".17g")  # with which two numbers are printed: the first that tell them apart


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Elements of two results that have other bits. ``values``: both, at the index where they are furthest apart."""

    name: str
    index: tuple[int, ...]
    values: tuple[str, str]
    differing: int
    total: int

    def __str__(self) -> str:
        index, (value, other) = ", ".join(map(str, self.index)), self.values
        return f"{self.name}[{index}] {value} and {other} ({self.differing:,} of {self.total:,} elements differ)"


def difference(results: Results, others: Results) -> Difference | None:
    """Return how the first of two results that have other bits differ, or None."""
    for name, array in results.items():
        other = others[name]
        if array.shape != other.shape:  # printed lines
            lines = (f"{array.size} lines", f"{other.size} lines")
            return Difference(name=name, index=(0,), values=lines, differing=1, total=1)
        differs = (bytes_of(array) != bytes_of(other)).reshape(*array.shape, array.itemsize).any(axis=-1)
        if differs.any():
            index = _furthest(array, other, differs)
            return Difference(
                name=name,
                index=index,
                values=_pair(array[index], other[index]),
                differing=int(np.count_nonzero(differs)),
                total=array.size,
            )
    return None


def _furthest(array: Array, other: Array, differs: Array) -> tuple[int, ...]:
    """Return the index where two arrays are furthest apart, the first that differs where no number says so."""
    apart = differs.astype(np.float64)
    if is_float(array.dtype):
        with np.errstate(all="ignore"):
            error = np.abs(array.astype(wide(array.dtype)) - other.astype(wide(array.dtype)))
        apart += np.where(differs, np.nan_to_num(error.astype(np.float64), posinf=0.0), 0.0)
    return tuple(map(int, np.unravel_index(int(np.argmax(apart)), array.shape)))


def _pair(value: np.generic, other: np.generic) -> tuple[str, str]:
    """Return two elements as texts that differ: as numbers, else by their bits."""
    both = (value, other)
    if is_float(value.dtype) and value.dtype.kind != "c":
        spelled = [tuple(format(float(each), digits) for each in both) for digits in DIGITS]
    else:
        spelled = [(str(value), str(other))]
    spelled.append(tuple(f"0x{each.tobytes()[::-1].hex()}" for each in both))
    first, second = next((pair for pair in spelled if pair[0] != pair[1]), spelled[-1])
    return first, second


@dataclass
class Watch:
    """Looks at the outcomes of launches on the same inputs as they pass by."""

    launches: int
    _first: Outcome | None = None
    _other: Outcome | None = None
    _differing: int = 0

    def over(self, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        """Yield outcomes, and take note of those whose bits are not those of the first launch."""
        for outcome in outcomes:
            if outcome.launch == 1:
                self._first = outcome
            elif outcome.draw == 0 and self._first and difference(self._first.results, outcome.results):
                self._other = self._other or outcome
                self._differing += 1
            yield outcome

    @property
    def sentence(self) -> str:
        """Sentence on bits that differ, where every launch was within tolerance; empty where they are the same."""
        if not (self._first and self._other):
            return ""
        found = difference(self._first.results, self._other.results)
        between = f"bits differ between launches 1 and {self._other.launch}"
        return f"{between}: {found}, in {self._differing} of {self.launches} launches; each is within tolerance"


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """Launches of a case on the same inputs.

    ``digest``: of the first results. ``differing``: how the bits of a later launch differ, or nothing. ``fewer``: how
    results for less of a size in ``same_for`` differ. ``results``: those of the first launch, where they are not those
    that another process knows. ``right``: whether these are within tolerance.
    """

    digest: str
    differing: str = ""
    fewer: tuple[str, ...] = ()
    results: Results | None = None
    right: bool = True


def repeated(machine: Machine, case: Case, image: Path, *, seed: int, launches: int, known: str = "") -> Repeated:
    """Launch a case so often on random inputs, in other orders from the second time on, and on fewer rows.

    ``known``: the digest of another process's first results; fewer rows are left out then. Raises DeviceError or
    BadCase.
    """
    inputs = drawn(case, seed)
    with loaded_with(machine, case, image, inputs) as loaded:
        first, differing = launch_once(loaded), ""
        for number in range(2, launches + 1):
            loaded.poison()
            with machine.in_another_order(number - 1) as order:
                results = launch_once(loaded)
            if found := difference(first, results):
                rights = _are_right(case, inputs, {"launch 1": first, f"launch {number}": results})
                differing = f"bits differ between launches 1 and {number}{order}: {found}; {rights}"
                break
    digest = digest_of(first)
    fewer = [] if known else _on_fewer_rows(machine, case, image, inputs, first)
    return Repeated(
        digest=digest,
        differing=differing,
        fewer=tuple(fewer),
        results=first if known and known != digest else None,
        right=not known or known == digest or not compare_all(first, expected(case, inputs)),
    )


def between_processes(own: Repeated, other: Repeated) -> str:
    """Say how the results of two processes differ. ``own``, ``other``: each knew the digest of the other."""
    if own.results is None or other.results is None:
        return "bits differ between two processes, and not in their next launches"
    said = "each is within tolerance" if own.right and other.right else "one of them is not within tolerance"
    return f"bits differ between two processes: {difference(own.results, other.results)}; {said}"


def digest_of(results: Results) -> str:
    """Return a digest of results, equal where they are equal to the bit."""
    digest = hashlib.sha256()
    for name, array in results.items():
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(bytes_of(array).data)
    return digest.hexdigest()[:16]


def _on_fewer_rows(
    machine: Machine, case: Case, image: Path, inputs: Mapping[str, Array], whole: Results
) -> Iterator[str]:
    """Yield how the results of smaller cases, on the first rows of the inputs, differ from those of the whole one."""
    for size, smaller in smaller_cases(case):
        more, less = (f"{size} = {each.sizes[size]}" for each in (case, smaller))
        if missing := _not_compiled(smaller):
            cure = "add such a shape to `tests`"
            yield f"{less} cannot be compared: {missing} is launched on no shape of `tests` or `benchmarks`; {cure}"
            continue
        parts = ((array.name, first_part(inputs[array.name], array.shape)) for array in smaller.inputs)
        given = {name: np.ascontiguousarray(part) for name, part in parts}
        with loaded_with(machine, smaller, image, given) as loaded:
            results = launch_once(loaded)
        same = {array.name: first_part(whole[array.name], array.shape) for array in smaller.results}
        if found := difference(same, results):
            rights = _are_right(smaller, given, {f"that for {more}": same, f"that for {less}": results})
            yield f"the same rows have other bits for {more} and {less}: {found}; {rights}"


def _not_compiled(case: Case) -> str:
    """Return the first kernel of a case that its build was not compiled for; empty where there is none."""
    entries = (step.entry for step in case.steps if needs_names(step.entry))
    return next((entry for entry in entries if entry not in entries_of(case.build)), "")


def _are_right(case: Case, inputs: Mapping[str, Array], each: Mapping[str, Results]) -> str:
    """Say which of several results are within tolerance."""
    right: Mapping[str, Expected] = expected(case, inputs)
    wrong: Sequence[str] = [name for name, results in each.items() if compare_all(results, right)]
    return f"{' and '.join(wrong)} not within tolerance" if wrong else "each is within tolerance"
