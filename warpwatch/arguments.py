"""Reads values of command-line options that pytest and `warpwatch` share."""

from __future__ import annotations

import argparse
import math

LONGEST_TIMEOUT = 86_400.0  # seconds, a day: waiting for a process counts milliseconds in 32 bits


def positive_seconds(text: str) -> float:
    """Read a number of seconds above 0, at most a day. Raises argparse.ArgumentTypeError, which argparse prints."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to {LONGEST_TIMEOUT:g}")
    return seconds


def seconds_or_none(text: str) -> float:
    """Read a number of seconds from 0 to a day. Raises argparse.ArgumentTypeError, which argparse prints."""
    return 0.0 if text.strip() in ("0", "0.0") else positive_seconds(text)


def positive_integer(text: str) -> int:
    """Read an integer above 0. Raises argparse.ArgumentTypeError, which argparse prints."""
    if not text.strip().isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer above 0")
    return int(text)
