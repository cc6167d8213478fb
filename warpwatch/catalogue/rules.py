"""Rules for the declarations of families, and what those for variants (variant_rules.py) share with them.

A rule belongs to a field and yields checks: a test, and the sentence that holds where it fails. Checks are made one
after the other, as far as the first that fails, so each may rely on those before it. Rules are asked in the order of
the table at the end, and each relies on those before it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import DeclaredArray, Role, Scalar, Shape
from warpwatch.catalogue.cases import Case, Checks, case_of
from warpwatch.catalogue.declaration import LARGEST_SIZE, LARGEST_WEIGHT, Family, arrays_of, is_drawn_by_run
from warpwatch.catalogue.elements import C_TYPES, NONE, is_float, no_word, word_of
from warpwatch.catalogue.inputs import own_inputs, random_inputs
from warpwatch.catalogue.launches import Work
from warpwatch.catalogue.named_arguments import call
from warpwatch.catalogue.names import size_name
from warpwatch.catalogue.pipes import PIPES
from warpwatch.catalogue.same_for import smaller_shapes
from warpwatch.catalogue.variants import Variant

NAME = r"[a-z][a-z0-9_]*"
TYPES = [name for name in C_TYPES if name != NONE]
# What functions of a declaration are given besides the sizes and arrays, which therefore cannot have these names.
RESERVED = {"shape", "sizes", "dtype", "itemsize", "part", "magnitudes", "rng", "exact", "at", "padding", "stream"}
NO_SIZES = RESERVED | {"block", "configuration", "index", "offset"}  # which functions ask for beside the sizes
DRAWS = range(3)  # seeds of draws that must differ
FACTOR = 1000  # times the plausible work is a mistake, not a heavier kernel
# Operations per second that no core reaches: two units of sixteen fused float32 operations at 5 GHz make 3e11.
CORE = 1e12


def within(words: str, checks: Checks) -> Checks:
    """Put words before the sentences of checks."""
    return ((holds, f"{words} {sentence}") for holds, sentence in checks)


def at(shape: Shape, dtype: str) -> str:
    return f"at {size_name(shape)}, {dtype},"


def is_count(value: object, least: int = 1) -> bool:
    """Tell whether a value is a whole number that is large enough."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier()


def taken_name(taken: Iterable[str]) -> str:
    return f"which is not a name or stands for something else too: {_another(taken)}"


def _another(taken: Iterable[str]) -> str:
    return f"choose a name other than {', '.join(sorted(taken))}"


def name_rule(declared: Family | Variant) -> Checks:
    name = declared.name
    yield (
        isinstance(name, str) and re.fullmatch(NAME, name, re.ASCII),
        f"is {name!r}: a name has lower-case letters, digits and _ alone, because case ids are split at '-'",
    )


def _folder(family: Family) -> Checks:
    yield (
        isinstance(family.folder, Path) and family.folder.is_dir(),
        f"is {str(family.folder)!r}, which is not a folder: give Path(__file__).parent",
    )


def _sizes(family: Family) -> Checks:
    sizes = family.sizes
    yield (
        isinstance(sizes, tuple) and sizes and all(isinstance(size, str) and size for size in sizes),
        f"is {sizes!r}: give a tuple of names, such as ('m', 'n')",
    )
    for size in sorted(sizes):
        yield size not in NO_SIZES, f"has {size!r}, by which functions ask for something else: {_another(NO_SIZES)}"
    yield len(set(sizes)) == len(sizes), f"is {sizes!r}, which names a size twice"


def _scalars(family: Family) -> Checks:
    taken = {*family.sizes, *NO_SIZES}
    for name, scalar in family.scalars.items():
        yield (
            isinstance(scalar, Scalar) and scalar.dtype in ("", *TYPES),
            f"has {name!r} = {scalar!r}: give a Scalar of a value and a type, such as Scalar(1e-5, 'float32')",
        )
        yield is_name(name) and name not in taken, f"has {name!r}, {taken_name(taken)}"


def valid_rule(family: Family, variant: Variant | None = None) -> Checks:
    """Check what ``valid`` returns and, of a variant's own, that it leaves shapes that are tested and timed."""
    valid = variant.valid if variant else family.valid
    if valid is None:
        return
    value = call(valid, family.of_shape((1,) * len(family.sizes)))
    yield isinstance(value, bool | np.bool_), f"returns {value!r}: give True or False, as `lambda n: n % 32 == 0` does"
    if variant:
        cure = "give a shape that it takes"
        yield family.tests_of(variant), f"takes none of the tested shapes: {cure} to `tests`"
        for dtype in family.dtypes_of(variant) if variant.benchmarks is None else ():
            timed = family.benchmarks_of(replace(variant, valid=None), dtype)
            yield (
                not timed or family.benchmarks_of(variant, dtype),
                f"takes none of the timed shapes: {cure} to `benchmarks`",
            )


