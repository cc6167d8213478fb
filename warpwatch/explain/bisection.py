"""Since when a case is slower: commits, the machine codes that they have, and the steps between these by halving."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from warpwatch.catalogue.cases import Case
from warpwatch.compare.code_difference import first_line
from warpwatch.compare.comparison import load_in_background
from warpwatch.compare.pairs import Pair, PairComparison
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.worker import Kernel, Worker
from warpwatch.revision.commit import UNSHALLOW, CommitCase, find_commit, git, is_ancestor, is_shallow
from warpwatch.revision.declared import BadRevision, shortened
from warpwatch.runs.identity import difference
from warpwatch.timing.measurement import Again, Measured
from warpwatch.timing.sampling import get_ready
from warpwatch.timing.side_by_side import OtherSideFailed
from warpwatch.verdict.rule import MIN_PROCESSES, Decision, Verdict

Range = tuple[int, int]  # from one code to a later one


@dataclass(frozen=True)
class Unusable:
    """Reason why a code cannot be measured, such as wrong results. ``code``: which."""

    code: int
    reason: str


Measure = Callable[[Sequence[Range]], Mapping[Range, Decision | Unusable]]


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """Result of a bisection.

    ``ends``: how the last code that can be measured differs from the first; None where fewer than two can be.
    ``steps``: neighbouring codes, without those that cannot be measured, of which the later is slower. ``ranges``:
    those that are slower as a whole while no half of them is by itself. ``unusable``: why, by code.
    """

    ends: Decision | None
    first: int = 0
    last: int = 0
    steps: Mapping[Range, Decision] = field(default_factory=dict)
    ranges: Mapping[Range, Decision] = field(default_factory=dict)
    unusable: Mapping[int, str] = field(default_factory=dict)


def search(count: int, measure: Measure) -> Bisection:
    """Find the steps among codes 0 to ``count`` - 1. ``measure``: decides about several pairs of codes at once.

    Both ends come first. Where the later is slower, both halves are measured, and so on, all halves of one depth at
    once. A code that cannot be measured is left out, as `git bisect skip` does.
    """
    so_far = _SoFar(measure, list(range(count)))
    while len(so_far.usable) > 1 and not so_far.ask([(so_far.usable[0], so_far.usable[-1])]):
        pass
    if len(so_far.usable) < 2:
        return Bisection(ends=None, unusable=so_far.unusable)
    ends = (so_far.usable[0], so_far.usable[-1])
    steps, ranges = dict[Range, Decision](), dict[Range, Decision]()
    waiting = [ends] if so_far.is_slower(ends) else []
    while waiting:
        halves = {key: _halves(key, so_far.usable) for key in waiting}
        if not so_far.ask([half for both in halves.values() for half in both]):
            continue  # some middle cannot be used: choose others
        waiting = []
        for key, both in halves.items():
            slower = [half for half in both if so_far.is_slower(half)]
            if not slower:
                (ranges if both else steps)[key] = so_far.decided[key]
            waiting += slower
    return Bisection(
        ends=so_far.decided[ends], first=ends[0], last=ends[1], steps=steps, ranges=ranges, unusable=so_far.unusable
    )


@dataclass
class _SoFar:
    """State of a search: the codes that can be measured, and the pairs that were."""

    measure: Measure
    usable: list[int]
    unusable: dict[int, str] = field(default_factory=dict)
    decided: dict[Range, Decision] = field(default_factory=dict)

    def ask(self, ranges: Sequence[Range]) -> bool:
        """Measure the ranges that are not decided yet; returns whether all their codes could be measured."""
        good = True
        for key, each in self.measure([key for key in ranges if key not in self.decided]).items():
            if isinstance(each, Unusable):
                good = False
                self.unusable[each.code] = each.reason
                self.usable = [code for code in self.usable if code != each.code]
            else:
                self.decided[key] = each
        return good

    def is_slower(self, key: Range) -> bool:
        return self.decided[key].verdict == Verdict.SLOWER


def _halves(key: Range, usable: Sequence[int]) -> list[Range]:
    """Split a range at the code in its middle; nothing where no usable code lies between its ends."""
    between = [code for code in usable if key[0] < code < key[1]]
    if not between:
        return []
    middle = between[len(between) // 2]
    return [(key[0], middle), (middle, key[1])]


FIELDS = "%H%x00%an%x00%as%x00%s"  # of git's log: commit, author, day, subject


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit as git describes it."""

    id: str
    author: str
    day: str
    subject: str

    def __str__(self) -> str:
        return f"{self.id[:12]} {self.day} {shortened(self.author)}: {shortened(self.subject)}"


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Commits that follow each other and do the same work for a case, but for how its inputs are drawn.

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
        raise BadRevision(f"{text} is not a range: give GOOD..BAD, such as v1.0..main or HEAD~40..HEAD")
    first, last = find_commit(good, root), find_commit(bad or "HEAD", root)
    if not is_ancestor(first, last, root):
        cure = UNSHALLOW if is_shallow(root) else "name the older one first"
        raise BadRevision(
            f"{good} is not an ancestor of {bad or 'HEAD'}, so no commits lead from one to the other: {cure}"
        )
    way = ["--first-parent"] if first_parent else ["--topo-order"]
    listed = git(text, root, "log", "-z", "--reverse", *way, f"--format={FIELDS}", f"{first}..{last}")
    start = git(text, root, "log", "-z", "-1", f"--format={FIELDS}", first)
    if listed.returncode or start.returncode:
        raise BadRevision(
            f"git cannot list {text}: {shortened((listed.stderr or start.stderr).decode(errors='replace'))}"
        )
    one, others = (done.stdout.decode(errors="replace").split("\0") for done in (start, listed))
    words = iter([*one[:4], *others])
    commits = [Commit(id=i, author=a, day=d, subject=s) for i, a, d, s in zip(words, words, words, words, strict=False)]
    if len(commits) < 2:
        raise BadRevision(f"{text} holds no commit: both name {first[:12]}")
    return commits


