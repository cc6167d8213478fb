"""Tests of `pytest bench -n N`: each process of xdist measures on a GPU of its own, and one run comes of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import Bench
from warpwatch.runs.record import by_gpu, read_run, read_usable
from warpwatch.verdict.rule import Prior, Verdict, decide, unpaired

TWO = ("-n", "2")


def saved(checkout: Bench) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(checkout.saved[-1]).read_text())
    return document


def cases(document: dict[str, Any]) -> list[str]:
    return [entry["param"] for entry in document["benchmarks"]]


# Processes start before the first one opens its GPU where NVML tells the model of all, else after it.
MODELS = pytest.mark.parametrize("model", ["fake-gpu-1", ""], ids=["early", "late"])


@pytest.mark.once
@MODELS
def test_two_processes_share_the_cases_and_save_one_run(checkout: Bench, model: str) -> None:
    assert checkout.bench().returncode == 0
    alone = saved(checkout)
    done = checkout.bench(*TWO, "-v", "--warpwatch-record=record.json", gpus=2, model=model)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 passed" in done.stdout
    record = read_run(checkout.folder / "record.json")
    assert {test.case: str(test.outcome) for test in record.tests} == dict.fromkeys(record.cases, "passed")
    assert "disabled" not in done.stdout + done.stderr  # as pytest-benchmark says of itself under xdist
    assert len(checkout.saved) == 2
    document = saved(checkout)
    assert cases(document) == cases(alone)
    assert "tiled-8x8-128x128x128" in done.stdout  # in the table
    owners = Counter(entry["extra_info"]["gpu_uuid"] for entry in document["benchmarks"])
    assert owners.keys() == {"GPU-1", "GPU of gw1"}  # how many each has is chance: who is free takes the next
    assert document["warpwatch"]["failed"] == []
    assert (document["machine_info"]["gpu"]["coldness"], done.stdout.count("takes 2.0 times as long")) == (2.0, 1)
    assert done.stdout.count("device: Fake GPU 1") == 1
    runs, problems = read_usable([Path(checkout.saved[-1])])
    assert {run.gpu_uuid: len(run.cases) for run in runs} == owners
    assert not problems
    (run,) = by_gpu(read_run(Path(checkout.saved[0])))
    assert len(run.cases) == 17


@pytest.mark.slow
@pytest.mark.once
@MODELS
@pytest.mark.parametrize(
    ("gpus", "said"), [(1, "there is one GPU here"), (2, "there are 2 GPUs here")], ids=["one", "two"]
)
def test_more_processes_than_gpus_are_refused(checkout: Bench, gpus: int, said: str, model: str) -> None:
    done = checkout.bench("-n", "3", gpus=gpus, model=model)
    assert done.returncode == 4
    assert said in done.stderr
    assert ("give -n 2" if gpus == 2 else "leave -n out") in done.stderr


@pytest.mark.once
@pytest.mark.parametrize("gpus", [1, 2])
def test_auto_is_a_process_for_each_gpu(checkout: Bench, gpus: int) -> None:
    done = checkout.bench("-n", "auto", gpus=gpus, model="fake-gpu-1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 passed" in done.stdout
    assert ("bringing up nodes" in done.stdout) == (gpus == 2)
    assert len({entry["extra_info"].get("gpu_uuid") for entry in saved(checkout)["benchmarks"]}) == gpus


def test_the_repositorys_own_number_counts_for_auto(checkout: Bench) -> None:
    with open(checkout.folder / "conftest.py", "a") as file:
        file.write("\n\ndef pytest_xdist_auto_num_workers(config):\n    return 3\n")
    done = checkout.bench("-n", "auto", gpus=2)
    assert "-n 3: there are 2 GPUs here" in done.stderr


OTHER_NAME = "the GPU is fake-gpu-2 for NVML and fake-gpu-1 for CUDA: leave -n out"


@pytest.mark.parametrize(
    ("options", "model", "message"),
    [
        (("--self-check",), "", "--self-check tests one GPU: leave -n out"),
        (("--benchmark-compare", "--require-baseline"), "", "there is no baseline for fake-gpu-1"),
        pytest.param((), "fake-gpu-2", OTHER_NAME, marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_shared_is_refused(checkout: Bench, options: tuple[str, ...], model: str, message: str) -> None:
    done = checkout.bench(*TWO, *options, gpus=2, model=model)
    assert done.returncode == 4
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.once
@MODELS
def test_a_gpu_of_another_model_is_refused(checkout: Bench, model: str) -> None:
    done = checkout.bench(*TWO, gpus=2, other_slug="fake-gpu-2", model=model)
    assert done.returncode != 0
    assert "has fake-gpu-2 and the first process fake-gpu-1" in done.stdout + done.stderr


@pytest.mark.slow
def test_a_wrong_kernel_fails_and_has_no_figure(checkout: Bench) -> None:
    done = checkout.bench(*TWO, gpus=2, wrong=["matmul-naive-8x8"])
    assert done.returncode == 1
    assert "1 failed, 16 passed" in done.stdout
    document = saved(checkout)
    assert len(cases(document)) == 16
    assert document["warpwatch"]["failed"] == ["matmul-naive-8x8-128x128x128-float32"]
    assert not document["warpwatch"]["whole"]


@pytest.mark.slow
def test_a_process_that_dies_fails_the_run_and_gives_no_verdict(checkout: Bench) -> None:
    checkout.fill_baseline()
    done = checkout.bench(*TWO, "--benchmark-compare", gpus=2, dies="matmul-tiled-8x8-128x128x128-float32")
    assert done.returncode != 0
    assert "no case has a verdict" in done.stdout
    assert "14 same" not in done.stdout


@pytest.mark.slow
def test_verdicts_are_those_of_one_process(checkout: Bench) -> None:
    checkout.fill_baseline()
    slow = {"matmul-naive": 1.3}
    alone = checkout.bench("--benchmark-compare", slower=slow, seed=7)
    done = checkout.bench(*TWO, "--benchmark-compare", slower=slow, seed=7, gpus=2)
    for run in (alone, done):
        assert run.returncode == 1
        assert "3 slower, 14 same" in run.stdout
        assert "3 failed, 14 passed" in run.stdout
    assert "GPU 2 of 2 (GPU of gw1): baseline: 3 runs" in done.stdout  # whichever process ends first
    assert len(saved(checkout)["warpwatch"]["slower"]) == 3


@pytest.mark.slow
def test_both_sides_of_a_pair_stay_on_one_gpu(checkout: Bench) -> None:
    checkout.commit()
    done = checkout.bench(*TWO, "--against", "HEAD", slower={"matmul-naive": 1.3}, seed=7, gpus=2)
    assert done.returncode == 1
    assert "3 slower, 14 identical" in done.stdout
    document = saved(checkout)
    assert document["warpwatch"]["against"]
    assert document["warpwatch"]["controls"]


def test_parts_share_the_probability_of_error() -> None:
    """A change that one run in 150 shows by chance is called in a run of one part, at 1 %, and in none of two."""
    prior = Prior(deviation=0.01, seconds=0.0, df=5.0)
    old = [1e-3] * 5
    found = {}
    for percent in range(20, 80):
        effect = unpaired(old, [1e-3 * (1 + percent / 1000)] * 5)
        found[percent] = [decide({"one": effect}, prior, parts=parts)["one"].verdict for parts in (1, 2, 4)]
    called = [[verdict == Verdict.SLOWER for verdict in verdicts] for verdicts in found.values()]
    least = [next(i for i, each in enumerate(called) if each[part]) for part in range(3)]
    assert least == sorted(set(least))  # the more parts, the larger a change must be


@pytest.mark.slow
def test_energies_of_all_gpus_are_listed_together_and_can_fail_the_run(checkout: Bench) -> None:
    play: dict[str, Any] = {"changed": ["matmul-naive"], "energy": {"matmul-naive-8x8": 1.08}, "gpus": 2}
    done = checkout.bench(*TWO, "--against", "HEAD", "--energy", "--fail-on", "energy", **play)
    assert done.returncode == 1, done.stdout
    assert len(re.findall(r"energy of \d+ kernels: 1 more, \d+ same", done.stdout)) == 1
    assert len(re.findall(r"matmul-naive-8x8-128x128x128-float32: more energy: ", done.stdout)) == 1
