"""Another revision: its commit in git, the kernels that it declares, and their machine code."""

from __future__ import annotations

import base64
import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.texts import Text
from warpwatch.devices.compile.background import images_or_errors
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.compile.entries import Kernels, compile_entries
from warpwatch.devices.compile.ready import code_image
from warpwatch.devices.other_kernel import OtherKernel, OtherStep, key
from warpwatch.revision.declared import BadRevision, DeclarationProcess, DeclaredCase, with_code
from warpwatch.revision.unpacked import checkout as checkout  # noqa: PLC0414  # users import both from here
from warpwatch.revision.unpacked import git as git  # noqa: PLC0414
from warpwatch.revision.unpacked import message, naming_missing_submodules
from warpwatch.runs.identity import Identity

SAME_LIBRARY = "installed"  # stands for the version of a library, which both sides load
NOTHING = Image(Path(), "", "")  # of a call nothing is compiled
UNSHALLOW = "this clone is shallow; `git fetch --unshallow` gets the rest"


def check_name(revision: str) -> None:
    """Raise BadRevision for what cannot be a revision, whatever git knows. Its messages begin with the revision."""
    if not revision.strip():
        raise BadRevision(f"{revision!r} names no revision: give a commit, a branch or a tag, such as main")
    if revision.startswith("-"):
        raise BadRevision(f"{revision}: git knows no such revision here: none begins with '-'")
    if "\0" in revision:
        raise BadRevision(f"{revision!r} names no revision: none holds a zero byte")


