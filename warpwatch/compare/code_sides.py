"""Lists the builds of two sides whose machine code is compared, and compiles them on all cores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Capability
from warpwatch.catalogue.names import split_id
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.devices.compile.background import on_all_cores
from warpwatch.devices.compile.builds import compile_build, entries_of
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.revision.commit import compile_other, read_other_kernels
from warpwatch.revision.declared import own_identity
from warpwatch.runs.identity import Identity

Threads = tuple[int, int]  # of a block: how many, and its bytes of dynamic shared memory
Launches = Mapping[str, tuple[Threads, ...]]
ANY = Capability(0, 0)


@dataclass(frozen=True, kw_only=True)
class SideBuild:
    """Holds a build of one side.

    ``entries``: the kernels that it is launched by. ``works``: what each of its cases does, without the machine code.
    ``needs``: the oldest GPUs that it runs on.
    """

    id: str
    compile: Callable[[Target], Image]
    entries: tuple[str, ...]
    works: Mapping[str, Identity]
    needs: Capability = ANY

    @property
    def launches(self) -> Launches:
        """The different blocks that each kernel is launched with, smallest first."""
        found: dict[str, set[Threads]] = {}
        for step in (step for work in self.works.values() for step in work.steps or ()):
            found.setdefault(step.entry, set()).add((prod(step.block), step.shared_bytes))
        return {entry: tuple(sorted(blocks)) for entry, blocks in found.items()}


def own_builds(project: Project) -> dict[str, SideBuild]:
    """List the working tree's builds by their ids: all that are timed, then those that are only tested."""
    timed = timed_cases(project.families)
    builds = {case.build for case in timed}
    found: dict[str, list[Case]] = {}
    for case in (*timed, *(case for case in tested_cases(project.families) if case.build not in builds)):
        known = found.setdefault(case.build.id, [])
        if case.build in builds or not known:  # of a build that is not timed, the first shape is enough
            known.append(case)
    return {name: _own(name, cases) for name, cases in found.items() if not cases[0].variant.has_no_block}


def _own(name: str, cases: Sequence[Case]) -> SideBuild:
    build = cases[0].build
    return SideBuild(
        id=name,
        compile=functools.partial(compile_build, build),
        entries=entries_of(build),
        works={case.id: own_identity(case) for case in cases},
        needs=build.variant.capability,
    )


def other_builds(tree: Path, module: str, revision: str, arch: str) -> dict[str, SideBuild]:
    """List the builds of another revision, which lies in ``tree``, by their ids. Raises BadRevision or BadCase."""
    others: dict[str, list[str]] = {}
    kernels = read_other_kernels(tree, module, revision, arch, every_build=True)
    for name, other in kernels.items():
        if not other.call:
            family, variant, block, _, dtype = split_id(name)
            others.setdefault(f"{family}-{variant}-{block}-{dtype}", []).append(name)
    return {
        name: SideBuild(
            id=name,
            compile=functools.partial(compile_other, kernels[cases[0]]),
            entries=kernels[cases[0]].kernels.entries,
            works={case: kernels[case].identity for case in cases},
        )
        for name, cases in others.items()
    }


def compile_sides(
    sides: Mapping[tuple[str, str], Sequence[SideBuild]], progress: Callable[[int, int], None]
) -> dict[tuple[str, str, str], Image | CompileError]:
    """Compile builds on all cores; machine code or the error by architecture, side and build.

    ``sides``: builds by architecture and name of the side. Those that come first are in the cache when the same source
    is asked for by another side.
    """
    calls = {
        (arch, side, build.id): functools.partial(build.compile, Target(arch))
        for (arch, side), builds in sides.items()
        for build in builds
    }
    made: dict[tuple[str, str, str], Image | CompileError] = {}
    for key, job in on_all_cores(calls, progress).items():
        error = job.exception()
        if error and not isinstance(error, CompileError | OSError):
            raise error
        made[key] = CompileError(str(error)) if error else job.result()
    return made
