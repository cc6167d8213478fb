"""Registry of observers: what a run records beside its samples. Sampling asks it, and knows no observer by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from warpwatch.devices.runner import Loaded
from warpwatch.timing.observers.data import Data
from warpwatch.timing.observers.energy import Energy
from warpwatch.timing.observers.host import Host
from warpwatch.timing.observers.observer import Clock, Facts, Observer, Outside, Overhead
from warpwatch.timing.pair_samples import Sides

OBSERVERS: tuple[Observer, ...] = (Overhead(), Clock(), Outside(), Data(), Energy(), Host())
# Those that are asked for, by the name of their option.
BY_OPTION = {observer.option: observer for observer in OBSERVERS if observer.option}


def objection(asked: Collection[str]) -> str:
    """Say why this device cannot be observed as asked; empty where it can. ``asked``: options."""
    return next(filter(None, (BY_OPTION[option].objection() for option in asked)), "")


def constants(*, on_host: bool) -> dict[str, object]:
    """Return what is observed once in this process: of cases on the host, or of the others."""
    return _joined(observer.constants(on_host=on_host) for observer in OBSERVERS)


def begin() -> None:
    """Observe what is there before the first sample of a case."""
    for observer in OBSERVERS:
        observer.begin()


def look() -> None:
    """Observe what is there before and after some samples of a case."""
    for observer in OBSERVERS:
        observer.look()


def end() -> dict[str, object]:
    """Return what was observed up to the last sample."""
    return _joined(observer.end() for observer in OBSERVERS)


def launch(asked: Collection[str], copies: Sequence[Loaded]) -> dict[str, object]:
    """Return what observers that are asked for record by launches of their own."""
    return _joined(observer.launch(copies) for observer in _asked(asked, copies[0]))


def launch_sides(asked: Collection[str], both: Sequence[tuple[Loaded, Loaded]]) -> dict[str, Sides]:
    """Return the same of both sides of a pair."""
    return _joined(observer.launch_sides(both) for observer in _asked(asked, both[0][1]))


def release() -> None:
    """Have observers forget the prepared case."""
    for observer in OBSERVERS:
        observer.release()


def _asked(asked: Collection[str], loaded: Loaded) -> list[Observer]:
    return [observer for option in asked if not (observer := BY_OPTION[option]).leaves_out(loaded.case)]


def _joined(facts: Iterable[Facts]) -> dict[str, Any]:
    return {name: value for recorded in facts for name, value in recorded.items()}