def find_commit(revision: str, root: Path) -> str:
    """Find the commit that a revision names. Raises BadRevision."""
    check_name(revision)
    there = git(revision, root, "rev-parse", "--git-dir")
    if there.returncode:
        raise BadRevision(f"{revision}: {root} is not a git checkout ({message(there)})")
    named = git(revision, root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if named.returncode == 0:
        return named.stdout.decode().strip()
    cure = f": {UNSHALLOW}" if is_shallow(root) else ""
    raise BadRevision(f"{revision}: git knows no such revision here{cure}")


def is_shallow(root: Path) -> bool:
    return git("", root, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"


def is_ancestor(commit: str, of: str, root: Path) -> bool:
    return git(of, root, "merge-base", "--is-ancestor", "--end-of-options", commit, of).returncode == 0


def find_merge_base(root: Path, branch: str = "") -> tuple[str, str]:
    """Find where the working tree's branch left another one; returns the commit, and the other branch's name.

    ``branch``: the other one; empty: the main branch, which is what the remote repository ``origin`` checks out, else
    main or master. Raises BadRevision.
    """
    if (there := git("", root, "rev-parse", "--git-dir")).returncode:
        raise BadRevision(f"{root} is not a git checkout ({message(there)})")
    remote = git("", root, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD").stdout.decode().strip()
    main = filter(None, (remote, "origin/main", "origin/master", "main", "master"))
    for name in (branch,) if branch else main:
        if git("", root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").returncode:
            continue
        base = git("", root, "merge-base", "HEAD", name)
        if base.returncode == 0:
            return base.stdout.decode().strip(), name
        cure = UNSHALLOW if is_shallow(root) else "name a revision"
        raise BadRevision(f"HEAD and {name} have no commit in common here: {cure}")
    if branch:
        raise BadRevision(f"there is no branch {branch} here: {UNSHALLOW if is_shallow(root) else 'fetch it'}")
    raise BadRevision("there is no main branch here to compare with, neither main nor master: name a revision")


def same_files(commit: str, revision: str, root: Path) -> bool:
    """Tell whether no file of a repository differs from a commit, and none is there that git does not know."""
    if git(revision, root, "diff", "--quiet", "--ignore-submodules=none", commit, "--", ".").returncode:
        return False
    unknown = git(revision, root, "ls-files", "--others", "--exclude-standard", "--", ".")
    return unknown.returncode == 0 and not unknown.stdout.strip()


def files_unlike_head(root: Path) -> list[Path]:
    """List the files of a repository that differ from HEAD, and those that git does not know. Raises BadRevision."""
    find_commit("HEAD", root)
    top = Path(os.fsdecode(git("HEAD", root, "rev-parse", "--show-toplevel").stdout.removesuffix(b"\n")))
    files: list[Path] = []
    for command in (["diff", "--name-only", "-z", "HEAD"], ["ls-files", "--others", "--exclude-standard", "-z"]):
        listed = git("HEAD", top, *command)
        if listed.returncode:
            raise BadRevision(f"git cannot say what differs from HEAD ({message(listed)})")
        files += [top / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    return files


def read_other_kernels(
    tree: Path, module: str, revision: str, arch: str, *, every_build: bool = False
) -> dict[str, OtherKernel]:
    """Read every GPU case that a revision times, by its id. ``arch``: of this GPU. Raises BadRevision.

    ``every_build``: and a case of each build that is tested and not timed.
    """
    with naming_missing_submodules(tree):
        document = DeclarationProcess(tree, module, revision).declared(arch)
    cases = {**document.cases, **document.untimed} if every_build else document.cases
    return other_kernels_of(cases, tree, revision)


class OtherRevision:
    """Reads another revision in the background, until ``kernels`` needs it.

    ``commit``, ``tree``: of that revision, and the folder that it is unpacked in. ``same_files``: no file of the
    repository differs from it. ``stop`` ends the process that reads, if it still runs.
    """

    def __init__(self, revision: str, project: Project) -> None:
        """Begin to read. Raises BadRevision."""
        self.revision, self.commit = revision, find_commit(revision, project.root)
        self.tree = checkout(self.commit, revision, project)
        self.same_files = same_files(self.commit, revision, project.root)
        self._process = DeclarationProcess(self.tree, project.module, revision)
        self.stop = self._process.stop

    def kernels(self, arch: str) -> dict[str, OtherKernel]:
        """Return every GPU case that the revision times, by its id. ``arch``: of this GPU. Raises BadRevision."""
        with naming_missing_submodules(self.tree):
            document = self._process.declared(arch)
        return other_kernels_of(document.cases, self.tree, self.revision)


def other_kernels_of(cases: Mapping[str, DeclaredCase], tree: Path, revision: str) -> dict[str, OtherKernel]:
    """Make a kernel of each case that a revision declares. Raises BadRevision."""
    others, whole = {}, tree.resolve()
    resolved = functools.cache(Path.resolve)  # many cases have one file
    for name, case in cases.items():
        try:
            others[name] = other = other_kernel_of(tree, case)
            for path in (other.kernels.source, *other.kernels.include):
                if not resolved(path).is_relative_to(whole):
                    raise ValueError(f"its source lies outside of the revision, in {resolved(path)}")
            for step in other.steps:
                step.fill({array.name: 0 for array in other.identity.arrays})
        except (OSError, ValueError, LookupError, TypeError, OverflowError) as error:
            raise BadRevision(f"{revision}: its declaration of {name} cannot be used ({error})") from None
    return others


def other_kernel_of(tree: Path, case: DeclaredCase) -> OtherKernel:
    """Make the kernel that a declaration (warpwatch/revision/declarations.py) describes.

    Raises ValueError where its machine code is not base64.
    """
    identity = case.identity
    steps = tuple(
        OtherStep(
            entry=step.entry,
            launch=Launch(
                step.grid,
                step.block,
                step.shared_bytes,
                step.cluster,
                step.cooperative,
                step.stream,
                step.after,
                step.programmatic,
            ),
            arguments=step.arguments,
        )
        for step in identity.steps or ()
    )
    return OtherKernel(
        call=identity.call or "",
        code=base64.b64decode(case.code),
        kernels=Kernels(
            source=tree / case.source,
            text=Text(case.text) if case.text else None,
            entries=case.entries,
            macros=case.macros,
            own_macros=case.own_macros,
            flags=case.flags,
            include=tuple(tree / folder for folder in case.include),
            root=tree,
        ),
        steps=steps,
        symbols=identity.symbols or {},
        identity=identity,
    )


def compile_other(other: OtherKernel, target: Target) -> Image:
    """Return the machine code of another revision's kernel. Raises CompileError."""
    if other.code:
        return code_image(other.code, other.kernels.source.stem, target)
    with naming_missing_submodules(other.kernels.root):
        return compile_entries(other.kernels, target)


def compile_other_kernels(
    others: Iterable[OtherKernel], target: Target, progress: Callable[[int, int], None]
) -> dict[tuple[object, ...], Image | CompileError]:
    """Compile other kernels on all cores: machine code or the error, by ``key``."""
    calls = {key(other): functools.partial(compile_other, other, target) for other in others if not other.call}
    return images_or_errors(calls, progress)


@dataclass(frozen=True, kw_only=True)
class CommitCase:
    """One commit's side of a case. ``image``: its machine code, of a call none, or why it does not compile."""

    other: OtherKernel
    image: Image | CompileError

    @property
    def identity(self) -> Identity:
        """Everything that decides the case's work; the machine code is unknown where it does not compile."""
        own: Identity = self.other.identity
        return with_code(own, self.image.image_hash, SAME_LIBRARY) if isinstance(self.image, Image) else own


def build_cases(
    commit: str, revision: str, names: Collection[str], project: Project, target: Target
) -> dict[str, CommitCase]:
    """Build cases as a commit declares them; those that it does not have are left out.

    ``revision``: the name of the commit in messages. Raises BadRevision.
    """
    tree = checkout(commit, revision, project)
    others = read_other_kernels(tree, project.module, revision, target.arch)
    wanted = {name: others[name] for name in names if name in others}
    images = compile_other_kernels(wanted.values(), target, lambda done, total: None)
    return {
        name: CommitCase(other=other, image=NOTHING if other.call else images[key(other)])
        for name, other in wanted.items()
    }
