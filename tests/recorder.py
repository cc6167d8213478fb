"""Records baselines with a fake GPU, for tests of `warpwatch baseline record`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import Bench
from tests.project import PROJECT
from warpwatch.cli import baseline_record

# Each process of a recording imitates a GPU of its own settings, by how many runs are saved when it starts.
PLAYS = """
import json, os
from pathlib import Path
saved = len(list(Path(".benchmarks").rglob("*_baseline-*.json")))
os.environ["FAKE_GPU"] = json.dumps(json.loads(os.environ["PLAYS"])[saved])
"""


class Recorder:
    """A checkout whose recordings find a fake GPU: pytest itself adds the plugin, by PYTEST_ADDOPTS."""

    def __init__(self, bench: Bench, plays: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Prepare recordings in the checkout of ``bench``. ``plays``: a folder to be made, outside of it."""
        self.bench, self._monkeypatch = bench, monkeypatch
        plays.mkdir()
        (plays / "plays_of_runs.py").write_text(PLAYS)
        fake = "-p plays_of_runs -p tests.fake_gpu -p no:hypothesispytest"
        monkeypatch.setenv("PYTEST_ADDOPTS", f"{fake} --benchmark-min-rounds=5 --benchmark-max-time=0.000001")
        monkeypatch.setenv("PYTHONPATH", str(plays))
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
        monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        monkeypatch.setattr(baseline_record, "why_no_gpu", lambda: "")

    def play(self, *plays: dict[str, Any]) -> None:
        self._monkeypatch.setenv("PLAYS", json.dumps(plays))

    def record(self, count: int, keywords: str, *allowed: str) -> int:
        project = replace(PROJECT, root=self.bench.folder)
        return baseline_record.run(project, count=count, keywords=keywords, allowed=allowed)
