"""Findings of the software device that are accepted, each with its reason: by a declaration, or by its source.

A comment accepts findings on its own line, or on the next line of code where it stands alone::

    // warpwatch: accept race: every thread writes the same value
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

COMMENT = re.compile(r"//\s*warpwatch:\s*(.*)")
ACCEPT = re.compile(r"accept\s+(?P<kind>[a-z][a-z -]*?)\s*:\s*(?P<reason>\S.*)")


class BadComment(ValueError):
    """A comment for this program that it cannot read; the message says which line, and how it is written."""


@dataclass(frozen=True)
class Accept:
    """A finding that is accepted: it is shown, and fails no test.

    ``kind``: as the software device calls it, such as "race", which "race between blocks" is too, or "out of bounds".
    ``line``: of the access, one of both of a race. ``reason``: why it is right. ``file``: from the family's folder;
    empty: that of the kernel.
    """

    kind: str
    _: KW_ONLY
    line: int
    reason: str
    file: str = ""


def comments_in(text: str) -> Iterator[Accept]:
    """Yield what the comments of a source accept. Raises BadComment."""
    lines = text.split("\n")  # as compilers count them, which str.splitlines does not
    for number, line in enumerate(lines, 1):
        if comment := COMMENT.search(line):
            match = ACCEPT.fullmatch(comment[1].strip())
            if not match:
                raise BadComment(f"line {number}: {comment[0].strip()!r} is not '// warpwatch: accept race: reason'")
            alone = not line[: comment.start()].strip()
            yield Accept(match["kind"], line=_next(lines, number) if alone else number, reason=match["reason"])


def _next(lines: list[str], number: int) -> int:
    """Return the number of the first line of code behind a line, or that line's where there is none."""
    following = enumerate(lines[number:], number + 1)
    return next((i for i, line in following if line.strip() and not line.strip().startswith("//")), number)
