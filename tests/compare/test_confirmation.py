"""Tests that pairs with the baseline's commit decide where its times are of another GPU or day, on a fake GPU."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import to_builtins

from tests.checkout import Bench, lent_checkout
from tests.fake_gpu import INFO
from tests.project import ROOT
from tests.runs.identities import known
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.project import find_project
from warpwatch.compare import confirmation, with_baseline
from warpwatch.compare.confirmation import Confirmation, Then, _commits, build_then, run_to_build, seconds_of
from warpwatch.compare.processes import Processes
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.devices.compile.compiler import Image, Target
from warpwatch.devices.compile.toolchain import INSTALLED, BadToolchain, Toolchain
from warpwatch.revision.commit import UNSHALLOW, CommitCase
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.files import run_files
from warpwatch.runs.record import CaseRecord, Commit, Facts, Gpu, RunRecord, read_document, read_run
from warpwatch.timing.measurement import Again, Measured
from warpwatch.verdict.rule import PAIRS, SAME_WORK, SAVED_TIMES, Decision, Verdict

NAIVE = "matmul-naive-8x8-128x128x128-float32"
COMPARE = "--benchmark-compare"
NO_RUN = "because the baseline has no runs of this GPU, and 3 show its noise"
MANY = ("-k", "matmul and (128x128x128 or 256x256x256) and not host and not vendor")  # 68 cases
ELSEWHERE: dict[str, Any] = {"uuid": "GPU-9", "seed": 9}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A checkout with five runs of 68 cases in the folder `own`, of one GPU and the day before yesterday."""
    with lent_checkout(tmp_path_factory) as made:
        for seed in range(5):
            assert made.bench(*MANY, few=False, seed=seed).returncode == 0
        own = made.folder / "own"
        own.mkdir()
        for number, path in enumerate(map(Path, made.saved)):
            document = json.loads(path.read_text())
            document["datetime"] = (datetime.now(UTC) - timedelta(days=2)).isoformat()
            (own / f"000{number}_own.json").write_text(json.dumps(document))
        yield made


def altered(bench: Bench, name: str, **parts: dict[str, Any]) -> Path:
    """Copy the baseline to a folder of this name, with other values in parts of each run."""
    folder = bench.folder / name
    for path in run_files(bench.baseline):
        document = read_document(path)
        for part, values in parts.items():
            if part == "extra_info":
                (entry,) = (each for each in document["benchmarks"] if each["param"] == NAIVE)
                entry["extra_info"] |= values
            else:
                document[part] |= values
        folder.mkdir(exist_ok=True)
        (folder / path.name.removesuffix(".xz")).write_text(json.dumps(document))
    return folder


def test_on_another_gpu_pairs_decide_and_the_run_records_it(recorded: Bench) -> None:
    """A tenth of a floor of 25 %, in a run that takes 5 % longer for all."""
    done = recorded.bench(
        COMPARE,
        "-v",
        "--json=out.json",
        drift=1.05,
        slower={"matmul-naive-8x8": 1.02},
        changed=["rowstrip"],
        **ELSEWHERE,
    )
    assert done.returncode == 1, done.stdout
    commit = read_document(run_files(recorded.baseline)[0])["commit_info"]["id"][:12]
    assert f"3 cases to measure in pairs with {commit}: about 4 s\n" in done.stdout
    assert re.search(rf"^decided by pairs: 3 cases \(\d s, about 4 expected\), {NO_RUN}$", done.stdout, re.MULTILINE)
    assert "1 slower, " in done.stdout
    assert "unsure" not in done.stdout
    run = read_run(Path(recorded.saved[-1]))
    assert Counter(each.decided_by for each in run.decisions.values())[PAIRS] == 3
    assert {each.decided_by for name, each in run.decisions.items() if "tiled" in name} <= {SAVED_TIMES, SAME_WORK}
    sides = run.cases[NAIVE].facts.pairs
    assert sides is not None
    assert len(sides.old) == run.decisions[NAIVE].processes >= 3
    written = {case["id"]: case for case in json.loads((recorded.folder / "out.json").read_text())["cases"]}
    assert written[NAIVE]["comparison"]["decided_by"] == PAIRS
    assert written[NAIVE]["next"] == f"python -m warpwatch explain {NAIVE} --against {commit}"


