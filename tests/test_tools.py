"""Tests of the workflows of GitHub: a night in which a part fails, and checks of the files that find mistakes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.release import notes
from tools.workflows import ACTIONS, FOLDER, ROOT, SHELL, check_script, load, scripts, steps

NIGHTLY = load(FOLDER / "nightly.yml")
JOB = NIGHTLY["jobs"]["gpu"]
# Plays make and Python: fails as FAILS tells, and `make bench` writes its run unless it ends before it measures.
MAKE = """#!/bin/sh
echo "make $*" >> calls
mkdir -p results
case "$1 $*" in
  test*) case $FAILS in *test*) exit 2;; esac;;
  *--require-baseline*)
    case $FAILS in *void*) exit 2;; esac
    echo '{}' > results/bench.json
    case $FAILS in *slower*) exit 2;; esac;;
  bench*) echo '{}' > results/bench.json;;
esac
"""
PYTHON = """#!/bin/sh
echo "python $*" >> calls
case "$*" in
  *--html*) echo "a site";;
  *"warpwatch report"*) test -s results/bench.json && echo "a table";;
  *--new*) echo "new steps";;
  *history*) echo "a history";;
esac
"""


@dataclass(frozen=True, kw_only=True)
class Night:
    """The calls of make and Python in a night, the summary that it wrote, and its success."""

    calls: str
    summary: str
    green: bool


def applies(condition: str, failed: bool) -> bool:
    """Say whether a step with this condition runs, after others failed or not, in a job that was not cancelled."""
    meaning = {"success()": not failed, "!cancelled()": True, "always()": True, "failure()": failed}
    return meaning[condition.removeprefix("${{").removesuffix("}}").strip()]


# Plays gh: knows the issue that OPEN names, and records its calls with the texts that it is given.
GH = """#!/bin/sh
echo "gh $*" >> calls
case "$*" in
  "issue list"*) printf '%s' "$OPEN";;
  *--body-file*) for word; do case $word in *.md) cat "$word" >> calls;; esac; done;;