def _fits(family: Family) -> Checks:
    problem = call(family.fits, family.of_shape((1,) * len(family.sizes)))
    yield problem is None or isinstance(problem, str), f"returns {problem!r}: give a sentence, or None"


def _variants(family: Family) -> Checks:
    variants = family.variants
    yield isinstance(variants, tuple) and variants, "is empty or not a tuple: a family needs at least one variant"
    for variant in variants:
        yield (
            isinstance(variant, Variant),
            f"holds {variant!r}, which is not a Variant: make it by kernel(), call() or serial()",
        )


def dtypes_rule(dtypes: Any) -> Checks:
    yield isinstance(dtypes, tuple), f"is {dtypes!r}: give a tuple of element types, such as ('float32',)"
    for dtype in dtypes:
        yield dtype in TYPES, f"has {dtype!r}, which is not an element type; there are {', '.join(TYPES)}"
    yield len(set(dtypes)) == len(dtypes), f"names an element type twice: {', '.join(dtypes)}"


def _shapes(family: Family, shapes: tuple[Shape, ...], variant: Variant | None = None) -> Checks:
    count = len(family.sizes)
    cure = f"a tuple of {count} ({', '.join(family.sizes)}) whole numbers from 1 to {LARGEST_SIZE:,}"
    yield isinstance(shapes, tuple), f"has {shapes!r} where a tuple of shapes is due"
    for i, shape in enumerate(shapes):
        are_sizes = isinstance(shape, tuple) and all(isinstance(n, int) and is_count(n) for n in shape)
        yield are_sizes and len(shape) == count and max(shape) <= LARGEST_SIZE, f"has {shape!r}: a shape is {cure}"
        yield not (problem := family.problem_of(shape, variant)), f"has {shape!r}: {problem}"
        yield shape not in shapes[:i], f"has {shape!r} twice"


def _tests(family: Family) -> Checks:
    yield from _shapes(family, family.tests)
    yield family.tests, "is empty: nothing is tested"


def benchmarks_rule(family: Family, variant: Variant | None = None) -> Checks:
    benchmarks = (variant.benchmarks or ()) if variant else family.benchmarks
    for dtype, shapes in benchmarks.items() if isinstance(benchmarks, Mapping) else [("", benchmarks)]:
        if dtype:
            known = TYPES if variant else types(family)
            yield dtype in known, f"has shapes for {dtype!r}, which is none of the element types {', '.join(known)}"
        yield from _shapes(family, shapes, variant)


def _weights(family: Family) -> Checks:
    weights = family.weights
    yield isinstance(weights, Mapping), f"is {weights!r}: give how often each shape runs, such as {{(1024, 512): 24}}"
    if not weights:
        return
    kinds = [(variant, dtype) for variant in family.variants for dtype in family.dtypes_of(variant)]
    timed = {shape for kind in kinds for shape in family.benchmarks_of(*kind)}
    for shape, weight in weights.items():
        yield shape in timed, f"has {shape!r}, which `benchmarks` does not: give weights of timed shapes"
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        cure = f"give a number above 0, and at most {LARGEST_WEIGHT:.0e}"
        yield is_number and 0 < weight <= LARGEST_WEIGHT, f"of {shape!r} is {weight!r}: {cure}"


def _arrays(family: Family) -> Checks:
    for shape in _every_shape(family):
        declared, words = call(family.arrays, family.given(shape, next(iter(types(family)), NONE))), size_name(shape)
        yield (
            isinstance(declared, Mapping),
            f"of {words} is {declared!r}: give a name and In, Out, InOut or Scratch for each",
        )
        for name, array in declared.items():
            yield from within(f"of {words} has {name!r}", _array(family, name, array))
        yield (
            family.prints or any(array.is_result for array in declared.values()),
            "has no Out or InOut, and prints is None: a kernel writes a result or prints lines",
        )


def _array(family: Family, name: object, array: Any) -> Checks:
    yield isinstance(array, DeclaredArray), f"= {array!r}: declare it by In, Out, InOut or Scratch"
    yield is_name(name), "as a name: functions ask for arrays by name, so it must be one"
    shape, dtype, taken = array.shape, array.dtype, {*family.sizes, *family.scalars, *RESERVED}
    yield name not in taken, f"as a name, which stands for something else too: {_another(taken)}"
    yield (
        shape is not None or (family.draw and array.is_input),
        "without a shape: give it one, or let `draw` make an input",
    )
    is_shape = isinstance(shape, tuple) and shape and all(isinstance(each, int) and each > 0 for each in shape)
    yield shape is None or is_shape, f"of shape {shape!r}: a shape is one or more sizes above 0"
    yield (
        dtype or family.dtypes or family.prints or all(variant.dtypes for variant in family.variants),
        "without an element type, and the family has no `dtypes`: give one of them, such as 'float32'",
    )
    yield dtype in ("", *C_TYPES), f"of type {dtype!r}, which does not exist"
    yield from initial_rule(array, [dtype] if dtype else types(family))


