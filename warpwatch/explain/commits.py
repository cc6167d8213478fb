"""Builds the machine code that a commit has for some cases, without measuring anything."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from warpwatch.catalogue.project import Project
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.explain.explanation import CaseCode, other_code
from warpwatch.revision.commit import checkout, compile_other_kernels, read_other_kernels
from warpwatch.revision.declared import of_code
from warpwatch.runs.identity import Identity


@dataclass(frozen=True, kw_only=True)
class CommitCase:
    """Holds what a commit has for a case. ``image``: its machine code, or why it does not compile."""

    other: OtherKernel
    image: Image | CompileError

    @property
    def identity(self) -> Identity:
        """Everything that decides the case's work; the machine code is unknown where it does not compile."""
        own: Identity = self.other.identity
        return of_code(own, self.image.image_hash) if isinstance(self.image, Image) else own

    @property
    def code(self) -> CaseCode | None:
        return other_code(self.other, self.image) if isinstance(self.image, Image) else None


def build_cases(
    commit: str, revision: str, names: Collection[str], project: Project, target: Target
) -> dict[str, CommitCase]:
    """Build cases as a commit declares them; those that it does not have, and calls, are left out.

    ``revision``: the name of the commit in messages. Raises BadRevision.
    """
    tree = checkout(commit, revision, project)
    others = read_other_kernels(tree, project.module, revision, target.arch)
    wanted = {name: others[name] for name in names if name in others and not others[name].call}
    images = compile_other_kernels(wanted.values(), target, _silent)
    return {name: CommitCase(other=other, image=images[key(other)]) for name, other in wanted.items()}


def _silent(done: int, total: int) -> None:
    """Show no progress."""
