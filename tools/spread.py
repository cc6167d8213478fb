"""Prints how far processes differ for each case: ``python -m tools.spread RUN...`` of one GPU and the same code.

A run is a process. Its figure for a case is the median of its samples; the spread is the standard deviation of these
medians over runs, relative to their mean. Cases are sorted by length: a call stands beside kernels of its length.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from warpwatch.runs.record import BadRun, RunRecord, read_run


def medians(runs: Sequence[RunRecord]) -> dict[str, list[float]]:
    """Return for each case the median of each run that has it, in seconds."""
    found = defaultdict[str, list[float]](list)
    for run in runs:
        for case, timed in run.cases.items():
            found[case].append(statistics.median(timed.samples))
    return found


def table(runs: Sequence[RunRecord]) -> list[str]:
    """Return a line for each case that every run has, and one for those that are left out.

    Raises ValueError where these runs have no spread: too few, of several GPUs or commits, or without a common case.
    """
    if len(runs) < 3:
        raise ValueError(f"a spread needs at least three runs, and these are {len(runs)}: give RUN RUN RUN...")
    for what, values in (("GPUs", {run.gpu_uuid for run in runs}), ("commits", {str(run.commit) for run in runs})):
        if len(values) > 1:
            raise ValueError(f"these runs are of several {what}: {', '.join(sorted(values))}; give runs of one")
    found = medians(runs)
    common = {case: each for case, each in found.items() if len(each) == len(runs)}
    if not common:
        raise ValueError("no case is in all of these runs: give runs of the same cases")
    lines = [f"{'case':56} {'median':>12} {'spread':>8} {'range':>8}  of {len(runs)} processes"]
    for case, each in sorted(common.items(), key=lambda item: statistics.median(item[1])):
        mean = statistics.mean(each)
        spread, width = statistics.stdev(each) / mean, (max(each) - min(each)) / mean
        lines.append(f"{case:56} {1e6 * statistics.median(each):9.2f} µs {spread:8.3%} {width:8.3%}")
    if missing := len(found) - len(common):
        lines.append(f"{missing} cases are left out: not every run has them")
    return lines


def main() -> None:
    """Print the table of the runs that the command line names."""
    try:
        print("\n".join(table([read_run(Path(each)) for each in sys.argv[1:]])))
    except (BadRun, ValueError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
