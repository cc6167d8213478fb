"""Prints how far processes differ for each case: ``python -m tools.spread RUN...`` of one GPU and the same code.

A run is a process. Its figure for a case is the median of its samples; the spread is the standard deviation of these
medians over runs, relative to their mean. Cases are sorted by length: a call stands beside kernels of its length.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

from warpwatch.runs.saved import read_run


def medians(paths: list[Path]) -> dict[str, list[float]]:
    """Return for each case the median of each run, in seconds. Raises BadRun."""
    found = defaultdict[str, list[float]](list)
    for path in paths:
        for case, timed in read_run(path).cases.items():
            found[case].append(statistics.median(timed.samples))
    return found


def main() -> None:
    """Print a table of all cases that every run has."""
    paths = [Path(each) for each in sys.argv[1:]]
    if len(paths) < 3:
        raise SystemExit("a spread needs at least three runs: python -m tools.spread RUN RUN RUN...")
    print(f"{'case':56} {'median':>12} {'spread':>8} {'range':>8}  of {len(paths)} processes")
    for case, each in sorted(medians(paths).items(), key=lambda item: statistics.median(item[1])):
        if len(each) == len(paths):
            mean = statistics.mean(each)
            spread, width = statistics.stdev(each) / mean, (max(each) - min(each)) / mean
            print(f"{case:56} {1e6 * statistics.median(each):9.2f} µs {spread:8.3%} {width:8.3%}")


if __name__ == "__main__":
    main()
