"""Names for programs that read saved runs.

A run is the file that ``pytest bench`` saves: pytest-benchmark's JSON, with the GPU, and what Warpwatch knows of each
case.

Examples
--------
>>> from warpwatch.results import read_run
>>> run = read_run(Path("bench/baselines/nvidia-h200/0001.json.gz"))  # doctest: +SKIP
>>> {name: case.seconds for name, case in run.cases.items()}  # doctest: +SKIP
"""

from warpwatch.runs.saved import BadRun, Commit, Facts, Gpu, Run, Timed, by_gpu, read_run, read_runs

__all__ = ["BadRun", "Commit", "Facts", "Gpu", "Run", "Timed", "by_gpu", "read_run", "read_runs"]