@pytest.mark.slow
def test_an_unchanged_run_on_another_gpu_measures_no_pairs_and_leaves_nothing_unsure(many: Bench) -> None:
    done = many.bench(f"{COMPARE}=own", *MANY, few=False, odd={"matmul-naive": 1.3}, drift=1.02, **ELSEWHERE)
    assert done.returncode == 0
    assert re.search(r"^\d+ same(, \d+ identical)?$", done.stdout, re.MULTILINE)
    assert "decided by" not in done.stdout
    assert not any(case.facts.again for case in read_run(Path(many.saved[-1])).cases.values())


@pytest.mark.slow
def test_on_another_day_pairs_decide_or_saved_times_with_an_allowance(many: Bench) -> None:
    slower = {"matmul-naive-8x8": 1.05, "matmul-naive-16x16": 1.008}
    done = many.bench(f"{COMPARE}=own", *MANY, few=False, slower=slower, seed=9)
    said = r"^decided by pairs: 8 cases .* the baseline has no runs of this GPU of the last day \(the newest: 2"
    assert re.search(said, done.stdout, re.MULTILINE)
    assert "8 slower, 60 same" in done.stdout
    done = many.bench(f"{COMPARE}=own", "--no-confirm", *MANY, few=False, slower=slower, seed=9)
    assert re.search(r"^noise floors of saved times are 1.0 % wider: the baseline has no", done.stdout, re.MULTILINE)
    assert re.search(r"^4 slower, 6\d same", done.stdout, re.MULTILINE)  # those of 5 %
    assert f"decided by saved times, not by pairs: --no-confirm (8 cases, such as {NAIVE})" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"commit_info": {"dirty": True}}, "no run of the baseline names a clean commit that it was made of"),
        ({"commit_info": {"id": ""}}, "no run of the baseline names a clean commit that it was made of"),
        (
            {"commit_info": {"id": "f" * 40}},
            "ffffffffffff, which the baseline was made of, is not in HEAD's history here",
        ),
        ({"extra_info": {"image_hash": "a"}}, "compiled here, is not the code that the baseline was measured with"),
    ],
    ids=["dirty", "no git", "other branch", "other code"],
)
def test_without_the_commit_saved_times_decide_and_the_reason_is_said(
    recorded: Bench, parts: dict[str, dict[str, Any]], said: str
) -> None:
    folder = altered(recorded, "altered", **parts)
    done = recorded.bench(f"{COMPARE}={folder}", slower={"matmul-naive-8x8": 1.5}, **ELSEWHERE)
    shutil.rmtree(folder)
    assert done.returncode == 0
    assert re.search(rf"^decided by saved times, not by pairs: .*{said} \({NAIVE}\)$", done.stdout, re.MULTILINE)
    assert "1 unsure" in done.stdout
    assert "saved times call no case slower or faster: 16 cases of the baseline's work" in done.stdout


@pytest.mark.slow
def test_what_has_no_figure_beside_its_commit_is_left_to_saved_times(many: Bench) -> None:
    slower = {"matmul-naive-8x8": 1.5, "matmul-tiled-8x8": 1.05}
    done = many.bench(f"{COMPARE}=own", *MANY, few=False, slower=slower, other_wrong=["matmul-naive-8x8"], **ELSEWHERE)
    assert re.search(r"^decided by saved times, not by pairs: in the baseline's code: .* is wrong", done.stdout, re.M)
    decided = {name: each for name, each in read_run(Path(many.saved[-1])).decisions.items() if "8x8-128" in name}
    assert (decided[NAIVE].decided_by, decided[NAIVE].verdict) == (SAVED_TIMES, Verdict.SLOWER)
    tiled = decided["matmul-tiled-8x8-128x128x128-float32"]
    assert (tiled.decided_by, tiled.verdict) == (PAIRS, Verdict.SLOWER)


@pytest.mark.slow
def test_a_clone_that_lacks_the_commit_says_how_to_get_it(recorded: Bench) -> None:
    shallow = recorded.folder / ".git" / "shallow"
    head = recorded._run("git", "rev-parse", "HEAD").stdout
    shallow.write_text(head)
    try:
        done = recorded.bench(COMPARE, slower={"matmul-naive-8x8": 1.5})
    finally:
        shallow.unlink()
    assert f"is not in HEAD's history here: {UNSHALLOW} ({NAIVE})" in done.stdout


