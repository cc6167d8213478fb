"""Finds the baselines that --baseline names, in place of those of the repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from warpwatch.catalogue.project import Project
from warpwatch.devices.compile.compiler import CompileError, private_folder
from warpwatch.plugin.options import spelled, value_of
from warpwatch.runs.elsewhere import fetch_baselines
from warpwatch.runs.record import BadRun


def baselines_of(config: pytest.Config, project: Project, slug: str, say: Callable[[str], None]) -> Path:
    """Return the folder of baselines, with a folder for each GPU. Raises UsageError where it cannot be read.

    ``say``: is told where they come from, since the folder may hold copies.
    """
    where = value_of(config, "baseline")
    if not where:
        return project.baselines
    say(f"baselines are taken from {where}")
    try:
        return fetch_baselines(where, slug, private_folder("baselines"))
    except (BadRun, CompileError, OSError) as error:
        raise pytest.UsageError(f"{spelled(config, 'baseline')}: {error}") from None