def initial_rule(array: DeclaredArray, dtypes: Iterable[str]) -> Checks:
    if callable(array.initial):
        yield array.role is Role.SCRATCH, "with initial= a function: give a number, or declare it InOut and use `draw`"
        return
    if array.initial is None:
        return
    for dtype in dtypes:
        yield word_of(array.initial, dtype) is not None, f"which {no_word(array.initial, dtype)}"


def _every_shape(family: Family) -> list[Shape]:
    """List every shape that the family names, and the shape of ones, where even a small error of a formula shows."""
    # Its own `valid` is left out: an error in that is a fault of the variant, not of the family.
    own = [replace(variant, valid=None) for variant in family.variants if variant.benchmarks is None]
    timed = (shape for dtype, v in product(types(family), own) for shape in family.benchmarks_of(v, dtype))
    shapes = dict.fromkeys([(1,) * len(family.sizes), *family.tests, *timed])
    return [shape for shape in shapes if family.is_valid(shape) and not family.problem_of(shape)]


def types(family: Family) -> list[str]:
    """List the valid element types of its cases; an invalid one is a fault of its variant."""
    given = (variant.dtypes or family.dtypes for variant in family.variants)
    named = chain.from_iterable(each if isinstance(each, tuple) and each else (family.own_type,) for each in given)
    return [name for name in dict.fromkeys(named) if name in C_TYPES and (name != NONE or bool(family.prints))]


def types_of_results(family: Family) -> list[str]:
    return [] if family.prints else types(family)


def _serial_seconds(family: Family) -> Checks:
    for shape in _every_shape(family):
        seconds = call(family.serial_seconds, family.given(shape, types(family)[0]))
        yield (
            isinstance(seconds, int | float) and 0 <= seconds < float("inf"),
            f"of {size_name(shape)} is {seconds!r}: give a time in seconds",
        )


def _work(family: Family) -> Checks:
    for shape, dtype in product(_every_shape(family), types(family)):
        yield from within(at(shape, dtype), work_checks(family, shape, dtype))


def work_checks(family: Family, shape: Shape, dtype: str) -> Checks:
    """Check the work that is declared for a shape.

    Every element of inputs and results is moved at least once, so fewer bytes are a mistake. The plausible number of
    operations is the product of the sizes (matrix products, anything with a number of steps), or that of the elements
    of the result and of the smallest input (convolutions, sums over all pairs), whichever is larger. FACTOR times
    that number is a mistake. Where the family says how long one core takes (``serial_seconds``), that core must be able
    to do the operations.
    """
    work, arrays = case_of(family, shape, dtype).work, arrays_of(family, shape, dtype)
    yield isinstance(work, Work), f"is {work!r}: give Work(operations, bytes)"
    for name in ("operations", "bytes"):
        value = getattr(work, name)
        yield is_count(value, 0), f"says {name} = {value!r}: give a whole number from 0 on"
    yield work.pipe in ("", *PIPES), f"says pipe = {work.pipe!r}: give one of {', '.join(PIPES)}, or leave it out"
    moved, done = f"says bytes = {work.bytes:,}", f"says operations = {work.operations:,}"
    held = sum(array.nbytes for array in arrays if array.is_input or array.is_result)
    each = " + ".join(f"{array.nbytes:,} ({array.name})" for array in arrays if array.is_input or array.is_result)
    yield work.bytes >= held, f"{moved}; its arrays hold {held:,} = {each}, and each is moved once at least"
    yield work.bytes <= FACTOR * held, f"{moved}, over {FACTOR:,} times the {held:,} that its arrays hold"
    result = max((array.size for array in arrays if array.is_result), default=1)
    least = min((array.size for array in arrays if array.is_input), default=1)
    plausible = max(1, prod(shape), result * least, *(array.size for array in arrays))
    yield work.operations <= FACTOR * plausible, f"{done}, over {FACTOR:,} times the plausible {plausible:,}"
    if (seconds := call(family.serial_seconds, family.given(shape, "none"))) > 0:
        rate = work.operations / seconds
        yield rate <= CORE, f"{done}, {rate:.1e} a second for one core by serial_seconds; none does {CORE:.0e}"


def deterministic_rule(declared: Family | Variant) -> Checks:
    yield (
        declared.deterministic is None or isinstance(declared.deterministic, bool),
        f"is {declared.deterministic!r}: give True where the same bits are required, False where they may differ",
    )


