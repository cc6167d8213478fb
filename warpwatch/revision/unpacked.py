"""Commits unpacked into the cache, as git would check them out, without touching the working tree or its index."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from warpwatch.catalogue.project import Project
from warpwatch.devices.compile.compiler import CompileError, digest_of, private_folder
from warpwatch.devices.foreign_text import shortened
from warpwatch.revision.declared import BadRevision

ENGINE_FOLDER = "warpwatch"  # the engine's folder in a checkout of this project
KEPT_SECONDS = 30 * 86400  # how long an unpacked commit stays that no run uses
SPOILT_SECONDS = 86400  # and one in which something was changed: until then a run may still read it
LISTING = ".warpwatch-unpacked.json"  # in an unpacked commit: the state of its files, and the submodules that it lacks
SUBMODULE = "160000"  # the mode of a submodule in git's index
# Nothing of the user's is run or changed when an index is written.
PLAIN = ("-c", "core.hooksPath=/dev/null", "-c", "core.splitIndex=false", "-c", "core.fsmonitor=false")


def checkout(commit: str, revision: str, project: Project) -> Path:
    """Unpack a commit but for its baselines and saved runs; returns the folder. Raises BadRevision.

    The sources of kernels, and the code of calls, may lie anywhere in a repository. So the folder holds what git would
    check out, submodules as the commit records them too. It is kept from one run to the next, and used only while it is
    as it was unpacked: else another is made beside it, because a run may read it. Unpacking removes those that no run
    has used for 30 days.
    """
    try:
        kept = private_folder("revisions")
    except CompileError as error:
        raise BadRevision(f"{revision}: there is no place to unpack its kernels in: {error}") from None
    unpacking = _Unpacking(commit, revision, project)
    for number in itertools.count():
        folder = kept / f"{unpacking.name}{f'-{number}' if number else ''}"
        if not folder.exists() or unpacking.is_whole(folder) or _remove_unused(folder, SPOILT_SECONDS):
            break
    if not folder.exists():
        unpacking.unpack(folder)
        with contextlib.suppress(OSError):  # others may remove the same
            for other in kept.iterdir():
                _remove_unused(other, KEPT_SECONDS)
    with contextlib.suppress(OSError):  # the cache cannot be written
        os.utime(folder)
    return folder


class _Unpacking:
    """A commit that is unpacked.

    ``prefix``: the project's path in the repository, with a slash at its end, or nothing. ``top``, ``git``: the
    repository's working tree, and its git folder.
    """

    def __init__(self, commit: str, revision: str, project: Project) -> None:
        """Find out where the project lies in its repository. Raises BadRevision."""
        self.commit, self.revision, self.project = commit, revision, project
        asked = ("--show-prefix", "--show-toplevel", "--absolute-git-dir")
        there = git(revision, project.root, "rev-parse", *asked)
        if there.returncode:
            raise BadRevision(f"{revision}: {project.root} is not a git checkout ({message(there)})")
        self.prefix, top, folder = os.fsdecode(there.stdout).removesuffix("\n").split("\n")
        self.top, self.git = Path(top), Path(folder)

    @property
    def name(self) -> str:
        """The name of the folder: other projects of a repository have other ones."""
        parts = (self.prefix, self.project.module, self.project.baselines_folder, self.project.runs_folder)
        return f"{self.commit}-{digest_of(*map(os.fsencode, parts))}"

    def is_whole(self, folder: Path) -> bool:
        """Tell whether an unpacked commit is as it was, and still lacks what this clone lacks."""
        listing = _listing(folder)
        if listing.get("files") != _state(folder):
            return False
        return not any(self.source_of(path, commit) for path, commit in listing.get("lacking", ()))

    def unpack(self, folder: Path) -> None:
        """Unpack into ``folder``, whole or not at all; another process may do the same. Raises BadRevision."""
        without = (self.project.baselines_folder, self.project.runs_folder)
        wanted = [f":(literal){self.prefix}" if self.prefix else "."]
        wanted += [f":(exclude,literal){self.prefix}{each}" for each in without]
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                whole = Path(temporary, "tree")
                lacking = self._write(self.git, self.commit, whole, "", wanted)
                tree = whole / self.prefix
                self._check(tree, lacking)
                listing = {"files": _state(tree), "lacking": lacking}
                (tree / LISTING).write_text(json.dumps(listing), encoding="utf-8")
                try:
                    tree.rename(folder)
                except OSError:  # another process was quicker
                    if not folder.exists():
                        raise
        except OSError as error:
            raise BadRevision(f"{self.revision}: no kernels can be unpacked in {folder.parent} ({error})") from None

    def _write(self, source: Path, commit: str, whole: Path, at: str, wanted: Sequence[str]) -> list[tuple[str, str]]:
        """Write a commit's files, and those of its submodules, to ``at`` in the folder ``whole``.

        ``source``: a git folder. Returns path and commit of each submodule that is not in this clone. A private index
        is used and not ``git archive``, which obeys export-ignore and export-subst.
        """
        tree = whole / at
        tree.mkdir(parents=True, exist_ok=True)
        index = whole.with_name("index")
        index.unlink(missing_ok=True)
        where = {"GIT_DIR": str(source), "GIT_WORK_TREE": str(tree), "GIT_INDEX_FILE": str(index), "LC_ALL": "C"}

        def ask(*arguments: str, given: bytes = b"") -> bytes:
            done = git(self.revision, tree, *PLAIN, *arguments, given=given, variables=where)
            if done.returncode or b"error:" in done.stderr:  # checkout-index is content with files that it cannot write
                raise BadRevision(f"{self.revision}: it cannot be unpacked ({message(done)})")
            return done.stdout

        ask("read-tree", "--no-sparse-checkout", commit)
        entries = [
            os.fsdecode(entry).split("\t", 1) for entry in ask("ls-files", "-sz", "--", *wanted).split(b"\0")[:-1]
        ]
        files = [path for about, path in entries if not about.startswith(SUBMODULE)]
        ask("checkout-index", "-z", "--stdin", given=os.fsencode("".join(f"{path}\0" for path in files)))
        lacking = []
        for about, path in entries:
            if about.startswith(SUBMODULE):
                recorded, place = about.split()[1], os.path.join(at, path)
                if folder := self.source_of(place, recorded):
                    lacking += self._write(folder, recorded, whole, place, ["."])
                else:
                    (tree / path).mkdir(parents=True, exist_ok=True)  # as git does
                    lacking.append((place, recorded))
        return lacking

    def source_of(self, path: str, commit: str) -> Path | None:
        """Find the git folder in this clone that has a submodule's commit, whatever the submodule was called then."""
        there = git(self.revision, self.top, "-C", path, "rev-parse", "--absolute-git-dir")
        here = [] if there.returncode else [Path(os.fsdecode(there.stdout).removesuffix("\n"))]
        common = self.git / "commondir"  # of a linked working tree
        parents = [self.git, *([self.git / common.read_text().strip()] if common.exists() else [])]
        for folder in itertools.chain(here, *(_git_folders(parent / "modules") for parent in parents)):
            where = {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(self.top)}
            if not git(self.revision, self.top, "cat-file", "-e", f"{commit}^{{commit}}", variables=where).returncode:
                return folder
        return None

    def _check(self, tree: Path, lacking: Sequence[tuple[str, str]]) -> None:
        """Leave out links to places outside of the tree. Raises BadRevision for one among the kernels, and without any.

        A link of the engine's is as one of the kernels'.
        """
        path = self.project.module.replace(".", "/")
        kernels = Path(path).parent if (tree / f"{path}.py").is_file() else Path(path)
        for folder, folders, files in os.walk(tree):
            for link in filter(Path.is_symlink, (Path(folder, name) for name in (*folders, *files))):
                if not link.readlink().is_absolute() and link.resolve().is_relative_to(tree.resolve()):
                    continue
                own = link.relative_to(tree)
                if any(own.is_relative_to(each) for each in (kernels, ENGINE_FOLDER)):
                    problem = shortened(f"{own} is a link to {link.readlink()}, outside of the revision's kernels/")
                    raise BadRevision(f"{self.revision}: {problem}; nothing outside of it is read for a comparison")
                link.unlink()
        if not (tree / kernels).is_dir():
            why = _said(lacking) or f"there is neither {self.prefix}{path}/ nor {self.prefix}{path}.py"
            raise BadRevision(f"{self.revision}: it has no kernels ({why})")