esac
"""


def play(folder: Path, fails: str, job: dict[str, Any] = JOB, **variables: str) -> Night:
    """Run the steps of a job of nightly.yml as a runner does; its make, Python and gh only record their calls."""
    programs = {"bin/make": MAKE, ".venv/bin/python": PYTHON, "bin/gh": GH, "bin/python": PYTHON}
    for name, text in programs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (folder / "warpwatch-runs" / "a-gpu").mkdir(parents=True)
    (folder / "warpwatch-runs" / "a-gpu" / "0001_night.json").write_text("{}")
    environment = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "FAILS": fails,
        "OPEN": "",
        **variables,
    }
    failed = False
    for step in steps(job):
        if step.script and applies(step.condition, failed):
            command = [*SHELL, "-c", step.script]
            failed |= subprocess.run(command, cwd=folder, env=environment, check=False).returncode != 0
    summary = folder / "summary"
    text = summary.read_text() if summary.exists() else ""
    return Night(calls=(folder / "calls").read_text(), summary=text, green=not failed)


@pytest.mark.parametrize("fails", ["", "test", "slower", "void", "test void"])
def test_a_night_measures_and_writes_its_table_whatever_fails_and_is_red_then(tmp_path: Path, fails: str) -> None:
    night = play(tmp_path, fails)
    assert night.green == (not fails)
    assert night.summary == "a table\na history\n"
    assert len(re.findall("^make bench", night.calls, re.MULTILINE)) == 1 + ("void" in fails)
    (site,) = re.findall(r"^python -m warpwatch report (\S+) --html (\S+)$", night.calls, re.MULTILINE)
    assert site == (f"{tmp_path}/warpwatch-runs/a-gpu/", "results/site/a-gpu")


def issue_step() -> dict[str, Any]:
    """Return a job with nothing but the step that writes the issue."""
    tell = NIGHTLY["jobs"]["tell"]
    (step,) = (each for each in tell["steps"] if "gh issue" in str(each.get("run")))
    return {**tell, "steps": [step]}


@pytest.mark.parametrize(("known", "verb"), [("", "gh issue create --title"), ("17", "gh issue comment 17 ")])
def test_what_became_slower_for_good_opens_one_issue_or_adds_to_it(tmp_path: Path, known: str, verb: str) -> None:
    text = tmp_path / "results" / "results-0" / "new-a-gpu.md"
    text.parent.mkdir(parents=True)
    text.write_text("**1 case became slower permanently**\n")
    night = play(tmp_path, "", issue_step(), OPEN=known, RUN_URL="https://host/run/5")
    assert night.green
    assert verb in night.calls
    assert "**1 case became slower permanently**" in night.calls
    assert "The night: https://host/run/5" in night.calls


def test_a_night_without_a_new_slowdown_touches_no_issue(tmp_path: Path) -> None:
    (tmp_path / "results" / "results-0").mkdir(parents=True)
    (tmp_path / "calls").write_text("")
    assert play(tmp_path, "", issue_step(), RUN_URL="x").calls == ""


def test_a_night_looks_for_new_slowdowns_before_it_makes_older_nights_small(tmp_path: Path) -> None:
    calls = play(tmp_path, "").calls.splitlines()
    runs = f"{tmp_path}/warpwatch-runs/a-gpu/"
    new = calls.index(f"python -m warpwatch history --runs {runs} --new results/new-a-gpu.md")
    assert new < calls.index(f"python -m warpwatch thin {runs} --keep 14")


def test_sites_of_two_runners_with_one_model_are_both_in_the_site(tmp_path: Path) -> None:
    for number in (0, 1):
        (tmp_path / "results" / f"results-{number}" / "site" / "a-gpu").mkdir(parents=True)
    tell = NIGHTLY["jobs"]["tell"]
    (step,) = (each for each in tell["steps"] if "warpwatch sites" in str(each.get("run")))
    script = step["run"].partition("python -m venv")[0]
    subprocess.run([*SHELL, "-c", script], cwd=tmp_path, check=True)
    assert {path.name for path in (tmp_path / "site").iterdir()} == {"a-gpu", "a-gpu-too"}


@pytest.mark.parametrize(
    ("runners", "count"), [("[[]]", "1"), ('[["self-hosted", "h100"], ["self-hosted", "h200"]]', "2")]
)
def test_the_page_above_the_sites_knows_how_many_runners_there_are(runners: str, count: str) -> None:
    tell = NIGHTLY["jobs"]["tell"]
    (step,) = (each for each in tell["steps"] if "warpwatch sites" in str(each.get("run")))
    assert step["env"]["RUNNERS"] == "${{ vars.GPU_RUNNERS || '[[]]' }}"
    (line,) = (line for line in step["run"].splitlines() if line.startswith("gpus="))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run([*SHELL, "-c", f'{line}; echo "$gpus"'], env={"RUNNERS": runners, "PATH": path},
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.strip() == count


def test_no_failure_of_a_night_is_waved_through() -> None:
    assert "continue-on-error" not in (FOLDER / "nightly.yml").read_text()
    assert "|| true" not in (FOLDER / "nightly.yml").read_text()


def test_a_night_tests_arrays_beyond_two_to_the_31(tmp_path: Path) -> None:
    (call,) = (line for line in play(tmp_path, "").calls.splitlines() if line.startswith("make test"))
    assert " --large " in call


def test_no_pull_request_reaches_the_gpu() -> None:
    assert NIGHTLY["on"].keys() == {"schedule", "workflow_dispatch"}
    for path in FOLDER.glob("*.yml"):
        workflow = load(path)
        assert "pull_request_target" not in workflow["on"]
        assert "secrets." not in path.read_text()
        if {"pull_request", "workflow_run"} & set(workflow["on"]):
            assert all(job["runs-on"] == "ubuntu-24.04" for job in workflow["jobs"].values())


def test_only_what_runs_no_code_of_a_pull_request_may_write() -> None:
    for path in FOLDER.glob("*.yml"):
        workflow = load(path)
        if "workflow_run" in workflow["on"]:
            assert workflow["permissions"] == {}
            (job,) = workflow["jobs"].values()
            assert [step.keys() for step in job["steps"]] == [{"uses"}]  # no checkout, no script
            assert set(job["permissions"]) == {"actions", "contents", "pull-requests"}
        else:
            assert workflow["permissions"] == {"contents": "read"}
            for job in workflow["jobs"].values():
                writes = [name for name, may in job.get("permissions", {}).items() if may == "write"]
                own = path.name in ("nightly.yml", "release.yml")  # by schedule, by hand, or by a maintainer's tag
                assert not writes or (own and job["runs-on"] == "ubuntu-24.04")


# The two commands for tests


def made(target: str, *variables: str) -> list[str]:
    """Return the words of the command that make would run for a target, in an environment that is ready."""
    command = ["make", "-n", "-o", "pyproject.toml", "-o", "tools/install.py", target, *variables]
    set_by_make = ("MAKE", "MFLAGS", "PART")
    own = {name: value for name, value in os.environ.items() if not name.startswith(set_by_make)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=own)
    return shlex.split(done.stdout.splitlines()[-1])


def test_continuous_integration_runs_everything_and_a_developer_each_kind_once() -> None:
    fast, everything = made("test", "ARGS=-k copy"), made("test-all", "ARGS=-k copy")
    assert fast == [*everything[:-2], "-m", "not slow", "--launches=3", "-k", "copy"]
    assert {"tests", "correctness"} <= {*everything}
    assert made("test-all", "PART=2/3", "ARGS=-k copy") == [*everything[:-2], "--part=2/3", "-k", "copy"]
    assert {"make check", 'make test-all PART="$PART"'} <= {*scripts_of("ci.yml")}
    assert load(FOLDER / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["part"] == ["1/3", "2/3", "3/3"]


@pytest.mark.parametrize("end", ["00", "01", "02", "0a", "10", "a5", "b6", "fe", "ff"])
def test_a_commit_runs_one_sixth_of_the_slow_tests(tmp_path: Path, end: str) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    for name, prints in (("git", f"{'c' * 38}{end}"), ("make", '"$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {prints}\n")
        (tmp_path / name).chmod(0o700)
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = [tmp_path / ".ci" / "run"]
    said = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True, env=path).stdout
    part = f"{int(end, 16) % 6 + 1}/6"
    assert said.splitlines()[:2] == ["check", f"test-all PART={part}"]
    assert f"part {part}" in said.splitlines()[-1]


@pytest.mark.slow
def test_parts_of_slow_tests_are_all_of_them(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest((ROOT / "conftest.py").read_text().replace('pytest_plugins = ("pytester",)', ""))
    slow = "import pytest\n@pytest.mark.slow\ndef test_slow(): pass\ndef test_quick(): pass\n"
    pytester.makepyfile(**{f"test_{name}": slow for name in "abcde"})
    chosen = ("-q", "-p", "warpwatch.plugin", "-o", "markers=slow", "--collect-only")

    def collected(*options: str) -> Counter[str]:
        lines = pytester.runpytest_subprocess(*chosen, *options).outlines
        return Counter(line for line in lines if "::" in line)

    everything, parts = collected(), [collected(f"--part={k}/2") for k in (1, 2)]
    assert [sum("slow" in name for name in part) for part in parts] == [3, 2]
    quick = {name for name in everything if "quick" in name}
    assert parts[0] + parts[1] == everything + Counter(quick)
    refused = pytester.runpytest_subprocess("--part=3/2")
    refused.stderr.fnmatch_lines(["*--part: 3/2 is not K/N, such as 1/3: the first of three parts"])


def scripts_of(name: str) -> list[str]:
    return [step.script.strip() for job in load(FOLDER / name)["jobs"].values() for step in steps(job)]


def test_a_test_that_hangs_ends_with_the_stacks_of_all_threads() -> None:
    settings = [word for word in made("test-all") if word.startswith("faulthandler")]
    assert settings == ["faulthandler_timeout=300", "faulthandler_exit_on_timeout=true"]


def test_what_is_marked_once_runs_with_one_set_of_parameters(request: pytest.FixtureRequest) -> None:
    once = [item for item in request.session.items if item.get_closest_marker("once")]
    fast = Counter(item.nodeid.partition("[")[0] for item in once if not item.get_closest_marker("slow"))
    assert set(fast.values()) <= {1}


# Checks of the files, as `make check` calls them


def check(target: Path) -> subprocess.CompletedProcess[str]:
    """Call the commands of the Makefile's ``check`` that read workflows, on the workflows of another folder."""
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    tools = ("check_jsonschema", "zizmor", "actionlint")
    lines = [line.strip() for line in recipe[1].splitlines() if ".github" in line]
    commands = [line for line in lines if any(tool in line for tool in tools)]
    assert len(commands) == len(tools) + 1  # the forms of workflows and of actions
    script = "\n".join(command.replace("$(BIN)", str(Path(sys.executable).parent)) for command in commands)
    return subprocess.run([*SHELL, "-c", script], cwd=target, capture_output=True, text=True, check=False, timeout=60)