def same_for_rule(family: Family, variant: Variant | None = None) -> Checks:
    """Check the sizes of ``same_for``: results have to grow along each, and nothing may shrink."""
    given = family.same_for if variant is None else variant.same_for
    if given is None:
        return
    yield isinstance(given, tuple), f"is {given!r}: give a tuple of sizes, such as ({family.sizes[0]!r},)"
    for size in given:
        yield size in family.sizes, f"has {size!r}, which is not a size; there are {', '.join(family.sizes)}"
        pair = of_two_sizes(family, size, variant)
        yield pair, f"has {size!r}, of which no tested shape has a smaller valid value: test a shape with more of it"
        if pair:
            yield from within(f"has {size!r},", growth(family, *pair))


def of_two_sizes(family: Family, size: str, variant: Variant | None = None) -> tuple[Shape, Shape] | None:
    """Return the smallest tested shape of which there is one with less of a size, and that one; None without any."""
    dtype = next(iter(types(family)), NONE)
    shapes = sorted(family.tests, key=lambda shape: sum(array.size for array in arrays_of(family, shape, dtype)))
    pairs = ((shape, smaller) for shape in shapes for smaller in smaller_shapes(family, shape, size, variant))
    return next(pairs, None)


def growth(family: Family, shape: Shape, smaller: Shape) -> Checks:
    arrays, others = (arrays_of(family, each, next(iter(types(family)), NONE)) for each in (shape, smaller))
    grows = False
    for array, other in zip(arrays, others, strict=True):
        yield not array.is_drawn, f"but {array.name} has its shape from `draw`: declare the shape"
        is_part = len(array.shape) == len(other.shape) and all(map(int.__ge__, array.shape, other.shape))
        yield is_part, f"but {array.name} is {array.shape} for {size_name(shape)} and {other.shape} for less of it"
        grows = grows or (array.is_result and array.shape != other.shape)
    yield (
        grows,
        "along which no result grows: name sizes that the first rows of a result do not depend on",
    )


def _draw(family: Family) -> Checks:
    kinds = product(types_of_results(family), (False, True), family.tests) if family.draw else ()
    for dtype, exact, shape in kinds:
        yield from within(at(shape, dtype), _drawn(family, shape, dtype, exact))
    for dtype in types_of_results(family) if family.draw and is_drawn_by_run() else ():
        shape = max(family.tests, key=prod)
        yield from within(at(shape, dtype), _differ(case_of(family, shape, dtype)))


def _differ(case: Case) -> Checks:
    """Check that draws differ, where nobody may know inputs beforehand: a kernel could know the results too.

    A draw may make an array that is always the same, such as offsets of rows, but not all that it makes of floats.
    """
    draws = [random_inputs(case, seed) for seed in DRAWS]
    same = {
        name for name, array in draws[0].items() if all(other[name].tobytes() == array.tobytes() for other in draws)
    }
    own = own_inputs(case, DRAWS[0], exact=False)
    has_floats = any(is_float(array.dtype) for array in own.values())
    yield (
        not same.issuperset(draws[0]) and not (has_floats and same.issuperset(own)),
        f"returns the same {', '.join(own)} for every seed of `rng`: take the numbers from `rng`",
    )


def _drawn(family: Family, shape: Shape, dtype: str, exact: bool) -> Checks:
    assert family.draw
    given = family.given(shape, dtype)
    drawn = call(family.draw, given | {"rng": np.random.default_rng(0), "exact": exact})
    inputs = {name: array for name, array in call(family.arrays, given).items() if array.is_input}
    yield isinstance(drawn, Mapping), f"returns {type(drawn).__name__}: give arrays by name"
    for name in drawn:
        yield name in inputs, f"returns {name!r}, which is not an input; there are {', '.join(inputs)}"
    for name, array in inputs.items():
        if name in drawn:
            shape = np.shape(drawn[name])
            fits = array.shape in (None, shape)
            yield fits, f"returns {name!r} of shape {shape}; it is declared as {array.shape}"
        yield name in drawn or array.shape, f"leaves out {name!r}, which is declared without a shape"


FAMILY_RULES: Mapping[str, Callable[[Family], Checks]] = {
    "name": name_rule,
    "folder": _folder,
    "sizes": _sizes,
    "scalars": _scalars,
    "fits": _fits,
    "valid": valid_rule,
    "variants": _variants,
    "dtypes": lambda family: dtypes_rule(family.dtypes),
    "tests": _tests,
    "benchmarks": benchmarks_rule,
    "weights": _weights,
    "arrays": _arrays,
    "draw": _draw,
    "deterministic": deterministic_rule,
    "same_for": same_for_rule,
    "serial_seconds": _serial_seconds,
    "work": _work,
}
