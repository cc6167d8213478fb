"""Puts several builds of one source into one file, for which nvcc reads CUDA's headers once.

Nearly all of a call of nvcc is spent on those headers, so a check that nine builds compile takes about as long as one
build. No kernel that runs comes from such a file: it only shows that the builds compile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<[^>\n]+>).*$', re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*$", re.MULTILINE)


def in_one_file(source: Path, builds: Sequence[Mapping[str, str]]) -> str:
    """Return the text of a file that holds ``source`` once for each set of macros, each in a namespace of its own.

    Functions lose their C linkage, because two of one name would be the same function. Macros end with each build.
    The text may not compile although each build does, where a source leaves its namespace (``::name``) or includes a
    header under a condition; then each build has to be compiled by itself.
    """
    flat = _Flat()
    body = re.sub(r'\bextern\s+"C"', 'extern "C++"', flat.read(source.resolve()))
    own = dict.fromkeys(DEFINE.findall(body))
    parts = list(dict.fromkeys(flat.system))
    for number, macros in enumerate(builds):
        parts += [f"#define {name} {value}" for name, value in macros.items()]
        parts += [f"namespace build{number} {{", body, "}"]
        parts += [f"#undef {name}" for name in (*macros, *own)]
    return "\n".join((*parts, ""))


@dataclass
class _Flat:
    """A reader of a source that replaces each include of the project's headers by the header, once.

    ``system``: the lines that include the compiler's own headers.
    """

    system: list[str] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)

    def read(self, path: Path) -> str:
        self.seen.add(path)

        def included(match: re.Match[str]) -> str:
            header = (path.parent / match[1]).resolve() if match[1] else None
            if header is None or not header.exists():
                self.system.append(match[0].strip())
                return ""
            return "" if header in self.seen else self.read(header)

        return ONCE.sub("", INCLUDE.sub(included, path.read_text()))
