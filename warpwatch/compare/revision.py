"""Another revision's kernels, taken from git without touching the working tree, declared and compiled."""

from __future__ import annotations

import functools
import io
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.catalogue.declaration import Case, Launch
from warpwatch.compare.declared import BadRevision, DeclaredCase, read_declared, shortened
from warpwatch.devices.compiler import ROOT, CompileError, Image, Target, compile_file, private_folder
from warpwatch.devices.compiling import on_all_cores


@dataclass(frozen=True)
class Rival:
    """The other revision's side of a case: what to compile, and how it is launched.

    ``arguments``: ("pointer", which array, bytes into it), ("struct", bytes, fields) or (NumPy type, value).
    """

    library: str
    source: Path
    entry: str
    macros: Mapping[str, str]
    flags: tuple[str, ...]
    launch: Launch
    operands: Mapping[str, Sequence[int]]
    result: Sequence[Any] | None
    arguments: tuple[tuple[Any, ...], ...]
    constant: str = ""  # the operand that lies in the kernel's constant memory too

    def fill(self, pointers: Sequence[int]) -> list[np.generic]:
        """The kernel's arguments for arrays at these addresses."""
        return [_fill(value, pointers) for value in self.arguments]

    def differs(self, case: Case) -> str:
        """Why the two sides of a case do different work, or nothing."""
        operands = {name: list(shape) for name, shape in case.family.operands(case.shape).items()}
        if operands != {name: list(shape) for name, shape in self.operands.items()}:
            return "its operands were others"
        result = case.family.result(case.shape) if case.family.result else None
        if (result and [result[0], list(result[1])]) != (self.result and [self.result[0], list(self.result[1])]):
            return "its result was another"
        return ""


def _fill(value: Sequence[Any], pointers: Sequence[int]) -> np.generic:
    if value[0] == "pointer":
        return np.uint64(pointers[value[1]] + value[2])
    if value[0] == "struct":
        _, size, fields = value
        filled = [_fill(inner, pointers) for _, _, inner in fields]
        layout = {
            "names": [name for name, _, _ in fields],
            "formats": [each.dtype for each in filled],
            "offsets": [offset for _, offset, _ in fields],
            "itemsize": size,
        }
        struct = np.zeros(1, np.dtype(layout))  # type: ignore[call-overload]
        for (name, _, _), each in zip(fields, filled, strict=True):
            struct[name] = each
        return struct[0]  # type: ignore[no-any-return]
    return np.dtype(value[0]).type(value[1])  # type: ignore[no-any-return]


def check_name(revision: str) -> None:
    """Raise BadRevision for what cannot be a revision, whatever git knows."""
    if not revision.strip():
        raise BadRevision("--against names no revision: give a commit, a branch or a tag, such as --against main")
    if revision.startswith("-"):
        raise BadRevision(f"--against={revision}: git knows no such revision here: none begins with '-'")
    if "\0" in revision:
        raise BadRevision("--against names no revision: no revision holds a zero byte")


def find_commit(revision: str, root: Path = ROOT) -> str:
    """The commit that a revision names. Raises BadRevision."""
    check_name(revision)
    there = _git(revision, root, "rev-parse", "--git-dir")
    if there.returncode:
        raise BadRevision(f"--against={revision}: {root} is no git checkout ({_message(there)})")
    found = _git(revision, root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if found.returncode == 0:
        return found.stdout.decode().strip()
    shallow = _git(revision, root, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    cure = ": this clone is shallow; `git fetch --unshallow` gets the rest" if shallow else ""
    raise BadRevision(f"--against={revision}: git knows no such revision here{cure}")


def checkout(commit: str, revision: str, root: Path = ROOT) -> Path:
    """A folder that holds that commit's kernels/, kept from one run to the next. Raises BadRevision."""
    try:
        folder = private_folder("revisions") / commit
    except CompileError as error:
        raise BadRevision(f"--against={revision}: there is no place to unpack its kernels in: {error}") from None
    if folder.exists():
        return folder
    archive = _git(revision, root, "archive", "--format=tar", commit, "kernels")
    if archive.returncode:
        raise BadRevision(f"--against={revision}: it has no kernels ({_message(archive)})")
    try:
        _unpack(archive.stdout, folder)
    except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError) as error:
        raise BadRevision(_linked(revision, error.tarinfo)) from None
    except (OSError, tarfile.TarError) as error:
        raise BadRevision(f"--against={revision}: no kernels can be unpacked in {folder.parent} ({error})") from None
    return folder


def _linked(revision: str, member: tarfile.TarInfo) -> str:
    link = f"{member.name} is a link to {member.linkname}, outside of the revision's kernels/"
    return f"--against={revision}: {shortened(link)}; nothing outside of it is read for a comparison"


def _unpack(archive: bytes, folder: Path) -> None:
    """Unpack into ``folder``, whole or not at all; another run may do the same meanwhile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as made,
        tarfile.open(fileobj=io.BytesIO(archive)) as tar,
    ):
        tar.extractall(made, filter="data")
        try:
            Path(made).rename(folder)
        except OSError:  # another run was quicker
            if not folder.exists():
                raise
        else:
            Path(made).mkdir()  # for the context manager to remove


def _git(revision: str, root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    except OSError as error:
        raise BadRevision(f"--against={revision} needs git, which cannot be run ({error}): apt install git") from None


def _message(done: subprocess.CompletedProcess[bytes]) -> str:
    """The first line of what git complained about."""
    return shortened((done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[0])


def read_rivals(tree: Path, revision: str) -> dict[str, Rival]:
    """Every GPU case that a revision times, by its id. Raises BadRevision."""
    document = read_declared(tree, revision)
    rivals = {name: rival_of(tree, document.flags, case) for name, case in document.cases.items()}
    for name, rival in rivals.items():
        try:
            if not rival.source.resolve().is_relative_to(tree.resolve()):
                raise ValueError(f"its source lies outside of the revision, in {rival.source.resolve()}")
            rival.fill([0] * (len(rival.operands) + 1))
        except (OSError, ValueError, TypeError, OverflowError) as error:
            raise BadRevision(f"--against={revision}: its declaration of {name} cannot be used ({error})") from None
    return rivals


def rival_of(tree: Path, flags: tuple[str, ...], case: DeclaredCase) -> Rival:
    """The side that a declaration (warpwatch/compare/declarations.py) describes."""
    launch = Launch(case.grid, case.block, case.shared_bytes)
    own = (case.library, tree / case.source, case.entry, case.macros)
    return Rival(*own, flags, launch, case.operands, case.result, case.arguments, case.constant)


def compile_rivals(
    rivals: Iterable[Rival], tree: Path, target: Target, progress: Callable[[int, int], None]
) -> dict[tuple[object, ...], Image | CompileError]:
    """Machine code of the rivals by ``key``, made on all cores, or why there is none."""
    calls = {
        key(rival): functools.partial(compile_file, rival.source, rival.macros, target, rival.flags, tree)
        for rival in rivals
        if not rival.library
    }
    made: dict[tuple[object, ...], Image | CompileError] = {}
    for name, job in on_all_cores(calls, progress).items():
        error = job.exception()
        if error and not isinstance(error, CompileError | OSError):
            raise error
        made[name] = CompileError(str(error)) if error else job.result()
    return made


def key(rival: Rival) -> tuple[object, ...]:
    """What a rival's machine code depends on; cases of several shapes share it."""
    return (rival.source, *sorted(rival.macros.items()), rival.flags)
