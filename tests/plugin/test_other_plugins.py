"""Tests with other plugins of pytest installed: none ends a run with an INTERNALERROR or changes a verdict."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import Bench

BESIDE = Path(sys.prefix, "plugins")
NAMES = ("asyncio", "cov", "randomly", "repeat", "rerunfailures", "sugar", "timeout")
NAIVE = "matmul-naive-8x8-128x128x128-float32"
ALL = ("--force-sugar", "--timeout=100", "--cov=bench", "-v")  # what must be asked for; the others act by themselves

pytestmark = pytest.mark.skipif(
    not all(any(BESIDE.glob(f"pytest_{name}*")) for name in NAMES),
    reason=f"needs other plugins in {BESIDE}: `python tools/install.py` puts them there, as `make test` does",
)


@pytest.fixture(autouse=True)
def _beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the subprocesses of this test alone find the plugins, which are in a folder that Python imports from."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(BESIDE), os.environ.get("PYTHONPATH")))))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A copy of the checkout. Tests change nothing in it but add saved runs."""
    return Bench(tmp_path_factory.mktemp("beside"))


def clean(done: subprocess.CompletedProcess[str], status: int) -> str:
    """Return the output of a run, after a check of its exit status, and that no plugin failed."""
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said
    return done.stdout


def test_they_are_all_loaded(checkout: Bench) -> None:
    said = clean(checkout.bench("--collect-only", "-v"), 0)
    loaded = re.search(r"^plugins: (.*)$", said, re.MULTILINE)
    assert loaded
    assert {name.rpartition("-")[0] for name in loaded[1].split(", ")} >= set(NAMES)


@pytest.mark.slow
def test_a_run_is_saved_and_compared_with_itself(checkout: Bench) -> None:
    """Run alone, then against what was saved, in any order that pytest-randomly chooses."""
    for seed in range(3):
        clean(checkout.bench("--benchmark-storage=runs", seed=seed), 0)
    runs = str(checkout.folder / "runs" / "fake-gpu-1")
    said = clean(checkout.bench(f"--benchmark-compare={runs}", *ALL, seed=7), 0)
    assert "17 same" in said
    said = clean(checkout.bench(f"--benchmark-compare={runs}", *ALL, seed=7, slower={"matmul-naive-8x8": 1.1}), 1)
    assert "1 slower, 16 same" in said
    assert f"{NAIVE}: slower: median " in said


@pytest.mark.slow
def test_revisions_are_compared_side_by_side(checkout: Bench) -> None:
    assert "17 identical" in clean(checkout.bench("--against", "HEAD", *ALL), 0)
    said = clean(checkout.bench("--against", "HEAD", *ALL, slower={"matmul-naive-8x8": 1.1}), 1)
    assert "1 slower, 16 identical" in said
    said = clean(checkout.bench("--against", "HEAD", changed=["matmul-naive"], wrong=["matmul-naive-8x8"]), 1)
    assert f"{NAIVE} is wrong" in said
    assert "2 same, 14 identical" in said


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [(("--count", "2"), "ERROR: --count: "), (("--reruns", "2", "--against", "HEAD"), "ERROR: --reruns: ")],
    ids=["count", "reruns"],
)
def test_what_makes_no_sense_of_a_time_is_refused(checkout: Bench, options: tuple[str, ...], message: str) -> None:
    done = checkout.bench(*options, wrong=["matmul-naive-8x8"])
    clean(done, 4)
    assert message in done.stderr
    assert "bench_kernel" not in done.stdout


@pytest.mark.slow
def test_kernels_are_right_in_parallel_repeated_and_run_again(checkout: Bench) -> None:
    """Run four cases on the software device in two processes, each case twice."""
    chosen = "test_exact and copy-naive and 4096"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    command = [sys.executable, "-m", "pytest", "correctness", "-n", "2", "--device=software", "-k", chosen, "--count=2"]
    done = subprocess.run(
        [*command, "--reruns=1", "--timeout=200", "--force-sugar"],
        cwd=checkout.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert re.search(r"\b8 passed", clean(done, 0)), done.stdout
