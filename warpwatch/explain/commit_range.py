"""Lists the commits of a range, oldest first, with the machine code that each has for a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warpwatch.compare.code_difference import first_line
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.explain.commits import CommitCase
from warpwatch.revision.commit import UNSHALLOW, find_commit, git, is_ancestor, is_shallow
from warpwatch.revision.declared import BadRevision, shortened
from warpwatch.runs.identity import difference

FIELDS = "%H%x00%an%x00%as%x00%s"  # of git's log: commit, author, day, subject


@dataclass(frozen=True, kw_only=True)
class Commit:
    """Holds a commit as git describes it."""

    id: str
    author: str
    day: str
    subject: str

    def __str__(self) -> str:
        return f"{self.id[:12]} {self.day} {shortened(self.author)}: {shortened(self.subject)}"


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Holds commits that follow each other and do the same work for a case, but for how its inputs are drawn.

    ``skipped``: commits before them, since the last stretch, that have no code; any may be the cause. ``drawn``: those
    of them that changed how inputs are drawn.
    """

    built: CommitCase
    commits: tuple[Commit, ...]
    skipped: tuple[Commit, ...] = ()
    drawn: tuple[Commit, ...] = ()


def list_commits(text: str, root: Path, *, first_parent: bool) -> list[Commit]:
    """List the commits of GOOD..BAD with GOOD as the first. Raises BadRevision."""
    good, dots, bad = text.partition("..")
    if not dots or not good or bad.startswith(".") or ".." in bad:
        raise BadRevision(f"{text} is no range: give GOOD..BAD, such as v1.0..main or HEAD~40..HEAD")
    first, last = find_commit(good, root), find_commit(bad or "HEAD", root)
    if not is_ancestor(first, last, root):
        cure = UNSHALLOW if is_shallow(root) else "name the older one first"
        raise BadRevision(f"{good} is no ancestor of {bad or 'HEAD'}, so no commits lead from one to the other: {cure}")
    way = ["--first-parent"] if first_parent else ["--topo-order"]
    listed = git(text, root, "log", "-z", "--reverse", *way, f"--format={FIELDS}", f"{first}..{last}")
    start = git(text, root, "log", "-z", "-1", f"--format={FIELDS}", first)
    if listed.returncode or start.returncode:
        raise BadRevision(
            f"git cannot list {text}: {shortened((listed.stderr or start.stderr).decode(errors='replace'))}"
        )
    one, others = (done.stdout.decode(errors="replace").split("\0") for done in (start, listed))
    words = [*one[:4], *others]
    fields = [words[i : i + 4] for i in range(0, len(words) - 3, 4)]
    commits = [Commit(id=each[0], author=each[1], day=each[2], subject=each[3]) for each in fields]
    if len(commits) < 2:
        raise BadRevision(f"{text} holds no commit: both name {first[:12]}")
    return commits


def stretches(commits: Sequence[Commit], built: Mapping[str, CommitCase | str]) -> tuple[list[Stretch], dict[str, str]]:
    """Group commits by the work that they do for a case, and say why commits have none, by their ids.

    ``built``: by commit, what it has for the case, or why it has nothing.
    """
    found: list[Stretch] = []
    why: dict[str, str] = {}
    skipped: list[Commit] = []
    newest: CommitCase | None = None
    for commit in commits:
        each = built[commit.id]
        problem = each if isinstance(each, str) else _problem(each)
        if problem or isinstance(each, str):
            why[commit.id] = problem
            skipped.append(commit)
            continue
        changed = difference(newest.identity if newest else None, each.identity, same_source=True)
        drawn = (commit,) if "draw" in changed.changed else ()
        if newest and not changed.besides("draw"):
            last = found[-1]
            found[-1] = replace(last, commits=(*last.commits, commit), drawn=(*last.drawn, *drawn))
        else:
            found.append(Stretch(built=each, commits=(commit,), skipped=tuple(skipped), drawn=drawn))
        newest, skipped = each, []
    return found, why


def _problem(each: CommitCase) -> str:
    return first_line(each.image) if isinstance(each.image, CompileError) else ""
