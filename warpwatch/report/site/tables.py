"""Describes tables of the pages: cells with a text, a link and a shade, and how figures are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from warpwatch.report.site.entries import Entry


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Holds one cell. ``heat``: how strongly it is shaded, 0 to 1; None for not at all."""

    text: str = ""
    more: str = ""
    page: str = ""
    heat: float | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Holds a table whose first ``heads`` columns name its rows. ``note`` says what shade and figures mean."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Sequence[Cell | None]]]
    note: str = ""

    @property
    def heads(self) -> int:
        return len(self.columns) - (len(self.rows[0][1]) if self.rows else 0)


def micro(seconds: float) -> str:
    """Write seconds as µs, with digits that suit the size."""
    us = 1e6 * seconds
    return f"{us:,.2f}" if us < 1000 else f"{us:,.1f}" if us < 10_000 else f"{us:,.0f}"


def percent(ratio: float, digits: int = 1) -> str:
    """Write a ratio as a change: 1.06 -> +6.0 %."""
    if math.isnan(ratio):
        return "–"
    text = f"{100 * (ratio - 1):+.{digits}f}"
    return f"{text[1:] if float(text) == 0 else text} %".replace("-", "−")


def nano(seconds: float) -> str:
    """Write what is added to every launch: −1,096 ns."""
    nanoseconds = round(1e9 * seconds)
    return f"{nanoseconds:+,} ns".replace("-", "−") if nanoseconds else "0 ns"


def cell_of(entry: Entry, text: str, more: str = "", heat: float | None = None) -> Cell:
    return Cell(text=text, more=more, page=entry.page, heat=None if heat is None else round(max(0, min(1, heat)), 2))
