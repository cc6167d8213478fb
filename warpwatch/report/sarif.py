"""Makes SARIF of the failures of a run: faults with their lines, errors of compilers, wrong results, and all others.

SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html) is what code hosts show beside the lines
of a pull request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from warpwatch import __version__
from warpwatch.runs.faults import Fault, Place, sentence

Found = tuple[Fault, tuple[str, ...]]  # a fault, and the tests that found it


def document(faults: Sequence[Found], root: Path) -> Mapping[str, Any]:
    """Return a SARIF document with a result for each fault.

    ``root``: the repository's folder. Paths in it are relative, as code hosts want them.
    """
    rules = sorted({fault.kind for fault, _ in faults})
    driver = {
        "name": "warpwatch",
        "version": __version__,
        "rules": [{"id": _identifier(rule), "shortDescription": {"text": rule}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "results": [_result(fault, root) for fault in faults],
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _identifier(rule: str) -> str:
    return re.sub(r"\W+", "-", rule).strip("-")


def _result(found: Found, root: Path) -> Mapping[str, Any]:
    fault, tests = found
    others = [_location(place, root) | {"message": {"text": place.message}} for place in fault.others]
    return {
        "ruleId": _identifier(fault.kind),
        "level": "error",
        "message": {"text": sentence(fault, tests)},
        "locations": [_location(fault.place, root)],
        "relatedLocations": [{"id": number} | other for number, other in enumerate(others, 1)],
    }


def _location(place: Place, root: Path) -> dict[str, Any]:
    path = Path(place.file)
    if path.is_absolute() and path.is_relative_to(root):
        path = path.relative_to(root)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(1, place.line)}}}
