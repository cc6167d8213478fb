"""Declares kernels as data: families, builds and cases.

This module and the families import the standard library and NumPy alone, so that every case can be listed without a
GPU, a driver, a compiler or PyCUDA.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import CaseArray, DeclaredArray, Scalar, Shape
from warpwatch.catalogue.elements import C_TYPES, NONE, itemsize
from warpwatch.catalogue.launches import Work
from warpwatch.catalogue.named_arguments import call, takes
from warpwatch.catalogue.names import pick, print_short
from warpwatch.catalogue.tolerance import Exact, Rule
from warpwatch.catalogue.valid_shapes import describe, nearest
from warpwatch.catalogue.variants import Benchmarks, Variant

LARGEST_SIZE = 2**30  # kernels count rows and columns in int, rounded up to whole blocks
LARGEST_WEIGHT = 1e12  # launches of a shape, so that sums and ratios stay far from overflow
TIMED_SEED = 20  # of the inputs of benchmarks, so that every run times the same numbers
_run_seed: list[int] = []  # of this run: of all its random numbers, where nobody may know them before
LARGEST_GRID_Y = 65_535  # CUDA's limit for gridDim.y and gridDim.z, of every architecture


def _folder_of_caller() -> Path:
    """Return the folder of the file that declares a family: the first one outside of this module."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__") in (__name__, "dataclasses"):
        frame = frame.f_back
    return Path(frame.f_code.co_filename).parent