def stretches(commits: Sequence[Commit], built: Mapping[str, CommitCase | str]) -> tuple[list[Stretch], dict[str, str]]:
    """Group commits by the work that they do for a case, and say why commits have none, by their ids.

    ``built``: by commit, what it has for the case, or why it has nothing.
    """
    groups: list[Stretch] = []
    why: dict[str, str] = {}
    skipped: list[Commit] = []
    newest: CommitCase | None = None
    for commit in commits:
        each = built[commit.id]
        problem = "" if isinstance(each, str) or isinstance(each.image, Image) else first_line(each.image)
        if problem or isinstance(each, str):
            why[commit.id] = problem or str(each)
            skipped.append(commit)
            continue
        changed = difference(newest.identity if newest else None, each.identity, same_source=True)
        drawn = (commit,) if "draw" in changed.changed else ()
        if newest and not changed.besides("draw"):
            last = groups[-1]
            groups[-1] = replace(last, commits=(*last.commits, commit), drawn=(*last.drawn, *drawn))
        else:
            groups.append(Stretch(built=each, commits=(commit,), skipped=tuple(skipped), drawn=drawn))
        newest, skipped = each, []
    return groups, why


def measure(
    case: Case,
    built: Sequence[CommitCase],
    ranges: Sequence[Range],
    worker: Worker,
    *,
    cold: bool,
    progress: Callable[[int, int], None],
) -> dict[Range, Decision | Unusable]:
    """Compare pairs of codes of a case, all in the same fresh processes. Raises DeviceError where no device answers.

    ``built``: what commits have for the case, which compiles there; ``ranges``: numbers of two of them each.
    """
    decisions: dict[Range, Decision | Unusable] = {}
    comparison = PairComparison()
    worker.renew()
    worker.open_spares(MIN_PROCESSES, get_ready, "cold" if cold else "warm")
    load_in_background()
    worker.await_spares()
    names = {f"{old}-{new}": (old, new) for old, new in ranges}
    for name, (old, new) in names.items():
        pair = _pair(case, built[old], built[new], worker, cold)
        try:
            pair.take(0)
            comparison.pairs[name] = pair
        except (DeviceError, WrongResult, OtherSideFailed) as error:
            wrong = old if isinstance(error, OtherSideFailed) else new
            decisions[old, new] = Unusable(wrong, str(error).partition("\n")[0])
        progress(len(decisions) + len(comparison.pairs), len(ranges))
    again = Again(cold, progress, {})
    if comparison.pairs:
        decisions |= {names[name]: decision for name, decision in comparison.decide(again).items()}
        decisions |= {names[name]: Unusable(names[name][1], why) for name, why in again.broken.items()}
    return decisions


def _pair(case: Case, old: CommitCase, new: CommitCase, worker: Worker, cold: bool) -> Pair:
    assert isinstance(old.image, Image)
    assert isinstance(new.image, Image)
    kernel = Kernel(worker=worker, build=case.build, image=new.image)
    measured = Measured(kernel=kernel, case=case, kind="cold" if cold else "warm")
    return Pair(measured=measured, other=old.other, other_image=old.image.path, image=new.image.path, newer=new.other)
