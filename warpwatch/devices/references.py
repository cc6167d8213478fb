"""Computes right results by a declaration's own Python: says what is waited for, and keeps what took long.

What took over SLOW seconds is kept in the cache of compiled kernels, for later runs. Its name holds a digest of the
function with all that it reaches (catalogue/function_digest.py), of what it was given, and of its inputs' bytes. What
cannot be followed is not kept, nor what changes while it is computed. The digest takes longer than most references, so
a mark of function and shape says where to look.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import itertools
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue import expected as rules
from warpwatch.catalogue.arrays import ALL_ROWS, Array, Part
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.expected import Expected, unlike_results
from warpwatch.catalogue.function_digest import LOOKUP, NotFollowed, digest_of_source
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.named_arguments import BadFunction, asked_for, call
from warpwatch.catalogue.names import BadCase
from warpwatch.devices.compile.compiler import digest_of, kernel_cache, read_image
from warpwatch.devices.transfer import stage

LINE = "line"  # what the result of a kernel that prints is called
SLOW = 1.0  # seconds from which a result is kept
LARGEST, KEPT = 2**28, 2**30  # bytes of one result, and of all
KIND, MARK = ".npz", ".slow"  # what was computed; and that a function was slow on a shape, so that it is worth a look
# Where another process computes right results, and holds them (devices/foreign/comparing.py): what asks it.
elsewhere: list[Callable[..., dict[str, Expected]]] = []
_slow: set[tuple[object, ...]] = set()  # what has a reference that took over SLOW seconds, in this process or before


def expected(
    case: Case, inputs: Mapping[str, Array], part: Part = ALL_ROWS, *, exact: bool = False
) -> dict[str, Expected]:
    """Return the right results by name, with the largest error allowed for each element.

    ``part``: the rows of each result that are computed. ``exact``: no error is allowed. Raises BadCase where the
    family's reference does not return the results' shapes and types, and for what the declaration's functions raise: a
    sentence that names the line.
    """
    if case.family.prints:
        return {LINE: Expected(reference=np.sort(np.array(call(case.family.prints, case.given))), bound=0.0)}
    if elsewhere:
        return elsewhere[0](case, inputs, part, exact)
    with naming(case, "the reference"):
        right = rules.expected(case, inputs, part, exact=exact, by=computed)
    values = {name: value.reference for name, value in right.items()}
    if part is ALL_ROWS and (fault := unlike_results(case, values)):
        raise BadCase(f"{case.id}: family {case.family.name}: reference {fault}")
    return right


def drawn(case: Case, seed: int, *, exact: bool = False) -> dict[str, Array]:
    """Return the inputs of a case, small whole numbers where ``exact``. Raises BadCase as ``expected``."""
    with naming(case, "the inputs") if case.family.draw else contextlib.nullcontext():
        return (exact_inputs if exact else random_inputs)(case, seed)


@contextlib.contextmanager
def naming(case: Case, what: str) -> Iterator[None]:
    """Name to the parent what is computed, and the line of the declaration where it fails."""
    family = case.family
    try:
        with stage(f"{what} of {family.name} at {case.shape_name}, {case.dtype} (NumPy on the host)"):
            yield
    except (BadCase, MemoryError):
        raise
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise  # it is Ctrl-C, which a worker process ignores
        why = str(error) if isinstance(error, BadFunction) else f"{type(error).__name__}: {error}"
        raise BadCase(f"{case.id}: family {family.name}: {what} failed{_place(error, family.root)}: {why}") from error


def _place(error: BaseException, root: Path) -> str:
    """Return the last line of the project that an error passed, such as `` at kernels/own.py:3``."""
    engine = Path(rules.__file__).parent.parent
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if elsewhere := getattr(error, "place", None):  # devices/foreign/described.py
        frames.append(elsewhere)
    for file, line in reversed(frames):
        if file.is_relative_to(root) and not file.is_relative_to(engine) and "site-packages" not in file.parts:
            return f" at {file.relative_to(root)}:{line}"
    return ""


def computed(
    case: Case,
    function: Callable[..., Any],
    inputs: Mapping[str, Array],
    part: Part = ALL_ROWS,
    magnitudes: bool = False,
) -> dict[str, Array]:
    """Compute as ``catalogue.expected.compute`` does, or take what an earlier run computed."""
    name = functools.partial(_name, case, function, part, magnitudes)
    first, mark = _first_digest(function, case.family.root), name(getattr(function, "__qualname__", ""))
    if first and _find(mark, MARK) and (digest := _digest(function, case.family.root)):
        entry = _find(_with_inputs(name(digest), inputs), KIND)
        if kept := _arrays(entry) if entry else None:
            _slow.add(_subject(case))
            return kept
    begin = time.perf_counter()
    results = rules.compute(case, function, inputs, part, magnitudes)
    if time.perf_counter() - begin > SLOW:
        _slow.add(_subject(case))
        if first and _digest(function, case.family.root) == first:  # so that it is what the results were computed with
            _keep(mark, _with_inputs(name(first), inputs), results)
    return results


def is_slow(case: Case) -> bool:
    """Tell whether a reference of a case, or of another one of its shape, took over SLOW seconds, now or before."""
    return _subject(case) in _slow


def _subject(case: Case) -> tuple[object, ...]:
    return (case.family, case.dtype, case.shape)


def _digest(function: Callable[..., Any], root: Path) -> str:
    """Return a digest of a function with all that it reaches now; empty where it cannot be followed."""
    try:
        return digest_of_source(function, root, refused=LOOKUP)
    except (NotFollowed, RecursionError):
        return ""


_first_digest = functools.cache(_digest)  # before a function is called for the first time


def _name(case: Case, function: Callable[..., Any], part: Part, magnitudes: bool, followed: str) -> str:
    """Return what results are kept as, but for their inputs. ``followed``: the function's digest, or its name."""
    asked = set().union(*asked_for(function))
    known = case.family.given(case.shape, case.dtype)
    given = {name: value for name, value in sorted(known.items()) if name in asked}
    rows = "all" if isinstance(part, slice) else part.tobytes().hex()
    results = [(array.name, array.dtype, array.shape) for array in case.results]
    return f"reference-{digest_of(repr((followed, _versions(), given, rows, magnitudes, results)).encode())}"


