"""Compares the results of timed kernels in a process of its own, which alone holds the right ones.

Kernels of code that is not trusted run in the worker process. It draws inputs there, and gives them to this process,
which has them computed; it gets results, and answers what is wrong with them. So no right result is in the memory of a
process, or of a GPU, that a kernel may read. Tests are compared by pytest's process (devices/kernel.Kernel.evaluate).
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

from warpwatch.catalogue.arrays import Array, Part
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.draws import Draw
from warpwatch.catalogue.expected import Expected
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.setting import Setting
from warpwatch.devices import evaluate, references
from warpwatch.devices.foreign.described import load_described
from warpwatch.devices.foreign.shared_arrays import Place, place_of
from warpwatch.devices.mismatch import Mismatch, RightElsewhere, compare_all
from warpwatch.devices.opening import Settings
from warpwatch.devices.transfer import stage
from warpwatch.devices.worker import Worker

_P = ParamSpec("_P")
_T = TypeVar("_T")


def begin(setting: Setting, settings: Settings) -> Callable[[], None]:
    """Load the declarations as data, in a child process; where it launches, have another one compare.

    Returns what ends their processes.
    """
    project = load_described(setting, settings.reference_timeout)
    if settings.kind == "none":  # it compares for the one that launches
        return project.stop
    comparer = Comparer(project, settings)
    references.elsewhere[:] = [comparer.expected]

    def end() -> None:
        comparer.stop()
        project.stop()

    return end


class Comparer:
    """The process that compares, as the worker process sees it."""

    def __init__(self, project: Project, settings: Settings) -> None:
        self._worker = Worker(project, replace(settings, kind="none"))
        self._numbers = itertools.count()
        self._unused: list[int] = []
        self._mapped: dict[int, list[Array]] = {}  # inputs that the process may read
        self._lock = threading.Lock()  # the inputs of later cases are drawn in a thread
        self.stop = self._worker.stop

    def expected(self, case: Case, inputs: Mapping[str, Array], part: Part, exact: bool) -> dict[str, Expected]:
        """Have right results computed, without waiting for them."""
        number = next(self._numbers)
        given = {name: place_of(array) or array for name, array in inputs.items()}
        self.call(hold, number, case, given, part, exact)
        self._mapped[number] = [inputs[name] for name, each in given.items() if isinstance(each, Place)]
        right = Right(self, number, case)
        weakref.finalize(right, self._unused.append, number)
        return right

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function in the process that compares."""
        with self._lock:
            unused, self._unused[:] = [*self._unused], []
            if unused:
                self._worker.call(forget, unused)
                for number in unused:
                    self._mapped.pop(number, None)
            return self._worker.call(function, *args, **kwargs)


class Right(RightElsewhere):
    """Right results of a case, which the process that compares holds by a number."""

    def __init__(self, comparer: Comparer, number: int, case: Case) -> None:
        super().__init__(array.name for array in case.results)
        self._comparer, self._number, self._case = comparer, number, case

    def compare(self, results: Mapping[str, Array], rows: Array | None) -> dict[str, Mismatch]:
        return self._ask(wrong, dict(results), rows)

    def nothing_shown(self) -> str:
        return self._ask(nothing)

    def _ask(self, function: Callable[..., _T], *args: Any) -> _T:
        case = self._case
        with stage(f"the reference of {case.family.name} at {case.shape_name}, {case.dtype} (NumPy on the host)"):
            return self._comparer.call(function, self._number, *args)


@dataclass(frozen=True, kw_only=True)
class Held:
    """A case in the process that compares: its inputs, and its right results, which may take a while."""

    case: Case
    inputs: Mapping[str, Array]
    right: Future[dict[str, Expected]]


_held: dict[int, Held] = {}
_pool = ThreadPoolExecutor(1, "references")  # started by its first use


def hold(number: int, case: Case, given: Mapping[str, Array | Place], part: Part, exact: bool) -> None:
    """Begin to compute right results, in the process that compares. ``given``: the inputs, or where they lie."""
    inputs = {name: each.array() if isinstance(each, Place) else each for name, each in given.items()}
    right = _pool.submit(references.expected, case, inputs, part, exact=exact)
    _held[number] = Held(case=case, inputs=inputs, right=right)


def forget(numbers: Sequence[int]) -> None:
    """Give back the memory of results that nobody will ask for: their inputs are read no more."""
    for held in filter(None, (_held.pop(number, None) for number in numbers)):
        if not held.right.cancel():
            held.right.exception()


def wrong(number: int, results: Mapping[str, Array], rows: Array | None) -> dict[str, Mismatch]:
    """Compare results, in the process that compares. Raises BadCase where the reference failed."""
    return compare_all(results, _held[number].right.result(), rows)


def nothing(number: int) -> str:
    """Say, in the process that compares, that a kernel which writes nothing would be right; empty otherwise."""
    held = _held[number]
    return evaluate.nothing_shown(held.case, [Draw(inputs=held.inputs, right=held.right.result())])
