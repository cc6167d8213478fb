"""Lists the findings of the software device that the declaration of a build, and its sources, accept."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpwatch.catalogue.accepted import Accept, BadComment, comments_in
from warpwatch.catalogue.cases import Build
from warpwatch.catalogue.declaration import is_drawn_by_run
from warpwatch.catalogue.names import BadCase
from warpwatch.devices.compile.builds import entries_of, named_files
from warpwatch.devices.compile.compiler import name_from
from warpwatch.devices.compile.ready import READY


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A finding that is accepted of one kernel. ``key``: as softcuda.accept takes it."""

    key: str
    reason: str

    def __str__(self) -> str:
        kind, _, place = self.key.split("\t")
        return f"{kind} at {place}: {self.reason}"


@functools.cache
def accepted_of(build: Build) -> tuple[Accepted, ...]:
    """List what is accepted of a build's kernels; of foreign code nothing is. Raises BadCase."""
    if build.variant.has_no_block or is_drawn_by_run():
        return ()
    kernels = dict.fromkeys(re.split(r"[<(]", name)[0].rpartition("::")[2].strip() for name in entries_of(build))
    return tuple(
        Accepted(key=f"{each.kind}\t{kernel}\t{name_from(build.family.root, path)}:{each.line}", reason=each.reason)
        for path, each in _of_files(build)
        for kernel in kernels
    )


def _of_files(build: Build) -> Iterator[tuple[Path, Accept]]:
    folder = build.family.folder
    for each in build.variant.accept:
        yield (folder / each.file).resolve() if each.file else build.source, each
    if callable(build.variant.source) or build.source.suffix in READY:
        return
    for path, text in named_files(build.source, [(folder / name).resolve() for name in build.variant.include]).items():
        try:
            yield from ((path, each) for each in comments_in(text))
        except BadComment as error:
            raise BadCase(f"{build.id}: {name_from(build.family.root, path)}, {error}") from None
