"""Writes numbers with digits that suit their size: times, rates, ratios, changes."""

from __future__ import annotations

import math


def rounded(value: float, digits: int = 4) -> float | int:
    """Round to significant digits: a page holds hundreds of figures, and a chart shows no more."""
    if not math.isfinite(value) or value == 0:
        return 0
    exact = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return int(exact) if exact == int(exact) else exact


def significant(value: float, digits: int = 3) -> str:
    """Write a number with at least so many significant digits, and all that it has before its point: 1,234 or 0.00123.

    Nothing but zero is written as 0.
    """
    if not math.isfinite(value) or value == 0:
        return "0" if value == 0 else "–"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if exponent < -6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def fraction(value: float) -> str:
    """Write a share: 0.95, or 0.0123 with more decimals where it is small."""
    return f"{value:.2f}" if value >= 0.1 or value == 0 else significant(value, 2)


def ratio(value: float) -> str:
    """Write how many times larger one is than another: 2.05×."""
    return f"{significant(value)}×"


def micro(seconds: float) -> str:
    """Write seconds as µs: two decimals, fewer of long times and more of very short ones."""
    us = 1e6 * seconds
    if us < 1:
        return significant(us)
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


FORMATS = {each.__name__: each for each in (micro, percent, nano, significant, fraction)}  # in templates