def _git_folders(folder: Path) -> Iterator[Path]:
    """Yield the git folders of submodules below a folder ``modules``, those of their submodules too."""
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (each / "HEAD").is_file():
            yield each
            yield from _git_folders(each / "modules")
        else:
            yield from _git_folders(each)  # a name with slashes


def _state(tree: Path) -> dict[str, list[int]]:
    """Return what would show that a file was changed, removed or added, by its path.

    What Python compiled is left out: it checks that itself.
    """
    state = {}
    for folder, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in (*files, *(each for each in folders if os.path.islink(os.path.join(folder, each)))):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            state[path.removeprefix(f"{tree}/")] = [about.st_mode, about.st_size, about.st_mtime_ns, about.st_ctime_ns]
    state.pop(LISTING, None)
    return state


def _listing(tree: Path) -> dict[str, Any]:
    try:
        listing = json.loads((tree / LISTING).read_bytes())
    except (OSError, ValueError):
        return {}
    return listing if isinstance(listing, dict) else {}


def missing_submodules(tree: Path) -> str:
    """Say which submodules an unpacked commit lacks, and how to get them; an empty text where it lacks none."""
    return _said(_listing(tree).get("lacking", ()))


def _said(lacking: Sequence[Sequence[str]]) -> str:
    return "; ".join(
        f"{path} is a submodule whose commit {commit[:12]} is not in this clone: "
        f"`git submodule update --init --recursive` or `git -C {shlex.quote(path)} fetch origin {commit}`"
        for path, commit in lacking
    )


@contextlib.contextmanager
def naming_missing_submodules(tree: Path) -> Iterator[None]:
    """Add to the first line of an error in an unpacked commit which submodules it lacks."""
    try:
        yield
    except (BadRevision, CompileError) as error:
        if not (lacks := missing_submodules(tree)):
            raise
        first, *rest = str(error).split("\n")
        raise type(error)("\n".join([f"{first}; {lacks}", *rest])) from None


def _remove_unused(tree: Path, seconds: float) -> bool:
    """Remove an unpacked commit that nobody has used for so long; other runs find it whole or not at all."""
    is_unused = tree.stat().st_mtime < time.time() - seconds
    if is_unused:
        with tempfile.TemporaryDirectory(dir=tree.parent, ignore_cleanup_errors=True) as folder:
            tree.rename(Path(folder, tree.name))
    return is_unused


def git(
    revision: str, root: Path, *arguments: str, given: bytes = b"", variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a repository. Raises BadRevision, which names ``revision``, where there is no git."""
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=False, input=given, env={**os.environ, **variables})
    except OSError as error:
        raise BadRevision(f"{revision} needs git, which cannot be run ({error}): apt install git") from None


def message(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the first line of git's error message, fit to be printed."""
    return shortened((done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[0])
