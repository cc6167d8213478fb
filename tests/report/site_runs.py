"""Makes saved runs for tests of the site: nights of the suite's own cases, with whatever a test needs to go wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tests.project import PROJECT
from tests.runs.identities import known
from warpwatch.catalogue.selection import timed_cases

FIRST = datetime(2026, 8, 1, 2, 20, tzinfo=UTC)
GPU = {
    "slug": "a-gpu",
    "name": "A GPU <&>",
    "uuid": "GPU-1",
    "driver": "580.1",
    "toolkit": "13.0",
    "cache": "cold",
    "peak_bytes_per_second": 4.8e12,
    "capability": "9.0",
    "multiprocessors": 132,
    "memory_bytes": 2**37,
    "l2_bytes": 60 * 2**20,
}


def case_ids(count: int) -> list[str]:
    """Return ids of the suite's cases, then of others of the same form."""
    cases = timed_cases(PROJECT.families)
    own = [case.id for case in cases if not case.variant.on_host]
    more = [name.replace("-float32", "-float16") for name in own if name.endswith("-float32")]
    host = [case.id for case in cases if case.variant.on_host]
    return [*own[: count - 20], *host[:20], *more][:count]


@dataclass(frozen=True, kw_only=True)
class Night:
    """Says what one night records: factors on the times of some cases, facts, and how many samples a case has."""

    day: int
    factors: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    processes: Mapping[str, int] = field(default_factory=dict)
    samples: int = 3
    gpu: Mapping[str, Any] = field(default_factory=dict)
    without: Sequence[str] = ()
    about: Mapping[str, Any] = field(default_factory=dict)


def save(folder: Path, names: Sequence[str], night: Night) -> Path:
    """Save one night as pytest-benchmark does."""
    rng = np.random.default_rng(night.day + 1)
    logs = np.random.default_rng(7).uniform(np.log(4e-6), np.log(5e-3), len(names))
    document = {
        "benchmarks": [
            entry(name, float(seconds), night, rng)
            for name, seconds in zip(names, np.exp(logs), strict=True)
            if name not in night.without
        ],
        "machine_info": {"gpu": {**GPU, **night.gpu}},
        "commit_info": {"id": f"{night.day % 100:02}ab" * 10, "dirty": False},
        "datetime": (FIRST + timedelta(days=night.day)).isoformat(),
        "warpwatch": {"whole": True, "failed": [], "slower": [], "against": "", **night.about},
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{night.day + 1:04}_night.json"
    path.write_text(json.dumps(document))
    return path


def repeat(path: Path, night: Night, day: int) -> Path:
    """Save the same night again under another day: soon done, where many nights are needed and not what they say."""
    first, later = ((FIRST + timedelta(days=each)).isoformat() for each in (night.day, day))
    copy = path.with_name(f"{day + 1:04}_night.json")
    copy.write_text(path.read_text().replace(first, later))
    return copy


def identity_of(code: str) -> dict[str, Any]:
    """Make what is saved of what decides a case's work. ``code``: stands for its machine code."""
    made: dict[str, Any] = msgspec.to_builtins(known(code=code))
    return made


def entry(name: str, seconds: float, night: Night, rng: np.random.Generator) -> dict[str, Any]:
    """Make what is saved of one case, whose median is about ``seconds``."""
    middle = seconds * night.factors.get(name, 1.0) * rng.normal(1, 0.001)
    host = "-host-" in name
    drawn = [
        [float(f"{value:.7g}") for value in middle * np.exp(rng.normal(0, 0.004, night.samples))]
        for _ in range(night.processes.get(name, 1))
    ]
    facts = {
        "cache": "host" if host else "cold",
        "image_hash": f"hash of {name}",
        **({} if host else {"identity": identity_of(f"hash of {name}")}),
        "grid": [64, 64, 1],
        "registers": 40,
        "shared_bytes": 2048,
        "local_bytes": 16,
        "occupancy": 0.75,
        "sm_clock_mhz": [] if host else [1980, 1980],
        "operations": 10**9,
        "bytes": 10**7,
        "again": drawn[1:],
        **night.facts.get(name, {}),
    }
    return {"param": name, "stats": {"data": drawn[0]}, "extra_info": facts}