@pytest.mark.slow
def test_where_the_baselines_commit_cannot_be_read_another_one_that_does_its_work_is_taken(checkout: Bench) -> None:
    """An engine of later cannot read it; the commit before the last change of kernels has the code all the same."""
    checkout.fill_baseline()
    declared = checkout.folder / "kernels" / "__init__.py"
    text = declared.read_text()
    ids = []
    for content in ("raise ValueError('of an engine of before')\n", text, text + "# a change\n"):
        declared.write_text(content)
        checkout.commit()
        ids.append(checkout._run("git", "rev-parse", "HEAD").stdout.strip())
    folder = altered(checkout, "altered", commit_info={"id": ids[0]})
    done = checkout.bench(f"{COMPARE}={folder}", slower={"matmul-naive-8x8": 1.02}, **ELSEWHERE)
    assert "1 slower, " in done.stdout
    assert f"against the baseline's code ({ids[2][:12]})" in done.stdout
    said = rf"^built of another commit that does the baseline's work: {ids[2][:12]}, because the baseline's commit "
    assert re.search(rf"{said}{ids[0][:12]}: its declarations cannot be read by this code", done.stdout, re.MULTILINE)
    # HEAD has other work, as it would if its change of kernels were the slower one: the commit before it has not.
    head = find_project(ROOT)
    case = find_case(head.families, NAIVE)
    run = run_to_build([read_run(path) for path in folder.iterdir()], checkout.folder)
    assert [*_commits(run, [case], replace(head, root=checkout.folder))] == [ids[0], ids[2], ids[1]]


@pytest.mark.slow
def test_each_gpu_of_a_run_measures_its_own_pairs(recorded: Bench) -> None:
    done = recorded.bench(COMPARE, "-n", "2", gpus=2, slower={"matmul-naive": 1.03}, seed=7)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 slower, 14 same" in done.stdout
    assert re.search(
        r"GPU 2 of 2 \(GPU of gw1\): decided by pairs: .* the baseline has no runs of this GPU", done.stdout
    )
    run = read_run(Path(recorded.saved[-1]))
    assert {name for name, each in run.decisions.items() if each.decided_by == PAIRS} >= {
        name for name in run.cases if "naive" in name and "struct" not in name
    }


JUDGES = """
from warpwatch.compare.confirmation import Confirmation, run_to_build
from warpwatch.plugin import benchmark_run

baseline = benchmark_run.Run._baseline

def judged(run):
    made = baseline(run)
    made.doubt, newest = "", run_to_build(made.runs, run.project.root)
    made.confirmation = Confirmation(run=newest, project=run.project, device=run.device)
    return made

benchmark_run.Run._baseline = judged
"""


@pytest.mark.slow
def test_kernels_that_run_are_decided_by_pairs_in_worker_processes(checkout: Bench) -> None:
    """On the software device, whose times judge here: a loop that runs three times."""
    chosen = ("-p", "no:hypothesispytest", "--device=software", "-k", "naive-16x16-128x128x128 and matmul or hello")
    command = (sys.executable, "-m", "pytest", "bench", *chosen, "--benchmark-max-time=0.2")
    assert checkout._run(*command).returncode == 0
    (checkout.folder / "judges.py").write_text(JUDGES)
    kernel = checkout.folder / "kernels" / "matmul" / "naive.cu"
    text = kernel.read_text()
    (loop,) = re.findall(r"    for \(int i = 0; i < n; \+\+i\)\n.*;\n", text)
    kernel.write_text(text.replace(loop, f"{loop}    sum *= 0;\n" * 2 + loop))
    done = checkout._run(*command, "-p", "judges", COMPARE)
    assert re.search(r"^2 cases to measure in pairs with [0-9a-f]{12}: about 3 s$", done.stdout, re.MULTILINE), (
        done.stdout
    )
    decisions = read_run(Path(checkout.saved[-1])).decisions
    slower = {name: each for name, each in decisions.items() if "matmul-naive" in name}
    assert {each.decided_by for each in slower.values()} == {PAIRS}
    assert min(each.ratio for each in slower.values()) > 1.2  # slower, unless this host is too busy to be sure
    assert not {each.verdict for name, each in decisions.items() if name not in slower} - {
        Verdict.SAME,
        Verdict.IDENTICAL,
    }


