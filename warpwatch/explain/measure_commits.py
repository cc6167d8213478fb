"""Measures two commits' machine codes of a case side by side, in fresh processes, as ``--against`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from warpwatch.catalogue.cases import Case
from warpwatch.compare.comparison import load_in_background
from warpwatch.compare.pairs import Pair, PairComparison
from warpwatch.devices.check import WrongResult
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Kernel, Worker
from warpwatch.revision.commit import CommitCase
from warpwatch.timing.measurement import Again, Measured
from warpwatch.timing.sampling import get_ready
from warpwatch.timing.side_by_side import OtherSideFailed
from warpwatch.verdict.rule import MIN_PROCESSES, Decision


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Holds two codes of a case that are to be compared."""

    case: Case
    old: CommitCase
    new: CommitCase


@dataclass(frozen=True)
class Failed:
    """Says that a side cannot be measured, such as one whose results are wrong. ``is_new``: which."""

    is_new: bool
    reason: str


def measure(
    asked: Mapping[str, Asked], worker: Worker, *, cold: bool, progress: Callable[[int, int], None]
) -> dict[str, Decision | Failed]:
    """Compare pairs of codes, all in the same processes. Raises DeviceError where no device answers."""
    found: dict[str, Decision | Failed] = {}
    comparison = PairComparison()
    worker.renew()
    worker.open_spares(MIN_PROCESSES, get_ready, "cold" if cold else "warm")
    load_in_background()
    worker.await_spares()
    for name, each in asked.items():
        pair = _pair(each, worker, cold)
        try:
            pair.take(0)
            comparison.pairs[name] = pair
        except OtherSideFailed as error:
            found[name] = Failed(False, _first_line(error))
        except (DeviceError, WrongResult) as error:
            found[name] = Failed(True, _first_line(error))
        progress(len(found) + len(comparison.pairs), len(asked))
    again = Again(cold, progress, {})
    if comparison.pairs:
        found |= comparison.decide(again)
        found |= {name: Failed(True, why) for name, why in again.broken.items()}
    return found


def _pair(asked: Asked, worker: Worker, cold: bool) -> Pair:
    old, new = asked.old.image, asked.new.image
    assert isinstance(old, Image)
    assert isinstance(new, Image)
    kernel = Kernel(worker=worker, build=asked.case.build, image=new)
    measured = Measured(kernel=kernel, case=asked.case, kind="cold" if cold else "warm")
    return Pair(measured=measured, other=asked.old.other, other_image=old.path, image=new.path, newer=asked.new.other)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
