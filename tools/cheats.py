"""Times the cheats of tests/cheats and the honest kernels beside them, and prints what each of them got.

``python -m tools.cheats``, with the device that the machine has; ``--device=software`` is passed on, as any option of
pytest is, ``--untrusted`` among them. The exit status is 1 where a cheat gained something, or an honest kernel was
accused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from subprocess import CompletedProcess

from tests.cheats.expected import CHEATS, GAIN, GAIN_ON_GPU, Cheat
from tests.cheats.project import (
    HONEST,
    RIGHT,
    TIME,
    Outcome,
    honest_cases,
    outcome_of,
    own_work,
    run,
    run_alone,
    write_project,
)
from tests.project import ROOT

WORDS = 110  # characters of a message


def pytest(folder: Path, *arguments: str) -> CompletedProcess[str]:
    """Run pytest with the plugin in a folder."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    command = [sys.executable, "-P", "-m", "pytest", "-p", "warpwatch.plugin", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def describe(
    cheat: Cheat, outcomes: Mapping[str, Outcome], on_gpu: bool, judged_apart: bool = False
) -> tuple[bool, str]:
    """Return whether a cheat gained something, and what it got, in words.

    ``judged_apart``: no two samples have the same inputs, so that what keeps results may have the work's figure.
    """
    outcome, work = outcome_of(cheat, outcomes, on_gpu), outcomes[own_work(cheat, on_gpu)].least
    if outcome.figure is None:
        return False, "no figure: " + _first(cheat, outcome.message)
    share = outcome.figure / work if work else 0.0
    may_work = cheat.may_work or judged_apart or (cheat.may_work_on_gpu if on_gpu else cheat.on_gpu)
    gained = share < (GAIN_ON_GPU if on_gpu else GAIN) or not may_work
    return gained, f"{'GOT' if gained else 'did the work:'} {outcome.figure * 1e6:.1f} µs, {share:.2f} of the work's"


def _first(cheat: Cheat, message: str) -> str:
    """Return the line of a message that says what the table expects, or its first."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["(nothing was said)"]
    line = next((line for line in lines for words in cheat.says if words in line), f"(other words) {lines[0]}")
    return line if len(line) <= WORDS else line[: WORDS - 1] + "…"


def show(cheats: Iterable[Cheat], outcomes: Mapping[str, Outcome], on_gpu: bool, judged_apart: bool) -> int:
    """Print a line for each cheat, and return how many gained something."""
    gained = 0
    for cheat in cheats:
        has_gained, words = describe(cheat, outcomes, on_gpu, judged_apart)
        gained += has_gained
        print(f"{cheat!s:34}{words}", flush=True)
    return gained


def _measured(outcomes: Mapping[str, Outcome]) -> list[str]:
    return [name for name, outcome in outcomes.items() if outcome.figure]


def main(options: list[str]) -> int:
    """Run everything and print the table."""
    on_gpu = "--device=software" not in options
    few = ["--benchmark-min-rounds=20", f"--benchmark-max-time={0.2 if on_gpu else 0.000001:f}"]
    with tempfile.TemporaryDirectory(prefix="cheats-") as temporary:
        folder = write_project(Path(temporary) / "together")
        together = [cheat for cheat in CHEATS if not cheat.untrusted]
        cases = {case for cheat in together for case in (cheat.chosen(on_gpu), own_work(cheat, on_gpu))}
        gained = show(together, run(pytest, folder, TIME, cases, *few, *options), on_gpu, "--untrusted" in options)
        for i, cheat in enumerate(cheat for cheat in CHEATS if cheat.untrusted):
            alone = write_project(Path(temporary) / f"alone{i}")
            try:
                outcomes = run_alone(pytest, alone, cheat, on_gpu, *few, *options)
            except RuntimeError as error:  # a run that it broke has no figure either
                broken = Outcome(message=str(error), figure=None, least=None)
                outcomes = dict.fromkeys((cheat.case(on_gpu), own_work(cheat, on_gpu)), broken)
            gained += show([cheat], outcomes, on_gpu, judged_apart=True)
        wrong = run(pytest, folder, RIGHT, HONEST, *options)
        timed = run(pytest, folder, TIME, honest_cases(HONEST, on_gpu), *few, *options)
    accused = {name: each.message for outcomes in (wrong, timed) for name, each in outcomes.items() if each.message}
    accused |= {name: "no figure" for name in honest_cases(HONEST, on_gpu) if name not in {*accused, *_measured(timed)}}
    for name, message in accused.items():
        print(f"{name}: ACCUSED: {message.strip().splitlines()[0]}")
    print(f"cheats that gained something: {gained} of {len(CHEATS)}")
    print(f"honest kernels accused: {sum(any(n.startswith(h) for n in accused) for h in HONEST)} of {len(HONEST)}")
    return int(bool(gained or accused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