SCRIPT = 'run: bash "$ENGINE/.github/actions/warpwatch/check.sh"'
CI, ACTION = "workflows/ci.yml", "actions/warpwatch/action.yml"
BROKEN = [
    (CI, "    runs-on: ubuntu-24.04\n", "", "is not valid under any|'runs-on' is a required"),
    (CI, "          persist-credentials: false\n", "", "artipacked"),
    (CI, "group: ci-${{ github.ref }}", "group: ci-${{ github.reff }}", 'property "reff" is not defined'),
    (CI, "permissions:\n  contents: read", "permissions: write-all", "excessive-permissions"),
    (CI, "run: make check", 'run: echo "${{ github.event.pull_request.title }}"', "template-injection"),
    (CI, "actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8", "actions/checkout@v5", "unpinned-uses"),
    (ACTION, "  using: composite\n", "", "is not valid under any|'using' is a required"),
    (
        ACTION,
        'run: bash "$ENGINE/.github/actions/warpwatch/check.sh"',
        'run: echo "${{ inputs.tests }}"',
        "template-inj",
    ),
    (ACTION, "actions/cache@0057852bfaa89a56745cba8c7296529d2fc39830", "actions/cache@v4", "unpinned-uses"),
]


@pytest.mark.once
@pytest.mark.parametrize(("name", "sound", "broken", "said"), [*BROKEN, (CI, "", "", "")])
def test_a_mistake_in_a_workflow_or_an_action_is_found(
    tmp_path: Path, name: str, sound: str, broken: str, said: str
) -> None:
    for folder in (FOLDER, ACTIONS):
        shutil.copytree(folder, tmp_path / ".github" / folder.name)
    path = tmp_path / ".github" / name
    text = path.read_text()
    assert sound in text
    path.write_text(text.replace(sound, broken, 1))
    done = check(tmp_path)
    assert (done.returncode != 0) == bool(said), done.stdout + done.stderr
    assert re.search(said, done.stdout + done.stderr), done.stdout + done.stderr