def test_only_a_commit_that_does_the_work_of_the_baseline_stands_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    case = find_case(find_project(ROOT).families, NAIVE)
    recorded = CaseRecord(samples=(1.0,), facts=Facts(image_hash="code", identity=known(code="code")))
    run = RunRecord(path=Path("0.json"), commit=Commit(id="a" * 40), cases={NAIVE: recorded})
    works = {"b" * 40: known(draw="another"), "c" * 40: known(), "d" * 40: known()}

    def build(commit: str, *_: object) -> dict[str, CommitCase]:
        if commit not in works:
            raise BadRevision("it cannot be read")
        other: Any = SimpleNamespace(identity=works[commit])
        return {NAIVE: CommitCase(other=other, image=Image(Path("none"), "source", "code"))}

    monkeypatch.setattr(confirmation, "build_cases", build)
    for commits, expected in (("abcd", "c"), ("ab", "")):
        monkeypatch.setattr(confirmation, "_commits", lambda *_, ids=commits: [letter * 40 for letter in ids])
        found = build_then(run, {NAIVE: case}, find_project(ROOT), Target("sm_90"))[NAIVE]
        assert (found if isinstance(found, str) else found.why) == "it cannot be read"
        assert ("" if isinstance(found, str) else found.commit[0]) == expected


OLD = Toolchain(text="nvcc=12.9", program="/usr/local/cuda-12.9/bin/nvcc")


@pytest.fixture
def old_baseline(monkeypatch: pytest.MonkeyPatch) -> Confirmation:
    """A baseline of CUDA 12.9, whose nvcc builds all of its cases but ``b`` as they were measured; 13.0 is here."""

    def build(run: RunRecord, cases: Any, project: Any, target: Target) -> dict[str, Then | str]:
        other: Any = SimpleNamespace()
        image, is_old = Image(Path("none"), "source", target.program), target.program == OLD.program
        built = Then(commit="c" * 40, other=other, image=image)
        return {name: "it is other code" if is_old and name == "b" else built for name in cases}

    monkeypatch.setattr(confirmation, "build_then", build)
    monkeypatch.setattr(confirmation, "toolkit_of", lambda target: "13.0")
    monkeypatch.setattr(confirmation, "of_release", lambda release, say: {"12.9": OLD}[release])
    run = RunRecord(path=Path("0.json"), gpu=Gpu(toolkit="12.9"), commit=Commit(id="c" * 40))
    return Confirmation(run=run, project=find_project(ROOT), device=replace(INFO, has_gpu_clock=False))


def built_by(asked: Confirmation, names: str = "ab") -> dict[str, str]:
    measured: Any = {name: SimpleNamespace(case=None) for name in names}
    asked.build(measured, 1, print)
    return {name: each if isinstance(each, str) else each.toolchain.text for name, each in asked.built.items()}


def test_a_baseline_of_an_older_toolkit_is_built_by_it_where_that_makes_its_code(old_baseline: Confirmation) -> None:
    assert built_by(old_baseline) == {"a": "nvcc=12.9", "b": ""}
    assert old_baseline.lacks == ""
    assert not old_baseline.reasons


@pytest.mark.parametrize("toolkit", ["13.2", "14.0", "", "unknown", "12.9/../../elsewhere"])
def test_a_toolkit_that_is_not_of_an_older_major_version_is_not_looked_for(
    old_baseline: Confirmation, toolkit: str
) -> None:
    old_baseline.run = replace(old_baseline.run, gpu=Gpu(toolkit=toolkit))
    assert built_by(old_baseline) == {"a": "", "b": ""}


