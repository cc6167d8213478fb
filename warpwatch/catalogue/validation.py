"""Checks the declarations of families before anything is compiled or run.

A declaration with a mistake costs its own family or variant: it is left out of every list of cases, and a test of its
own fails instead, with one sentence that names family, variant and field. The others run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from warpwatch.catalogue.argument_words import BadArguments
from warpwatch.catalogue.cases import Checks, find_case, first_fault
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.named_arguments import BadFunction, call
from warpwatch.catalogue.names import BadCase, split_id
from warpwatch.catalogue.reference_rules import COMPUTED_RULES
from warpwatch.catalogue.rules import FAMILY_RULES, types
from warpwatch.catalogue.variant_rules import VARIANT_RULES
from warpwatch.catalogue.variants import Variant


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A mistake in one field of a declaration. ``variant`` is empty where the field is the family's own."""

    family: str
    variant: str = ""
    field: str
    fault: str

    @property
    def id(self) -> str:
        return f"{self.family}-{self.variant}" if self.variant else self.family

    def __str__(self) -> str:
        variant = f", variant {self.variant}" if self.variant else ""
        return f"family {self.family}{variant}: {self.field} {self.fault}"


def problems(families: Iterable[Family]) -> tuple[Problem, ...]:
    """List the first mistake of each family, and of each variant of a family without one.

    ``families``: all that there are, because the reference case of one may belong to another.
    """
    every = tuple(families)
    faults = _inspect(every)[1]
    wrong = {problem.family for problem in faults if not problem.variant}
    references = (_reference_case_fault(family, every) for family in every if family.name not in wrong)
    return (*faults, *filter(None, references))


def sound(families: Iterable[Family]) -> tuple[tuple[Family, Variant], ...]:
    """List every variant whose declaration, and whose family's, has no mistake."""
    return _inspect(tuple(families))[0]


def require(families: Iterable[Family], case_id: str) -> None:
    """Raise BadCase where the family or the variant that a case id names is declared with a mistake."""
    family, variant, *_ = split_id(case_id)
    for problem in problems(families):
        if problem.family == family and problem.variant in ("", variant):
            raise BadCase(f"{case_id}: {problem}")


@functools.cache
def _inspect(families: tuple[Family, ...]) -> tuple[tuple[tuple[Family, Variant], ...], tuple[Problem, ...]]:
    good: list[tuple[Family, Variant]] = []
    bad: list[Problem] = []
    for i, family in enumerate(families):
        if fault := _twice(family, families[:i]) or _fault_of(family):
            bad.append(Problem(family=str(family.name), field=fault[0], fault=fault[1]))
            continue
        for j, (variant, own_fault) in enumerate(zip(family.variants, _faults_of_variants(family), strict=True)):
            if fault := _twice(variant, family.variants[:j]) or own_fault:
                bad.append(Problem(family=family.name, variant=str(variant.name), field=fault[0], fault=fault[1]))
            else:
                good.append((family, variant))
    return tuple(good), tuple(bad)


@functools.cache  # by family, because most families are the same when one of them changes
def _fault_of(family: Family) -> tuple[str, str] | None:
    return declared_fault(family) or computed_by[0](family)


@functools.cache
def declared_fault(family: Family) -> tuple[str, str] | None:
    """Return field and fault of what a family declares, before its reference computes anything; or None."""
    return _first_fault(FAMILY_RULES, family)


def computed_fault(family: Family) -> tuple[str, str] | None:
    """Return field and fault of what a family's reference and tolerance compute on small numbers, or None."""
    return _first_fault(COMPUTED_RULES, family)


computed_by: list[Callable[[Family], tuple[str, str] | None]] = [computed_fault]  # a run asks its worker process


@functools.cache
def _faults_of_variants(family: Family) -> tuple[tuple[str, str] | None, ...]:
    return tuple(_first_fault(VARIANT_RULES, family, variant) for variant in family.variants)


def _twice(declared: Family | Variant, before: Sequence[Family | Variant]) -> tuple[str, str] | None:
    if declared.name not in [other.name for other in before]:
        return None
    kind = "family" if isinstance(declared, Family) else "variant"
    return "name", f"is that of another {kind} too, which is used; give this one a name of its own"


def _first_fault(rules: Mapping[str, Callable[..., Checks]], *declared: object) -> tuple[str, str] | None:
    """Return field and fault of the first rule that is broken; later rules rely on earlier ones."""
    for field, rule in rules.items():
        try:
            fault = first_fault(rule(*declared))
        except (BadFunction, BadArguments, BadCase) as error:  # these messages are sentences
            fault = f"cannot be used: {error}"
        except Exception as error:  # a declaration's own function may raise anything
            fault = f"cannot be used: {type(error).__name__}: {error}"
        if fault:
            return field, fault
    return None


@functools.cache
def _reference_case_fault(family: Family, families: tuple[Family, ...]) -> Problem | None:
    """Return the fault of a reference case that no family has. The family runs all the same, without shares."""
    try:
        for dtype in types(family):
            shapes = family.benchmarks.get(dtype, ()) if isinstance(family.benchmarks, Mapping) else family.benchmarks
            for case_id in {call(family.reference_case, family.given(shape, dtype)) for shape in shapes} - {""}:
                find_case(families, case_id)
    except Exception as error:  # from the declaration's function, or from another family that has a mistake
        return Problem(family=family.name, field="reference_case", fault=f"names no case: {error}")
    return None
