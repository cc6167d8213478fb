"""Tests what a benchmark run prints at its end: little by default, everything with -v, and what to do next."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.checkout import FEW, Bench
from warpwatch.plugin.benchmark import Progress

TABLE = "Name (time in us)"
MANY = ("-k", "matmul and float32 and not host and not vendor and (128x128x128 or 256x256x256)")


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A checkout without a baseline."""
    return Bench(tmp_path_factory.mktemp("unknown"))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A checkout with a baseline of seventeen cases."""
    checkout = Bench(tmp_path_factory.mktemp("judged"))
    checkout.fill_baseline()
    return checkout


@pytest.mark.slow
def test_few_cases_have_a_table_and_a_new_gpu_the_command_for_its_baseline(unknown: Bench) -> None:
    done = unknown.bench()
    assert done.returncode == 0
    assert TABLE in done.stdout
    said = "there is no baseline for fake-gpu-1 yet; `python -m warpwatch baseline record` makes one\n"
    assert said in done.stdout
    assert "times of" not in done.stdout


def test_many_cases_have_a_line_that_says_where_their_times_are(unknown: Bench) -> None:
    done = unknown.bench(*MANY, few=False)
    assert TABLE not in done.stdout
    (count, command) = re.findall(r"^times of (\d+) cases: (python -m warpwatch report .+); -v", done.stdout, re.M)[0]
    assert int(count) > 20
    assert Path(unknown.folder, shlex.split(command)[-1]).is_file()  # a path with a blank is quoted


@pytest.mark.once
@pytest.mark.parametrize("option", ["-vv", "--benchmark-columns=median", "--benchmark-sort=name"])
def test_tables_are_printed_where_they_are_asked_for(unknown: Bench, option: str) -> None:
    done = unknown.bench(*MANY, option, few=False)
    assert TABLE in done.stdout
    assert "times of" not in done.stdout


@pytest.mark.slow
def test_verdicts_have_twenty_lines_each_and_all_with_v(unknown: Bench) -> None:
    play = {"slower": {"matmul": 1.1}, "throttle": ["hardware slowdown"]}
    done = unknown.bench("--against", "HEAD", *MANY, few=False, **play)
    listed = re.findall(r"^matmul-\S+: unsure: .*$", done.stdout, re.M)
    assert len(listed) == 20
    html = r"^every verdict of this run: python -m warpwatch report \S.*\.json'? --html FOLDER$"
    assert re.search(html, done.stdout, re.M)
    ((more, file),) = re.findall(r"^\.\.\. and (\d+) more unsure: (.+) has all$", done.stdout, re.M)
    rest = Path(unknown.folder, file).read_text().splitlines()
    assert sum(": unsure: " in line for line in rest) == 20 + int(more)
    assert set(listed) <= set(rest)
    every = unknown.bench("--against", "HEAD", *MANY, "-vv", few=False, **play)
    assert len(re.findall(r"^matmul-\S+: unsure: .*$", every.stdout, re.M)) == 20 + int(more)


@pytest.mark.slow
def test_what_to_do_next_is_one_line(unknown: Bench, judged: Bench) -> None:
    slower = {"matmul-naive-8x8": 1.1, "matmul-naive-16x16": 1.2}
    worst = "matmul-naive-16x16-128x128x128-float32"
    done = unknown.bench("--against", "HEAD", slower=slower)
    assert re.findall(r"^next: .*$", done.stdout, re.M) == [f"next: python -m warpwatch explain {worst} --against HEAD"]
    done = judged.bench("--benchmark-compare", slower=slower)
    (line,) = re.findall(r"^next: .*$", done.stdout, re.M)
    assert line.startswith(f"next: pytest bench --against REV -k {worst},")
    assert "there is no baseline" not in done.stdout
    done = judged.bench("--benchmark-compare", wrong=["matmul-naive-8x8"])
    (line,) = re.findall(r"^next: .*$", done.stdout, re.M)
    assert line == "next: mend what is wrong; python -m warpwatch run matmul-naive-8x8-128x128x128-float32"


class Lines:
    """A reporter of pytest that keeps its lines."""

    verbosity, isatty = 0, False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def ensure_newline(self) -> None:
        """End the line of dots."""
        self.lines.append("")

    def write_line(self, text: str) -> None:
        self.lines.append(text)


def test_between_dots_the_time_left_is_told_every_ten_seconds() -> None:
    lines, now = Lines(), [0.0]
    progress = Progress(cast(pytest.TerminalReporter, lines), lambda: now[0])
    for done in range(1, 41):
        now[0] += 1.0
        progress.between_dots("timing", done, 40)
    assert [line for line in lines.lines if line] == ["timing: 12 of 40, 0:25 left", "timing: 23 of 40, 0:16 left",
                                                      "timing: 34 of 40, 0:05 left"]  # fmt: skip


@pytest.mark.slow
def test_a_run_without_a_comparison_tells_it_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "checkout")
    with (bench.folder / "conftest.py").open("a") as file:
        file.write("\nfrom warpwatch.plugin import benchmark\nbenchmark.SECONDS = 0\n")
    done = bench._run(sys.executable, "-m", "pytest", "bench", "-p", "tests.fake_gpu", "-k", FEW)
    assert "timing: 9 of 17, 0:00 left\n" in done.stdout
