"""Reads lists of mistakes to make in files, and makes one in a text.

mutants/*.toml lists mistakes in kernels, which mutate.py makes, and planted/*.toml those in the engine, for planted.py.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "mutants"
KEYS = {"file", "kind", "what", "find", "replace", "after", "equivalent", "performance", "tests"}
NEEDED = {"file", "kind", "what", "find", "replace"}


class BadList(ValueError):
    """An entry that cannot be used; the message names it and says what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One change of a file of kernels/, or of the engine.

    ``find`` occurs once in the file, or once after ``after`` if that is given; white space counts as any white space.
    ``same`` says why nobody can notice: the change computes the same (``control`` where that is its purpose), or
    changes the time alone. ``tests``: paths of the tests that may notice a mistake in the engine.
    """

    file: str
    kind: str
    what: str
    find: str
    replace: str
    after: str = ""
    same: str = ""
    control: bool = False
    tests: str = ""

    @property
    def name(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A text with the mistake in it, and the lines, from 1 on, that the mistake lies in."""

    text: str
    first: int
    last: int


def read_mistakes(folder: Path, root: Path | None = None) -> list[Mistake]:
    """Read every list of a folder, and see that each entry can be made in a file below ``root``. Raises BadList."""
    found = [mistake for path in sorted(folder.glob("*.toml")) for mistake in _read(path)]
    for name, count in Counter(mistake.name for mistake in found).items():
        if count > 1:
            raise BadList(f"{name}: {count} entries have this name; say what differs")
    if root is None:
        return found
    for mistake in found:
        path = root / mistake.file
        if not path.is_file():
            raise BadList(f"{mistake.name}: there is no such file in {root.name}/")
        change(path.read_text(), mistake)
    return found


def _read(path: Path) -> list[Mistake]:
    try:
        tables = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BadList(f"{path.name} is not TOML: {error}") from None
    if unknown := set(tables) - {"mutant", "control"}:
        raise BadList(f"{path.name}: tables are [[mutant]] and [[control]], not {', '.join(sorted(unknown))}")
    return [_entry(path, kind, entry) for kind in tables for entry in tables[kind]]


def _entry(path: Path, kind: str, entry: dict[str, str]) -> Mistake:
    name = f"{path.name}: {entry.get('file', '?')}: {entry.get('what', '?')}"
    if missing := NEEDED - set(entry):
        raise BadList(f"{name}: lacks {', '.join(sorted(missing))}")
    if unknown := set(entry) - KEYS:
        raise BadList(f"{name}: has no key {', '.join(sorted(unknown))}; keys are {', '.join(sorted(KEYS))}")
    if wrong := [key for key, value in entry.items() if not isinstance(value, str)]:
        raise BadList(f"{name}: {', '.join(wrong)} must be text")
    reasons = [entry[key] for key in ("equivalent", "performance") if key in entry]
    if len(reasons) + (kind == "control") > 1:
        raise BadList(f"{name}: give one of equivalent and performance, and none to a control")
    plain = {key: value for key, value in entry.items() if key not in ("equivalent", "performance")}
    control = kind == "control"
    return Mistake(**plain, same="computes the same" if control else "".join(reasons), control=control)


def change(text: str, mistake: Mistake) -> Change:
    """Make the mistake in the text of its file. BadList where its place is not found, or found more than once."""
    start = _place(text, mistake.after, mistake)[1] if mistake.after else 0
    begin, end = _place(text[start:], mistake.find, mistake)
    begin, end = begin + start, end + start
    changed = text[:begin] + mistake.replace + text[end:]
    if changed == text:
        raise BadList(f"{mistake.name}: it changes nothing")
    first = text.count("\n", 0, begin) + 1
    return Change(text=changed, first=first, last=first + mistake.replace.count("\n"))


def _place(text: str, wanted: str, mistake: Mistake) -> tuple[int, int]:
    """Where a piece of text lies; spaces and line ends in it stand for any others."""
    words = wanted.split()
    if not words:
        raise BadList(f"{mistake.name}: nothing to look for")
    found = [match.span() for match in re.finditer(r"\s+".join(map(re.escape, words)), text)]
    if len(found) != 1:
        times = "not there" if not found else f"there {len(found)} times; add more of the line, or `after`"
        raise BadList(f"{mistake.name}: {wanted!r} is {times}")
    return found[0]
