"""Small kernels with faults that public repositories had, made again: ``public_faults/``.

Each says in its header where the fault was found; no code of theirs is here. The macro FIXED makes its corrected twin.
Lines that a finding must name are marked ``// here``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.project import ROOT

FOLDER = ROOT / "tests" / "softcuda" / "public_faults"
HEADER = re.compile(
    r"// (?P<what>.*)\n// As in (?P<source>(?P<repository>[\w.-]+/[\w.-]+) (?:before [0-9a-f]{7,}|issue #\d+|"
    r"pull request #\d+).*)\n// Must be found: (?P<kinds>.*)\n"
    r"// Launch: (?P<blocks>\d+) blocks? of (?P<threads>\d+) threads, (?P<ints>\d+) ints\n\n"
)


@dataclass(frozen=True, kw_only=True)
class PublicFault:
    """A kernel that takes one array of ``ints`` zeros.

    ``kinds``: what a finding may be called. ``lines``: its places.
    """

    path: Path
    what: str
    source: str
    repository: str
    kinds: tuple[str, ...]
    lines: frozenset[int]
    blocks: int
    threads: int
    ints: int

    @property
    def name(self) -> str:
        return self.path.stem


def read_fault(path: Path) -> PublicFault:
    """Return the fault of a file. Raises ValueError where its header is not as those of its neighbours."""
    text = path.read_text()
    header = HEADER.match(text)
    if not header:
        raise ValueError(f"{path}: its first lines are not: what it is, 'As in', 'Must be found', 'Launch'")
    return PublicFault(
        path=path,
        what=header["what"],
        source=header["source"],
        repository=header["repository"],
        kinds=tuple(header["kinds"].split("|")),
        lines=frozenset(n for n, line in enumerate(text.split("\n"), 1) if line.endswith("// here")),
        blocks=int(header["blocks"]),
        threads=int(header["threads"]),
        ints=int(header["ints"]),
    )


PUBLIC_FAULTS = [read_fault(path) for path in sorted(FOLDER.glob("*.cu"))]