@dataclass(frozen=True, eq=False)
class Family:
    """Kernels that compute the same results. docs/your-kernels.md shows how to declare one.

    Functions take by name what they need: the sizes of a shape, or ``sizes``, all of them by name; ``shape``, ``dtype``
    and ``itemsize``.

    - ``sizes``: names of the numbers in a shape;
    - ``dtypes``: the element types that its cases come in (the macro ``scalar_t``); empty where every array has a type
      of its own;
    - ``arrays``: -> name of each array, and In, Out, InOut or Scratch;
    - ``reference``: inputs by name -> the results: an array, or several as a tuple in the order of ``arrays`` or as a
      mapping; in float64 or exact. One that takes ``part`` returns those rows of each result, which have as many
      rows as each other. One that takes ``magnitudes`` adds, where that is true, the magnitudes of products;
    - ``scalars``: name -> Scalar, a number that kernels take and the reference may ask for;
    - ``tolerance``: a rule for the errors of results, or one for each by name, or a function that returns either
      (warpwatch/catalogue/tolerance.py);
    - ``exact``: whole numbers stay exact in every order of operations, so that results of small ones can be compared to
      the bit;
    - ``deterministic``: True where launches on the same inputs must give the same bits, False where they may differ;
      left out: a difference within the tolerance is a remark;
    - ``same_for``: sizes whose value changes no bit of the rows that a smaller and a larger result both have;
    - ``draw``: ``rng``, ``exact`` -> inputs by name, where uniform random numbers will not do;
    - ``work``: -> Work; left out: each array is moved once;
    - ``tests``, ``benchmarks``: shapes that are tested and timed, the latter also for each element type;
    - ``weights``: shape -> how often it runs beside the other timed shapes, such as launches a training step; verdicts
      then have the total of each build. Shapes that are left out count for nothing;
    - ``folder``: of the kernels' files; left out: that of the file which declares the family;
    - ``valid``: sizes -> whether the kernels take such a shape, such as ``lambda n: n % 32 == 0``. Corner cases and
      random shapes are moved to the nearest valid ones;
    - ``fits``: -> a sentence that says why a shape is invalid, or None;
    - ``serial_seconds``: -> about how long the serial variant takes, from measured rates;
    - ``reference_case``: -> id of the case whose rate the others are held against, or nothing;
    - ``prints``: -> the host's own line, then those that a printing kernel must print;
    - ``ladder_shapes``: element type -> shapes of which a table shows every variant;
    - ``reached_shapes``: element type -> shapes of which a table shows the best variant.
    """

    name: str
    _: KW_ONLY
    sizes: tuple[str, ...]
    variants: tuple[Variant, ...]
    tests: tuple[Shape, ...]
    arrays: Callable[..., Mapping[str, DeclaredArray]] = lambda: {}
    reference: Callable[..., Any] = lambda: ()
    dtypes: tuple[str, ...] = ()
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    tolerance: Rule | Mapping[str, Rule] | Callable[..., Any] = Exact()  # noqa: RUF009  # frozen
    exact: bool = False
    deterministic: bool | None = None
    same_for: tuple[str, ...] = ()
    draw: Callable[..., Mapping[str, Any]] | None = None
    work: Callable[..., Work] | None = None
    benchmarks: Benchmarks = ()
    weights: Mapping[Shape, float] = field(default_factory=dict)
    folder: Path = field(default_factory=_folder_of_caller)
    valid: Callable[..., bool] | None = None
    fits: Callable[..., str | None] = lambda: None
    serial_seconds: Callable[..., float] = lambda: 0.0
    prints: Callable[..., list[str]] | None = None
    reference_case: Callable[..., str] = lambda: ""
    ladder_shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    reached_shapes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Family({self.name!r})"

    _repr_pretty_ = print_short

    @property
    def root(self) -> Path:
        """The folder that messages name files from: the loaded repository, or else two above the family."""
        holding = [root for root in _roots if self.folder.is_relative_to(root)]
        return max(holding, key=lambda root: len(root.parts), default=self.folder.parent.parent)

    def variant(self, name: str) -> Variant:
        """Return the variant of that name. Raises BadCase, which suggests the nearest name."""
        return pick(name, {v.name: v for v in self.variants}, f"variant of {self.name}")

    def given(self, shape: Shape, dtype: str, **more: Any) -> dict[str, Any]:
        """Return what functions of this declaration may take by name."""
        sizes = dict(zip(self.sizes, shape, strict=False))
        of_case = {"shape": shape, "sizes": sizes, "dtype": dtype, "itemsize": itemsize(dtype)}
        scalars = {name: scalar.rounded(dtype) for name, scalar in self.scalars.items()}
        return {**more, **of_case, **scalars, **sizes}

    def problem_of(self, shape: Shape, variant: Variant | None = None) -> str | None:
        """Say why a shape is invalid, by ``fits`` and ``valid``; None where it is not. ``variant``: by its own too."""
        if problem := call(self.fits, self.of_shape(shape)):
            return problem  # type: ignore[no-any-return]
        if self.is_valid(shape, variant):
            return None
        return describe(self.sizes, shape, nearest_valid(self, variant, shape))

    def is_valid(self, shape: Shape, variant: Variant | None = None) -> bool:
        """Tell whether ``valid`` of this family, and of a variant, takes a shape."""
        given = self.of_shape(shape)
        return all(call(valid, given) for valid in self.valid_of(variant))

    def valid_of(self, variant: Variant | None) -> tuple[Callable[..., bool], ...]:
        """Return the functions that say which shapes are valid for a variant."""
        return tuple(valid for valid in (self.valid, variant.valid if variant else None) if valid)

    def near(self, shape: Shape, variant: Variant | None = None) -> Shape | None:
        """Return a shape or, where ``valid`` refuses it, the nearest one that it takes; None if none is near."""
        return nearest_valid(self, variant, shape) if self.valid_of(variant) else shape

    def of_shape(self, shape: Shape) -> dict[str, Any]:
        """Return what functions may take by name that are asked about a shape alone."""
        sizes = dict(zip(self.sizes, shape, strict=False))
        return {"shape": shape, "sizes": sizes, **sizes}

    def refusal(self, shape: Shape, variant: Variant | None = None) -> str:
        """Say why a shape is not one of this family's, or of a variant's; empty where it is."""
        if len(shape) != len(self.sizes):
            return f"a shape of {self.name} is {'x'.join(self.sizes)}"
        pairs = zip(self.sizes, shape, strict=True)
        if bad := ", ".join(f"{name} = {size}" for name, size in pairs if not 1 <= size <= LARGEST_SIZE):
            return f"{bad} is not in 1..{LARGEST_SIZE:,}"
        return self.problem_of(shape, variant) or ""

    @functools.cached_property
    def own_type(self) -> str:
        """The element type in ids where ``dtypes`` is empty: that of the first result."""
        if self.prints:
            return NONE
        declared = call(self.arrays, self.given(self.tests[0], NONE))
        arrays = declared.values() if isinstance(declared, Mapping) else ()  # a rule finds other mistakes too
        return next((a.dtype for a in arrays if isinstance(a, DeclaredArray) and a.is_result), NONE)

    def dtypes_of(self, variant: Variant) -> tuple[str, ...]:
        return variant.dtypes or self.dtypes or (self.own_type,)

    def benchmarks_of(self, variant: Variant, dtype: str) -> tuple[Shape, ...]:
        if variant.benchmarks is None:
            return tuple(shape for shape in _for(dtype, self.benchmarks) if self.is_valid(shape, variant))
        return _for(dtype, variant.benchmarks)

    def tests_of(self, variant: Variant) -> tuple[Shape, ...]:
        """Return the tested shapes that a variant takes."""
        return tuple(shape for shape in self.tests if self.is_valid(shape, variant)) if variant.valid else self.tests

    def result_shape(self, shape: Shape) -> Shape:
        """Return the shape of the first result, of a family whose kernels do not print."""
        named = (dtype for variant in self.variants for dtype in variant.dtypes or ())
        dtype = next(dtype for dtype in (*self.dtypes, self.own_type, *named) if dtype in C_TYPES)
        return next(array.shape for array in arrays_of(self, shape, dtype) if array.is_result)