@functools.cache
def _versions() -> str:
    """Return what else decides a result: Python, the libraries that references may call, and the engine's catalogue."""
    libraries = [metadata.version(name) for name in ("ml_dtypes", "numpy", "scipy")]
    sources = sorted(Path(rules.__file__).parent.rglob("*.py"))
    return digest_of(repr((sys.version_info[:2], libraries)).encode(), *(path.read_bytes() for path in sources))


def _find(name: str, kind: str) -> Path | None:
    with contextlib.suppress(Exception):  # a cache that cannot be used: the result is computed
        if entry := kernel_cache().find(name, kind, is_code=False):
            return entry.path
    return None


def _arrays(path: Path) -> dict[str, Array] | None:
    with contextlib.suppress(Exception), np.load(io.BytesIO(read_image(path)), allow_pickle=False) as arrays:
        return {array: arrays[array] for array in arrays.files}
    return None


def _with_inputs(name: str, inputs: Mapping[str, Array]) -> str:
    """Return the name of what was computed of these inputs."""
    digest = hashlib.sha256()
    for key, array in inputs.items():
        digest.update(repr((key, str(array.dtype), array.shape)).encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return f"{name}-{digest.hexdigest()[:32]}"


def _keep(mark: str, name: str, results: Mapping[str, Any]) -> None:
    """Keep results that are plain arrays, and remove the oldest where all together are too large."""
    plain = all(isinstance(array, np.ndarray) and array.dtype.kind in "biufc" for array in results.values())
    if not plain or sum(array.nbytes for array in results.values()) > LARGEST:
        return
    file = io.BytesIO()
    np.savez(file, **results)
    cache = kernel_cache()
    with contextlib.suppress(Exception):  # no room: the next run computes it again
        cache.add(mark, MARK, b"slow", is_code=False)
        cache.add(name, KIND, file.getvalue(), is_code=False)
        newest = sorted(cache.folder.glob(f"reference-*{KIND}"), key=lambda path: path.stat().st_mtime, reverse=True)
        sizes = itertools.accumulate(path.stat().st_size for path in newest)
        for path, total in zip(newest, sizes, strict=True):
            if total > KEPT:
                path.unlink(missing_ok=True)
