"""Reads values of command-line options that pytest and `warpwatch` share."""

from __future__ import annotations

import argparse
import math
import re
from typing import Any

from warpwatch.catalogue.names import suggestion

SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")  # of NVIDIA's compute-sanitizer
LONGEST_TIMEOUT = 86_400.0  # seconds, a day: waiting for a process counts milliseconds in 32 bits


def one_of(*names: str) -> dict[str, Any]:
    """Return the arguments of ``add_argument`` for an option with these values, which answers a misspelt one."""

    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(names)}{_hint(text, names)}")
        return text

    return {"type": read, "metavar": f"{{{','.join(names)}}}"}


def _hint(text: str, names: tuple[str, ...]) -> str:
    answer = suggestion(text, names)
    return f"; {answer}" if answer.startswith("did") else ""


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


def shapes(text: str) -> tuple[tuple[int, ...], ...]:
    """Read shapes: '64x64,128x96' -> ((64, 64), (128, 96)). Raises argparse.ArgumentTypeError."""
    if not re.fullmatch(r"[1-9][0-9]{0,9}(x[1-9][0-9]{0,9})*(,[1-9][0-9]{0,9}(x[1-9][0-9]{0,9})*)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of shapes such as 64x64,128x128")
    return tuple(dict.fromkeys(tuple(map(int, shape.split("x"))) for shape in text.split(",")))


def sanitizer_tools(text: str) -> tuple[str, ...]:
    """Read tools: 'memcheck,racecheck' -> ('memcheck', 'racecheck'). Raises argparse.ArgumentTypeError."""
    read = one_of(*SANITIZER_TOOLS)["type"]
    return tuple(dict.fromkeys(read(tool.strip()) for tool in text.split(",")))