def _for(dtype: str, benchmarks: Benchmarks) -> tuple[Shape, ...]:
    return tuple(benchmarks.get(dtype, ())) if isinstance(benchmarks, Mapping) else tuple(benchmarks)


@functools.lru_cache(maxsize=2**14)
def nearest_valid(family: Family, variant: Variant | None, shape: Shape) -> Shape | None:
    """Return the shape nearest to another one that a family and a variant take, or None if none is near."""

    def is_valid(other: Shape) -> bool:
        return family.is_valid(other, variant) and not call(family.fits, family.of_shape(other))

    known = (other for other in family.tests if isinstance(other, tuple) and len(other) == len(shape))
    given = family.of_shape(shape)
    refusing: list[Callable[..., Any]] = [valid for valid in family.valid_of(variant) if not call(valid, given)]
    refusing += [family.fits] if call(family.fits, given) else []
    # A function that does not ask for a size refuses the shape whatever that size is.
    axes = [
        axis
        for axis, size in enumerate(family.sizes)
        if all(any(takes(refuses, name) for name in (size, "shape", "sizes")) for refuses in refusing)
    ]
    return nearest(shape, is_valid, filter(is_valid, known), axes)


@functools.lru_cache(maxsize=2**14)
def arrays_of(family: Family, shape: Shape, dtype: str) -> tuple[CaseArray, ...]:
    """Return the arrays of a family for a shape and element type, in the order of its declaration."""
    declared: Mapping[str, DeclaredArray] = call(family.arrays, family.given(shape, dtype))
    drawn: Mapping[str, Any] = {}
    if family.draw and any(array.shape is None for array in declared.values()):
        rng = np.random.default_rng(seeds(TIMED_SEED, shape))
        drawn = call(family.draw, family.given(shape, dtype, rng=rng, exact=False))
    return tuple(
        of_case(name, array, dtype, np.shape(drawn[name]) if array.shape is None else None)
        for name, array in declared.items()
    )


def seeds(seed: int, shape: Shape = ()) -> np.random.SeedSequence:
    """Return the seeds of inputs: the same in every run, but where ``draw_by`` has given this one a seed of its own."""
    return np.random.SeedSequence([*_run_seed, seed, *shape])


def run_seed() -> int | None:
    """Return the seed that ``draw_by`` has given this run, if it has one."""
    return _run_seed[0] if _run_seed else None


def is_drawn_by_run() -> bool:
    """Tell whether a run has given this process a seed of its own."""
    return bool(_run_seed)


def draw_by(run_seed: int | None) -> None:
    """Draw this process's inputs by the seed of a run besides their own seeds; None: by theirs alone."""
    _run_seed[:] = [] if run_seed is None else [run_seed]
    arrays_of.cache_clear()  # shapes may be drawn


def of_case(name: str, array: DeclaredArray, dtype: str, drawn: Shape | None = None) -> CaseArray:
    """Return a declared array with the element type of a case, where it has none, or with a shape that was drawn."""
    known = {"name": name, "shape": drawn or array.shape, "dtype": array.dtype or dtype}
    return CaseArray(**vars(array) | known, is_drawn=array.shape is None)


_families: dict[str, Family] = {}  # of the projects that this process has loaded
_roots: set[Path] = set()


def register(families: Iterable[Family], root: Path) -> None:
    """Make families known to this process by their names, and the folder of the repository that declares them."""
    _families.update((family.name, family) for family in families)
    _roots.add(root)


def registered(name: str) -> Family:
    """Return the family of that name. Raises LookupError where the project that this process loaded has none."""
    try:
        return _families[name]
    except KeyError:
        raise LookupError(f"this process has loaded no family named {name!r}") from None
