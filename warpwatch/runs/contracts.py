"""The committed file of a GPU's limits, beside its baseline: ``<gpu>.contracts.json``, which ``ratchet`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from warpwatch.catalogue.contracts import NAMES, faults
from warpwatch.catalogue.launches import Capability, read_capability
from warpwatch.catalogue.names import suggestion
from warpwatch.runs.files import write_whole
from warpwatch.runs.record import BadRun, read_document

FORMAT = 1
ENDING = ".contracts.json"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of cases on a GPU model. ``capability``: such as 9.0. ``uuids``: of the GPUs that they were taken from.

    ``cases``: by id.
    """

    format: int = FORMAT
    capability: str = ""
    uuids: tuple[str, ...] = ()
    cases: Mapping[str, dict[str, int | float]] = field(default_factory=dict)

    @property
    def of_gpu(self) -> Capability | None:
        """The compute capability; None where it is none."""
        return read_capability(f"sm_{self.capability.replace('.', '')}")

    def of(self, case: str) -> Mapping[str, float]:
        """Return the limits of a case; none of one that the file does not have."""
        return self.cases.get(case, {})


def path_of(slug: str, folder: Path) -> Path:
    """Path of a GPU's limits, beside its baseline."""
    return folder / f"{slug}{ENDING}"


def read(path: Path) -> Limits:
    """Read a file of limits; there are none without a file. Raises BadRun where its contents are invalid."""
    if not path.exists():
        return Limits()
    document = read_document(path)
    try:
        limits = msgspec.convert(document, Limits)
    except msgspec.ValidationError as error:
        raise BadRun(f"{path}: is not a file of limits, as `warpwatch ratchet` writes it ({error})") from None
    known = [each.name for each in fields(Limits)]
    if other := next((name for name in document if name not in known), ""):
        raise BadRun(f"{path}: has {other!r}, which a file of limits does not; {suggestion(other, known)}")
    if limits.format != FORMAT:
        raise BadRun(
            f"{path}: has format {limits.format}, and this version of Warpwatch reads {FORMAT}: use a later one"
        )
    if limits.cases and not limits.of_gpu:
        raise BadRun(f"{path}: has capability {limits.capability!r}: give that of its GPU, such as 9.0")
    for case, own in limits.cases.items():
        if wrong := next((sentence for holds, sentence in faults(own, NAMES) if not holds), ""):
            raise BadRun(f"{path}: {case} {wrong}")
    return limits


def write(limits: Limits, path: Path) -> None:
    """Write limits, a line each case. Raises OSError."""
    about: dict[str, Any] = asdict(limits) | {"cases": None}
    head = json.dumps(about, indent=1).removesuffix("null\n}")
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(limits.cases[name])}" for name in sorted(limits.cases))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{head}{{\n{rows}\n }}\n}}\n")
