"""Paths of the repository that these tests belong to, and its kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from warpwatch.catalogue.project import load_project

ROOT = Path(__file__).resolve().parent.parent
PROJECT = load_project(ROOT, "kernels")
EARLIER = ROOT / "bench" / "recordings" / "tuning" / "baselines"  # baselines of November 2026, before fresh work


@contextmanager
def importing_apart(package: str) -> Iterator[None]:
    """Hide what other tests have imported of a package's name, and forget what is imported inside."""

    def taken_out() -> dict[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == package}

    hidden, path = taken_out(), [*sys.path]
    try:
        yield
    finally:
        taken_out()
        sys.modules.update(hidden)
        sys.path[:] = path
