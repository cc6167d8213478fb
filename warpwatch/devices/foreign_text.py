"""Makes what programs and kernels print fit for a terminal and for the log of a job: plain, and of limited length.

A line of a job's log may be a command to the host that runs it. GitHub takes ``::name::`` at the begin of a line, and
``##[name]`` anywhere in it; Azure and TeamCity take ``##vso[`` and ``##teamcity[``; GitLab's sections end with a
carriage return and an escape sequence.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

COLOUR = re.compile(r"\x1b\[[\d;:]*m")
# Control characters but the tab, ends of lines that are not "\n", and what changes the direction of text.
CONTROL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\w*\[)")
LONGEST, LONGEST_OPEN = 2000, 2**16  # characters of a line that are shown, and of one that has not ended
SHARE_OF_END = 4  # a fourth of what is shown is from the end, where pytest's summary and a program's last words are


def plain(text: str) -> str:
    """Return a line without colours, its control characters as escapes, in which nothing is a command to a host."""
    shown = CONTROL.sub(lambda control: control[0].encode("unicode_escape").decode(), COLOUR.sub("", text))
    return COMMAND.sub(lambda command: f"{command[0]} ", shown)


def plain_lines(text: str) -> str:
    """Return the lines of a text, each of them plain."""
    return "\n".join(map(plain, re.split(r"\r\n|[\n\r]", text)))


def last_line(printed: bytes) -> str:
    """Return the last line of what foreign Python printed, fit to be printed; empty where there is none."""
    lines = printed.decode(errors="replace").strip().splitlines()
    return shortened(lines[-1]) if lines else ""


def shortened(value: object) -> str:
    """Make one short line without control characters of a foreign text."""
    text = "".join(c if c.isprintable() else "?" for c in str(value)[:300])
    return text + "..." * (len(str(value)) > 300)


@dataclass(kw_only=True)
class Limited:
    """Shows the begin and the end of a text, line by line as they come.

    ``show``: takes a line that is shown. ``most``: characters that are shown. ``rest``: says where all lines are.
    """

    show: Callable[[str], object]
    most: int
    rest: str
    _shown: int = field(default=0, init=False)
    _kept: deque[str] = field(default_factory=deque, init=False)
    _kept_length: int = field(default=0, init=False)
    _lines: int = field(default=0, init=False)
    _characters: int = field(default=0, init=False)

    def add(self, line: str) -> None:
        """Show a line, or keep it for the end, or leave it out."""
        cut = len(line) - LONGEST
        line = line if cut <= 0 else f"{line[:LONGEST]}... {cut:,} characters are left out"
        if not self._kept and self._shown + len(line) <= self.most - self.most // SHARE_OF_END:
            self._shown += len(line) + 1
            self.show(line)
            return
        self._kept.append(line)
        self._kept_length += len(line) + 1
        while self._kept_length > self.most // SHARE_OF_END and len(self._kept) > 1:
            left = self._kept.popleft()
            self._kept_length -= len(left) + 1
            self._lines, self._characters = self._lines + 1, self._characters + len(left) + 1

    def end(self) -> None:
        """Show what was left out in one line and then the last lines, and begin afresh."""
        if self._lines:
            self.show(f"... {self._lines:,} lines ({self._characters:,} characters) are left out here; {self.rest}")
        for line in self._kept:
            self.show(line)
        self._kept.clear()
        self._shown = self._kept_length = self._lines = self._characters = 0

    def pass_on(self, program: IO[str], log: IO[str], most_logged: int) -> str:
        """Show what a program prints, and write it to ``log``, at most so many characters. Returns its last line."""
        last, written = "", 0
        # Lines, or pieces that are longer than any that is shown.
        for piece in iter(lambda: program.readline(2**16), ""):
            line = plain(piece.removesuffix("\n"))
            last = line.strip() or last
            self.add(line)
            if written <= most_logged:
                log.write(f"{line}\n")
                written += len(line) + 1
                if written > most_logged:
                    log.write(f"... the rest is left out: more than {most_logged:,} characters\n")
        self.end()
        return last


class Printed:
    """Keeps the begin and the end of what a process prints, as plain lines, until they are taken."""

    def __init__(self, most: int, rest: str) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._lines, self._open = list[str](), ""
        self._limited = Limited(show=self._lines.append, most=most, rest=rest)

    def add(self, part: bytes) -> None:
        """Add what the process has printed since."""
        *lines, self._open = re.split(r"\r\n|\n", self._open + self._decoder.decode(part))
        if len(self._open) > LONGEST_OPEN:
            lines, self._open = [*lines, self._open], ""
        for line in lines:
            self._limited.add(plain(line))

    def take(self) -> str:
        """Return the lines, and begin afresh."""
        if self._open:
            self._limited.add(plain(self._open))
        self._limited.end()
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        self._open = ""
        return text


def limited(text: str, most: int, rest: str) -> str:
    """Return the begin and the end of a text as plain lines. ``rest``: says where all of it is."""
    lines: list[str] = []
    shown = Limited(show=lines.append, most=most, rest=rest)
    for line in plain_lines(text).split("\n"):
        shown.add(line)
    shown.end()
    return "\n".join(lines)
