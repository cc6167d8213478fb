"""Contracts: limits on the rate, the time and the resources of a case, which a declaration or a file sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from warpwatch.catalogue.names import suggestion

LEAST = ("reference", "roof")  # shares, of which a case reaches as much at least
RESOURCES = ("registers", "local_bytes")
MOST = (*RESOURCES, "seconds")
RATES = ("seconds", *LEAST)
# The largest values that make sense: CUDA's own limits of a thread, the time after which a launch is stopped, and what
# a share of a reference may be before it is taken for a percentage.
LARGEST = {"registers": 255, "local_bytes": 2**19, "seconds": 10.0, "reference": 10.0, "roof": 1.0, "threshold": 1.0}
LEAST_COUNT = {"registers": 1, "local_bytes": 0}
RIGHT = {
    "registers": "a whole number from 1 to 255, of a thread",
    "local_bytes": "a whole number from 0 to 524,288, of a thread",
    "seconds": "a time of a launch in seconds, such as 50e-6",
    "reference": "a share of the reference's rate, such as 0.9",
    "roof": "a share of what the GPU can do, such as 0.6",
    "threshold": "a share of the time, such as 0.03",
}


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Limits of a case; None where nothing is limited.

    ``reference``, ``roof``: shares of the rate of the reference case, and of what the GPU can do, at least.
    ``registers``, ``local_bytes``: of a thread, at most. ``seconds``: of a launch, at most. ``threshold``: a share of
    the time, up to which a change is not called slower or faster.
    """

    reference: float | None = None
    roof: float | None = None
    registers: float | None = None
    local_bytes: float | None = None
    seconds: float | None = None
    threshold: float | None = None

    def limits(self, names: Iterable[str]) -> dict[str, float]:
        """Return those of these limits that are set."""
        return {name: limit for name in names if (limit := getattr(self, name)) is not None}

    def tighter(self, other: Contract) -> Contract:
        """Return the tighter one of both contracts' limits, each."""
        mine, theirs = asdict(self), asdict(other)
        both = {name: [each for each in (mine[name], theirs[name]) if each is not None] for name in mine}
        return Contract(**{n: (max if n in LEAST else min)(values) for n, values in both.items() if values})


NAMES = tuple(each.name for each in fields(Contract))


def declared(at_least: Any, at_most: Any, threshold: Any) -> Contract:
    """Return the contract that the fields of a declaration make. A bare ``at_least`` is a share of the reference."""
    least = at_least if isinstance(at_least, Mapping) else {"reference": at_least}
    return Contract(**least, **(at_most or {}), threshold=threshold)


def faults(limits: object, names: Iterable[str]) -> Iterable[tuple[object, str]]:
    """Yield checks of limits by name, each with the sentence that holds where it fails."""
    known = tuple(names)
    yield isinstance(limits, Mapping), f"is {limits!r}: give dict({', '.join(f'{name}=...' for name in known)})"
    for name, limit in limits.items() if isinstance(limits, Mapping) else ():
        yield name in known, f"has {name!r}, which is not a limit; {suggestion(str(name), known)}"
        yield _makes_sense(name, limit), f"has {name} = {limit!r}: give {RIGHT[name]}"


def _makes_sense(name: str, limit: Any) -> bool:
    if not isinstance(limit, int | float) or isinstance(limit, bool) or not 0 <= limit <= LARGEST[name]:
        return False
    return float(limit).is_integer() and limit >= LEAST_COUNT[name] if name in RESOURCES else limit > 0
