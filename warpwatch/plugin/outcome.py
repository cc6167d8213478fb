"""Decides whether a comparison fails the run, and reports at the end of it that nothing was compared.

A run that was asked to compare and compared nothing must not look like one that found every kernel as fast as before.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from warpwatch.compare.comparison import COMPARED, Comparison
from warpwatch.compare.energy import energies_in, takes_more
from warpwatch.compare.self_check import SelfCheck
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.plugin.options import spelled, value_of
from warpwatch.revision.commit import check_name
from warpwatch.revision.declared import BadRevision
from warpwatch.verdict.rule import Decision, Verdict

NOT_COMPARED = "not compared"  # a count in pytest's last line, which keeps it from being green
SELF_CHECK = "--self-check"
ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


@dataclass
class Asked:
    """The comparison that a run was asked for.

    ``option``: --benchmark-compare, --against or --self-check, or empty. ``required``: True where comparing nothing is
    an error. ``nothing``: the reason why nothing can be compared, once that is known. ``advice``: lines on what to do
    then.
    """

    option: str = ""
    required: bool = False
    nothing: str = ""
    advice: Sequence[str] = field(default_factory=list)

    def refuse(self) -> None:
        """Raise UsageError before anything is measured, where nothing can be compared and that is an error."""
        if self.required and self.nothing:
            what = self.nothing if self.option == "--benchmark-compare" else f"{self.option}: {self.nothing}"
            raise pytest.UsageError("\n".join([f"{what}, so nothing would be compared", *self.advice]))

    def last_words(self, decisions: Mapping[str, Decision], compared: int) -> list[str]:
        """Return the last lines of a run that was asked to compare and compared nothing."""
        if not self.option or compared:
            return []
        why = self.nothing or why_nothing(decisions)
        said = f"NOTHING WAS COMPARED ({self.option}): {why}; no kernel could be called slower"
        return [said, *self.advice]


def why_nothing(decisions: Mapping[str, Decision]) -> str:
    """Say why none of these cases was compared."""
    reasons = Counter(
        f"{decision.verdict}{': ' * bool(decision.reason)}{decision.reason}" for decision in decisions.values()
    )
    told = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common(3))
    return told or "no case was measured to its end"


def uncompared(asked: Asked, decisions: Mapping[str, Decision], ran: Collection[str], compared: int) -> list[str]:
    """List the cases that were compared with nothing, in a run that was asked to compare."""
    if asked.option and not compared:
        return list(ran)
    return [name for name, decision in decisions.items() if decision.verdict not in COMPARED]


def fails(asked: Asked, comparison: Comparison, reasons: Collection[str]) -> bool:
    """Say whether the comparison fails a run whose tests all passed. ``reasons``: of --fail-on."""
    decisions = comparison.decisions
    if ("common" in reasons and comparison.alarm) or ("energy" in reasons and takes_more(energies_in(comparison))):
        return True
    if asked.option and not comparison.compared and (asked.required or "incomparable" in reasons):
        return True
    verdicts = {decision.verdict for decision in decisions.values()}
    whole = getattr(comparison, "whole", comparison)
    if Verdict.INCOMPARABLE in verdicts and isinstance(whole, RevisionComparison) and whole.lacks:
        return True  # a case may have needed a submodule that is not here
    return any(str(verdict) in reasons for verdict in verdicts & {Verdict.UNSURE, Verdict.INCOMPARABLE})


def nothing_ran(config: pytest.Config) -> str:
    """Say that no test is left, and by which selection."""
    chosen = [f"-k {config.option.keyword!r}" * bool(config.option.keyword)]
    chosen += [f"-m {config.option.markexpr!r}" * bool(config.option.markexpr), " ".join(config.args)]
    return f"NOTHING RAN: no test is left of those that {' and '.join(filter(None, chosen))} select"


def nothing_tested(reporter: pytest.TerminalReporter) -> list[str]:
    """Return the last line of a run whose tests were all skipped, which would otherwise end like a good one."""
    skipped = len(reporter.stats.get("skipped", ()))
    if not skipped or any(reporter.stats.get(kind) for kind in ("passed", "failed", "error", "xfailed", "xpassed")):
        return []
    return [f"NOTHING WAS TESTED: all {skipped} tests were skipped; the lines above say what each of them needs"]


def asked_for(config: pytest.Config, compare: str | bool, against: str | None) -> Asked:
    """Return the comparison that the options ask for. Raises UsageError for two, or for an empty name."""
    words = {name: spelled(config, name) for name in ("against", "self-check")}
    chosen = {
        "--benchmark-compare": compare,
        words["against"]: against,
        words["self-check"]: value_of(config, "self-check"),
    }
    if isinstance(compare, str) and not compare.strip():
        raise pytest.UsageError("--benchmark-compare= names no run: leave the `=` out to compare with the baseline")
    if against is not None:
        try:
            check_name(against)
        except BadRevision as error:
            raise pytest.UsageError(worded(config, error)) from None
    if len(named := [name for name, value in chosen.items() if value]) > 1:
        raise pytest.UsageError(f"{' and '.join(named)} are different things to do: choose one")
    option = next(iter(named), "")
    required = option != "--benchmark-compare" or bool(value_of(config, "require-baseline"))
    return Asked(option, required=bool(option) and required)


def worded(config: pytest.Config, error: Exception) -> str:
    """Return the message of an error on a revision behind the option that took it, as it is written here."""
    return f"{spelled(config, 'against')}={error}"


def refuse_rules_without_comparison(config: pytest.Config, compare: str | bool, asked: Asked) -> None:
    """Refuse options that say when a comparison fails the run, where there is no comparison. Raises UsageError."""
    word = functools.partial(spelled, config)
    named = {"baseline": compare, "require-baseline": compare, "fail-on": asked.option}
    for name, comparison in named.items():
        if value_of(config, name) and not comparison:
            others = "" if name != "fail-on" else f", {word('against')} or {word('self-check')}"
            said = f"{word(name)} compares nothing by itself: give --benchmark-compare{others} too"
            raise pytest.UsageError(said)


def facts_of_run(comparison: Comparison, failed: Collection[str], *, whole: bool) -> dict[str, Any]:
    """Return fields of ``About``, which a saved run records of itself.

    ``failed``: cases that failed, slower ones among them. ``whole``: all cases were timed.
    """
    slower = {name for name, decision in comparison.decisions.items() if decision.verdict == Verdict.SLOWER}
    compared_with = getattr(comparison, "whole", comparison)
    runs = compared_with.runs if isinstance(compared_with, BaselineComparison) else ()
    commit = getattr(compared_with, "commit", "")
    return {
        "failed": sorted(set(failed) - slower),
        "slower": sorted(slower),
        "whole": whole,
        "against": SELF_CHECK if isinstance(comparison, SelfCheck) else commit,
        "decisions": comparison.decisions,
        "controls": getattr(comparison, "controls", {}),
        "energies": energies_in(comparison),
        "past": [run.path.name for run in runs],
        "notes": comparison.describe() if comparison.active else (),
    }