def test_an_older_toolkit_that_cannot_be_had_is_a_sentence(
    old_baseline: Confirmation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_release(release: str, say: Any) -> Toolchain:
        raise BadToolchain(f"'nvcc={release}' cannot be used: why")

    monkeypatch.setattr(confirmation, "of_release", of_release)
    assert built_by(old_baseline) == {"a": "", "b": ""}
    said = "the baseline's commit was built by CUDA 13.0, not 12.9: 'nvcc=12.9' cannot be used: why"
    assert old_baseline.describe("why") == [said]


def test_an_older_toolkit_that_makes_none_of_the_code_is_a_sentence(old_baseline: Confirmation) -> None:
    assert built_by(old_baseline, "b") == {"b": ""}
    assert old_baseline.describe("why") == ["the baseline's commit was built by CUDA 13.0, not 12.9: it is other code"]


def test_pairs_with_an_older_toolkit_compare_code_and_name_both(
    old_baseline: Confirmation, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_by(old_baseline)
    monkeypatch.setattr(confirmation, "key", lambda other: ("key",))
    monkeypatch.setattr(Toolchain, "title", property(lambda self: self.text or "nvcc 13.0.88"))
    monkeypatch.setattr(Confirmation, "_measure", lambda *_: None)
    old_baseline.decide({"a": None, "b": None}, None, Again(True, print, {}), "", 1)  # type: ignore[arg-type, dict-item]
    assert old_baseline.pairs is not None
    assert old_baseline.pairs.toolchain == (INSTALLED, INFO.capability)
    said = "toolchains: nvcc=12.9 (1 case), nvcc 13.0.88 (1 case) -> nvcc 13.0.88; files differ from the base"
    assert said in "\n".join(old_baseline.pairs.describe())
    comparison = BaselineComparison(confirmation=old_baseline)
    old_baseline.built = {NAIVE: old_baseline.built["a"]}
    step = "python -m warpwatch diff --toolchain nvcc=12.9 -k matmul-naive-8x8-float32"
    assert comparison.next_step(NAIVE, "--against") == step


def test_what_pairs_do_not_decide_shares_the_probability_of_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases that differ, of which the commit has one: each way to decide takes half of the run's 1 %."""
    parts: dict[str, int] = {}

    class Half(Confirmation):
        def build(self, measured: Any, parts: int, say: Any) -> None:
            self.reasons = {"b": "no code"}

        def decide(self, measured: Any, budget: Any, again: Any, doubt: str, share: int) -> dict[str, Decision]:
            parts["pairs"] = share
            return {"a": Decision(verdict=Verdict.SAME, decided_by=PAIRS)}

    def by_saved_times(processes: Processes, *_: object) -> dict[str, Decision]:
        parts["saved times"] = processes.parts
        return processes.decide()

    monkeypatch.setattr(with_baseline, "_measure_and_decide", by_saved_times)
    cases = {name: CaseRecord(samples=(1e-5,), facts=Facts(cache="cold", identity=known())) for name in "ab"}
    run = RunRecord(path=Path("0.json"), gpu=Gpu(uuid="GPU-1"), cases=cases)
    kernel: Any = None
    comparison = BaselineComparison(
        runs=[run], gpu_uuid="GPU-2", confirmation=Half(run=run, project=find_project(ROOT), device=INFO)
    )
    for name in "ab":
        facts = {"cache": "cold", "identity": to_builtins(known(code="new"))}
        case: Any = SimpleNamespace(id=name)
        measured = Measured(kernel=kernel, case=case, kind="cold", facts=facts, processes=[[1e-5]])
        comparison.measured[name] = measured
    comparison.conclude(Again(True, lambda done, total: None, {}))
    assert parts == {"pairs": 2, "saved times": 2}
    assert {name: each.decided_by for name, each in comparison.decisions.items()} == {"a": PAIRS, "b": SAVED_TIMES}
    assert "decided by saved times, not by pairs: no code (b)" in comparison.describe()


def test_a_run_that_does_not_say_that_its_commit_was_clean_is_not_built() -> None:
    when = datetime.now(UTC)
    runs = [RunRecord(path=Path(), commit=Commit(id="a" * 40, dirty=dirty), when=when) for dirty in (None, True)]
    with pytest.raises(BadRevision, match="names a clean commit"):
        run_to_build(runs, ROOT)


def test_pairs_are_expected_to_take_what_they_took_on_an_h100() -> None:
    assert seconds_of(831) == pytest.approx(341, rel=0.05)
    assert seconds_of(18) == pytest.approx(10, rel=0.05)
