"""Determines whether saved runs serve to tune the rule or to score it, and refuses a mixture of both."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from warpwatch.runs.record import BadRun

NAMES = "purpose.toml"  # in a folder above the runs: what each folder of them is for
TUNING, SCORING, OWN = "tuning", "scoring", "neither"


def purpose_of(paths: Sequence[Path]) -> str:
    """Return what all of these runs are for: TUNING, SCORING, or OWN for runs outside of this suite's folders.

    Raises BadRun where they are not all for the same.
    """
    known = {path: _purpose(path) for path in paths}
    first = {purpose: path for path, purpose in reversed(known.items())}
    if len(first) > 1:
        each = " and ".join(f"{path} is for {purpose}" for purpose, path in sorted(first.items()))
        raise BadRun(
            f"{each}: figures on runs that the rule was tuned on are not figures on others; give runs of one kind "
            f"({NAMES} beside baselines/ and recordings/ says which is which)"
        )
    return next(iter(first), OWN)


def _purpose(path: Path) -> str:
    path = path.resolve()
    above = next((folder for folder in path.parents if (folder / NAMES).is_file()), None)
    if above is None:
        return OWN
    folders = tomllib.loads((above / NAMES).read_text())
    for purpose in (TUNING, SCORING):
        if any(path.is_relative_to(above / folder) for folder in folders[purpose]):
            return purpose
    raise BadRun(
        f"{path}: {above / NAMES} names its folder neither for tuning nor for scoring; add it to the one that it is for"
    )
