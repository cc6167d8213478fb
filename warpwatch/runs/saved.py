"""Alias of record.py, from which programs outside of this repository import the reader of runs; use that one here."""

from __future__ import annotations

from warpwatch.runs.record import BadRun as BadRun  # noqa: PLC0414
from warpwatch.runs.record import read_run as read_run  # noqa: PLC0414
