"""Public names for programs that read saved runs.

A run is the file that ``pytest bench`` saves, or that ``--benchmark-json`` names: pytest-benchmark's JSON with the GPU,
the commit, and of each case its samples in seconds, its facts, its verdict and its faults.

Examples
--------
>>> run = read_run(Path("bench/recordings/tuning/baselines/nvidia-h200/0034_h200.json.xz"))
>>> median(run.cases["hello-hello-5x5-4-none"].samples)
4.816e-05
"""

from warpwatch.runs.faults import Fault, Place
from warpwatch.runs.record import (
    BadRun,
    CaseRecord,
    Commit,
    Facts,
    Gpu,
    Outcome,
    RunRecord,
    TestRecord,
    by_gpu,
    read_run,
    read_runs,
)
from warpwatch.verdict.contracts import Clause, Standing
from warpwatch.verdict.rule import Decision, Verdict
from warpwatch.verdict.totals import Total

__all__ = [
    "BadRun",
    "CaseRecord",
    "Clause",
    "Commit",
    "Decision",
    "Facts",
    "Fault",
    "Gpu",
    "Outcome",
    "Place",
    "RunRecord",
    "Standing",
    "TestRecord",
    "Total",
    "Verdict",
    "by_gpu",
    "read_run",
    "read_runs",
]
