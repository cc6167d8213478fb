"""Describes each case as all pages name it: its verdict, time, rate and share."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.names import BadCase, split_id
from warpwatch.report.ladder import share
from warpwatch.report.site.material import Material
from warpwatch.runs.record import CaseRecord
from warpwatch.verdict.rule import Decision

HOST = "serial"
NOT_COMPARED = "not compared"
FAILED = "failed"
MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Holds a case of today's run, or one that is missing from it.

    ``verdict``: that of ``decision``, or why there is none. ``own_seconds``: the median without the fixed overhead of
    events. ``operations``, ``bytes``: the least work of a launch. ``share``: of the reference.
    """

    id: str
    page: str
    names: tuple[str, str, str, str, str]
    verdict: str
    seconds: float | None = None
    own_seconds: float | None = None
    timed: CaseRecord | None = None
    case: Case | None = None
    decision: Decision | None = None
    operations: int = 0
    bytes: int = 0
    share: float | None = None

    @property
    def family(self) -> str:
        return self.names[0]

    @property
    def variant(self) -> str:
        return self.names[1]

    @property
    def block(self) -> str:
        return self.names[2]

    @property
    def shape(self) -> str:
        return self.names[3]

    @property
    def dtype(self) -> str:
        return self.names[4]

    @property
    def on_host(self) -> bool:
        return self.verdict == HOST

    @property
    def is_library(self) -> bool:
        """True for a call, such as a vendor's library."""
        return self.case is not None and self.case.variant.call is not None

    @property
    def unit(self) -> str:
        return "Gop/s" if self.operations and self.dtype.startswith("int") else "GFLOP/s" if self.operations else "GB/s"

    @property
    def rate(self) -> float | None:
        """Rate in units a second (``unit``), or None where work or time is unknown."""
        work = self.operations or self.bytes
        return work / self.own_seconds / 1e9 if work and self.own_seconds else None

    @cached_property
    def ratio(self) -> float | None:
        """Time now over time before; None where the two were not compared."""
        compared = self.decision is not None and self.decision.ratio == self.decision.ratio  # not NaN
        return self.decision.ratio if self.decision and compared else None


def page_of(name: str) -> str:
    """Path of a case's page: its id where that is a plain file name."""
    plain = re.fullmatch(r"[\w-][\w.+-]{0,150}", name, re.ASCII)
    return f"c/{name if plain else f'{zlib.crc32(name.encode()):08x}'}.html"


def names_of(name: str) -> tuple[str, str, str, str, str]:
    """Parts of an id; one that is of another form is a variant of no family."""
    try:
        return split_id(name)
    except BadCase:
        return "other", name, "", "", ""


def entries(material: Material) -> list[Entry]:
    """List the cases of today's run, those that failed in it and those that are missing, in the catalogue's order."""
    today = material.today
    order = {name: i for i, name in enumerate(material.cases)}
    names = dict.fromkeys([*today.cases, *today.failed, *material.verdicts.missing])
    found = [_entry(material, name) for name in names]
    return sorted(found, key=lambda entry: (order.get(entry.id, len(order)), entry.id))


def _entry(material: Material, name: str) -> Entry:
    timed, case = material.today.cases.get(name), material.cases.get(name)
    decision = material.verdicts.decisions.get(name)
    facts = timed.facts if timed else None
    if name in material.today.failed:
        verdict = FAILED
    elif facts is None:
        verdict = MISSING
    elif facts.cache == "host":
        verdict = HOST
    else:
        verdict = str(decision.verdict) if decision else NOT_COMPARED
    work = case.work if case else facts
    return Entry(
        id=name,
        page=page_of(name),
        names=names_of(name),
        verdict=verdict,
        seconds=material.medians.get(name),
        own_seconds=material.kernel_times.get(name),
        timed=timed,
        case=case,
        decision=decision,
        operations=work.operations if work else 0,
        bytes=work.bytes if work else 0,
        share=share(material.cases, case, material.kernel_times) if case else None,
    )


def of_family(found: Sequence[Entry], family: str, dtype: str = "") -> list[Entry]:
    """Select the measured cases of a family, and of an element type."""
    return [e for e in found if e.family == family and e.seconds and dtype in ("", e.dtype)]