def test_shell_of_the_workflows_and_actions_is_checked() -> None:
    places = [place for place, _ in scripts()]
    assert len(places) >= 8
    assert {"comment.sh", "install.sh", "check.sh"} <= {Path(place).name for place in places}
    assert not [text for place, script in scripts() if (text := check_script(place, script))]
    assert "SC2086" in check_script("here", 'for file in "$1"; do rm $file; done\n')


# A release

CHANGES = """# Changelog

## [Unreleased]

## [0.2.0] - 2027-01-31

### Added

- A thing.

## [0.1.0] - 2026-12-01

- The first.

[Unreleased]: address
"""


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    assert notes("v0.2.0", "0.2.0", CHANGES) == "### Added\n\n- A thing.\n"
    assert notes("v0.1.0", "0.1.0", CHANGES) == "- The first.\n"


@pytest.mark.parametrize(
    ("tag", "version", "message"),
    [
        ("v0.2.1", "0.2.0", "tag v0.2.1: the version is 0.2.0"),
        ("v0.3.0", "0.3.0", r"no section '## \[0.3.0\] - YYYY-MM-DD'"),
        ("v0x2.0", "0x2.0", "no section"),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(tag: str, version: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        notes(tag, version, CHANGES)


def test_one_job_of_a_release_may_publish_and_runs_nothing_of_the_repository() -> None:
    jobs = load(FOLDER / "release.yml")["jobs"]
    writing = {name: job for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert {name: [*job["permissions"]] for name, job in writing.items()} == {
        "pypi": ["id-token"],
        "github": ["contents"],
    }
    for job in writing.values():
        assert not any("checkout" in step.get("uses", "") for step in job["steps"])
        assert not any("warpwatch" in step.script for step in steps(job))
    assert jobs["pypi"]["environment"] == "pypi"
    assert jobs["pypi"]["needs"] == "test"
    assert not any("checkout" in step.get("uses", "") for step in jobs["test"]["steps"])  # nothing but the wheel
    assert load(FOLDER / "release.yml")["on"].keys() == {"push"}


# What make installs

INSTALL = """
import json, sys
from tools import install

install.run = lambda command, folder=None: calls.append(command)
calls = []
install.main()
print(json.dumps(calls))
"""


def installed(*words: str) -> list[list[str]]:
    """The commands that tools/install.py would run."""
    command = [sys.executable, "-c", INSTALL, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [list(call) for call in json.loads(done.stdout.splitlines()[-1])]


def names_of(call: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", word)[0] for word in call}


def test_the_engine_is_installed_from_a_copy_of_its_folder_and_set_up_with_a_kept_wheel() -> None:
    own, setup = installed("--engine", "theirs")
    (source,) = (word for word in own if word.endswith("/warpwatch[report,disassembly]"))
    assert not Path(source).is_relative_to(ROOT)  # nothing is built in the folder of the action
    assert own[-1] == "theirs"
    assert setup[1:5] == ["-m", "warpwatch", "setup", "--wheels"]
    assert Path(setup[5]).name == "warpwatch-wheels"


def test_dependencies_and_development_are_installed_by_name_and_plugins_beside_them() -> None:
    ordinary, beside, setup = installed()
    assert {"numpy", "argcomplete", "ruff", "hypothesis", "grimp", "setuptools"} <= names_of(ordinary)
    assert not {"pycuda", "sphinx"} & names_of(ordinary)
    assert {"--target", "--no-deps", "pytest-cov"} <= {*beside, *names_of(beside)}
    assert not any("--group" in word for call in (ordinary, beside) for word in call)  # which an old pip does not know
    assert setup[1:] == ["-m", "warpwatch", "setup"]


def test_what_makes_the_docs_is_installed_beside_the_rest() -> None:
    (beside,) = installed("--docs")
    assert Path(beside[beside.index("--target") + 1]).name == "docs"
    assert "sphinx" in names_of(beside)
