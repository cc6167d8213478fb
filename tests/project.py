"""Paths of the repository that these tests belong to, and its kernels."""

from __future__ import annotations

from pathlib import Path

from warpwatch.catalogue.project import load_project

ROOT = Path(__file__).resolve().parent.parent
PROJECT = load_project(ROOT, "kernels")
EARLIER = ROOT / "bench" / "recordings" / "tuning" / "baselines"  # baselines of November 2026, before fresh work
