"""Checks whether a family's numbers are plausible: its work, and the results of its reference and bound."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from warpwatch.catalogue.declaration import ALL_ROWS, Array, Family, Shape, Work
from warpwatch.catalogue.names import size_name

FACTOR = 1000  # times the plausible work is a mistake, not a heavier kernel
# Operations per second that no core reaches: two units of sixteen fused float32 operations at 5 GHz make 3e11.
CORE = 1e12


def work_fault(family: Family, shape: Shape, dtype: str) -> str | None:
    """Return what is wrong with the work that is declared for a shape, or None.

    Every element of operands and result is moved at least once, so fewer bytes are a mistake. The plausible number of
    operations is the product of the sizes (matrix products, anything with a number of steps), or that of the elements
    of the result and of the smallest operand (convolutions, sums over all pairs), whichever is larger. FACTOR times
    that number is a mistake. Where the family says how long one core takes (``serial_seconds``), that core must be able
    to do the operations.
    """
    itemsize = 0 if dtype == "none" else np.dtype(dtype).itemsize
    work, where = family.work(shape, itemsize), _at(shape, dtype)
    if not isinstance(work, Work):
        return f"{where} is {work!r}: give Work(operations, bytes)"
    for name, value in (("operations", work.operations), ("bytes", work.bytes)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            return f"{where} says {name} = {value!r}: give a whole number from 0 on"
    sizes = array_sizes(family, shape)
    if fault := _bytes_fault(work.bytes, sum(sizes) * itemsize) or _operations_fault(family, shape, work, sizes):
        return f"{where} says {fault}"
    return None


def _bytes_fault(moved: int, held: int) -> str | None:
    if moved < held:
        return f"bytes = {moved:,}; its arrays hold {held:,}, and each is moved once at least"
    return (
        f"bytes = {moved:,}, over {FACTOR:,} times the {held:,} that its arrays hold" if moved > FACTOR * held else None
    )


def _operations_fault(family: Family, shape: Shape, work: Work, sizes: Sequence[int]) -> str | None:
    operands, result = (sizes[:-1], sizes[-1]) if family.result else (sizes, 1)
    plausible = max(prod(shape), result * min(operands, default=1))
    if work.operations > FACTOR * plausible:
        return f"operations = {work.operations:,}, over {FACTOR:,} times the plausible {plausible:,}"
    seconds = family.serial_seconds(shape)
    if seconds > 0 and work.operations / seconds > CORE:
        rate = f"{work.operations / seconds:.1e} a second for one core by serial_seconds"
        return f"operations = {work.operations:,}, {rate}; none does {CORE:.0e}"
    return None


def array_sizes(family: Family, shape: Shape) -> list[int]:
    """Return the number of elements of each operand, then of the result if there is one."""
    shapes = list(family.operands(shape).values())
    return [prod(each) for each in (*shapes, *([family.result(shape)[1]] if family.result else []))]


def reference_fault(family: Family, dtype: str) -> str | None:
    """Return what is wrong with the reference on small numbers, or None."""
    shape, operands = _small(family, dtype)
    return unlike_result(family, shape, dtype, family.reference(operands, ALL_ROWS))


def unlike_result(family: Family, shape: Shape, dtype: str, reference: object) -> str | None:
    """Return why a reference cannot be compared with the result, or None."""
    assert family.result
    _, wanted = family.result(shape)
    if not isinstance(reference, np.ndarray):
        return f"{_at(shape, dtype)} returns {type(reference).__name__}: give a NumPy array"
    if reference.shape != wanted:
        return f"{_at(shape, dtype)} returns shape {reference.shape}; the result's is {wanted}"
    exact = np.dtype(dtype)
    if reference.dtype != exact and not (exact.kind == "f" and reference.dtype in (np.float64, np.longdouble)):
        right = f"float64, or {dtype} where nothing is rounded" if exact.kind == "f" else dtype
        return f"{_at(shape, dtype)} returns {reference.dtype}: give {right}"
    return None


def bound_fault(family: Family, dtype: str) -> str | None:
    """Return what is wrong with the bound on small numbers, or None."""
    shape, operands = _small(family, dtype)
    bound = family.bound(operands, ALL_ROWS)
    if fault := unlike_bound(family, shape, dtype, bound):
        return fault
    values = np.asarray(bound, np.float64)
    if not (np.isfinite(values).all() and (values >= 0).all()):
        return f"{_at(shape, dtype)} holds values that are no errors: NaN, infinite or negative ones"
    if values.any() and family.work(shape, np.dtype(dtype).itemsize).operations == 0:
        return f"{_at(shape, dtype)} is above 0, though by `work` there are no operations that could round"
    return None


def unlike_bound(family: Family, shape: Shape, dtype: str, bound: object) -> str | None:
    """Return why a bound cannot be used for the result, or None."""
    assert family.result
    _, wanted = family.result(shape)
    if isinstance(bound, int | float) or (isinstance(bound, np.ndarray | np.number) and bound.shape in ((), wanted)):
        return None
    what = f"shape {bound.shape}" if isinstance(bound, np.ndarray) else repr(bound)
    return f"{_at(shape, dtype)} returns {what}: give a number, or one for each element of {wanted}"


def _at(shape: Shape, dtype: str) -> str:
    return f"at {size_name(shape)}, {dtype},"


def _small(family: Family, dtype: str) -> tuple[Shape, Sequence[Array]]:
    """Return the smallest tested shape, and its operands of small whole numbers, which are always the same."""
    shape = min(family.test_shapes, key=lambda shape: sum(array_sizes(family, shape)))
    rng = np.random.default_rng(0)
    return shape, tuple(rng.integers(-8, 9, size).astype(dtype) for size in family.operands(shape).values())
