"""Tests a stranger's path: their repository, the two actions as the README has them, and a comment in the stand-in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import git
from tests.project import ROOT
from tests.report.pull_request.player import ACTIONS, Runner
from tests.report.pull_request.stand_in import TOKEN, StandIn
from tests.stranger import environment, made_by_init
from tests.test_tools import check
from tools.workflows import load

README = ACTIONS / "warpwatch" / "README.md"
HEAD = "stranger:faster"
RUN = "https://host/them/theirs/actions/runs/5"


def files_of_the_readme() -> dict[str, str]:
    """Return the workflows that the README tells a stranger to write, by their names."""
    text = README.read_text()
    named = re.findall(r"`\.github/workflows/([\w-]+\.yml)`", text)
    whole = [block for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S) if block.startswith("name:")]
    assert len(named) == len(whole) == 2
    return dict(zip(named, whole, strict=True))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """What a stranger has after `warpwatch init` and the README's two files, on its main branch and one of theirs."""
    folder = made_by_init(tmp_path / "theirs")
    for name, text in files_of_the_readme().items():
        (folder / ".github" / "workflows" / name).write_text(text)
    (folder / ".gitignore").write_text("warpwatch-results/\n__pycache__/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "kernels")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "switch", "-qc", "faster")
    return folder


def run_checks(checkout: Path, tmp_path: Path, **inputs: str) -> tuple[bool, Runner]:
    """Run the first workflow's job in a checkout of the branch's newest commit."""
    variables = environment() | {
        "PYTEST_ADDOPTS": "-p warpwatch.plugin -p no:cacheprovider",
        "GITHUB_BASE_REF": "main",
        "GITHUB_JOB": "kernels",
    }
    keep = {name: value for name, value in variables.items() if name.startswith(("PYTHON", "PYTEST", "GITHUB"))}
    context = {"runner.os": "Linux", "runner.arch": "X64", "github.run_id": "5", "github.job": "kernels",
               "strategy.job-index": "0"}  # fmt: skip
    keep["CUDA_VISIBLE_DEVICES"] = ""  # a free runner has no GPU
    runner = Runner(folder=tmp_path / "free", context=context, variables=keep, artifacts=tmp_path / "artifacts")
    return runner.play("warpwatch", checkout, **inputs), runner


def write_comment(folder: Path, tmp_path: Path, there: StandIn, good: bool) -> tuple[bool, Runner]:
    """Run the second workflow's job for the run before, as GitHub does: without a checkout, with a token."""
    event = "github.event.workflow_run"
    context = {
        "github.token": TOKEN,
        f"{event}.id": "5",
        f"{event}.head_repository.owner.login": HEAD.partition(":")[0],
        f"{event}.head_branch": HEAD.partition(":")[2],
        f"{event}.head_sha": git(folder, "rev-parse", "HEAD"),
        f"{event}.html_url": RUN,
        f"{event}.conclusion": "success" if good else "failure",
    }
    variables = {"GITHUB_API_URL": there.url, "GITHUB_REPOSITORY": "them/theirs"}
    empty = tmp_path / "empty"
    empty.mkdir(exist_ok=True)
    runner = Runner(folder=tmp_path / "second", context=context, variables=variables, artifacts=tmp_path / "artifacts")
    subprocess.run(["rm", "-rf", str(runner.temp / "warpwatch-results")], check=True)
    return runner.play("comment", empty), runner


def push(folder: Path, there: StandIn, old: str, new: str) -> None:
    """Change a kernel, and push it to the pull request."""
    path = folder / "perf" / "block_per_row.cu"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    git(folder, "commit", "-qam", "another way")
    there.pulls.clear()
    there.add_pull(12, HEAD, git(folder, "rev-parse", "HEAD"))


@pytest.mark.slow
def test_a_strangers_pull_request_gets_one_comment_that_follows_it(
    repository: Path, tmp_path: Path, there: StandIn
) -> None:
    push(repository, there, "__syncthreads();  // the values", "// the values")
    good, checks = run_checks(repository, tmp_path)
    assert not good
    assert re.search(r"^::error file=perf/block_per_row.cu,line=\d+,title=fault%3A race", checks.text, re.M), (
        checks.text
    )
    assert "### Kernels:" in (checks.temp / "summary").read_text()
    written, second = write_comment(repository, tmp_path, there, good)
    assert written, second.text
    (body,) = there.bodies()
    assert re.match(r"<!-- warpwatch: kernels -->\n### Kernels: \d+ faults?\n", body)
    assert "- **fault** `race" in body
    assert f"[run]({RUN})" in body

    push(repository, there, "// the values", "__syncthreads();  // the values")
    good, checks = run_checks(repository, tmp_path)
    assert good, checks.text
    assert write_comment(repository, tmp_path, there, good)[0]
    (body,) = there.bodies()
    assert "### Kernels: right, not timed" in body
    assert "`nothing is timed: there is no GPU here`" in body
    assert TOKEN not in second.text


@pytest.mark.slow
def test_kernels_in_a_folder_of_the_checkout_that_need_packages(repository: Path, tmp_path: Path) -> None:
    inside = repository / "gpu code"
    inside.mkdir()
    for name in ("perf", "tests", "bench", "pyproject.toml"):
        git(repository, "mv", name, "gpu code/")
    git(repository, "commit", "-qm", "moved")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    good, checks = run_checks(repository, tmp_path, folder="gpu code", packages="mypackage other")
    assert good, checks.text
    assert (tmp_path / "artifacts" / "warpwatch-kernels-0" / "warpwatch-result.json").is_file()
    (call,) = (checks.temp / "pip").read_text().splitlines()
    assert call == f"{ACTIONS / 'warpwatch'}/../../../tools/install.py --engine mypackage other"


def test_a_pull_request_that_has_moved_on_gets_nothing(repository: Path, tmp_path: Path, there: StandIn) -> None:
    there.add_pull(12, HEAD, "7" * 40)
    written, second = write_comment(repository, tmp_path, there, good=True)
    assert written
    assert "nothing is written" in second.text
    assert not there.bodies()


def test_a_host_that_refuses_makes_the_job_red_and_loses_no_word(
    repository: Path, tmp_path: Path, there: StandIn
) -> None:
    there.add_pull(12, HEAD, git(repository, "rev-parse", "HEAD"))
    there.refusals = [(403, "Resource not accessible by integration", {})]
    written, second = write_comment(repository, tmp_path, there, good=True)
    assert not written
    assert "error: no comment was written" in second.text
    assert "permissions: pull-requests: write" in second.text
    assert "### Kernels: not checked" in second.text


def test_one_command_has_the_token_and_comments_on_a_run_that_left_nothing(
    repository: Path, tmp_path: Path, there: StandIn
) -> None:
    there.add_pull(12, HEAD, git(repository, "rev-parse", "HEAD"))
    good, second = write_comment(repository, tmp_path, there, good=False)
    assert good
    assert "### Kernels: not checked, because the jobs left no result" in there.bodies()[0]
    calls = (second.temp / "calls").read_text().splitlines()
    installs = [call for call in calls if " -m pip install " in call]
    assert installs
    assert all("--require-hashes" in call for call in installs)
    assert [call for call in calls if call.startswith("token")] == [calls[-1]]
    assert " -m warpwatch.cli.comment " in calls[-1]


@pytest.mark.parametrize("path", ["actions/comment/requirements.txt", "workflows/sites.txt", "workflows/release.txt"])
def test_packages_of_jobs_that_may_write_have_a_version_and_a_hash(path: str) -> None:
    text = (ACTIONS.parent / path).read_text()
    packages = [line for line in text.splitlines() if not line.startswith(("#", " "))]
    assert all(re.fullmatch(r"\w+==[\d.]+ \\", line) for line in packages)
    assert len(re.findall(r" --hash=sha256:[0-9a-f]{64}\b", text)) >= len(packages) > 0


def test_the_comment_needs_the_packages_that_are_installed_for_it() -> None:
    named = re.findall(r"^(\w+)==", (ACTIONS / "comment" / "requirements.txt").read_text(), re.M)
    code = f"""
import sys
class Only:
    def find_spec(self, name, path=None, target=None):
        top = name.partition('.')[0]
        if top not in sys.stdlib_module_names and top not in {(*named, "warpwatch")!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Only())
sys.argv = ['warpwatch', '.', '--dry-run']
from warpwatch.cli.comment import main
sys.exit(main())
"""
    done = subprocess.run(
        [str(ROOT / ".venv" / "bin" / "python"), "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "not checked" in done.stdout


def test_the_files_of_the_readme_have_no_fault_that_a_checker_knows(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for name, text in files_of_the_readme().items():
        (folder / name).write_text(text)
    subprocess.run(["cp", "-r", str(ACTIONS), str(tmp_path / ".github")], check=True)
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_names_the_inputs_and_uses_the_actions_in_five_lines() -> None:
    inputs = load(ACTIONS / "warpwatch" / "action.yml")["inputs"]
    table = re.findall(r"^\| `(\w+)` \|", README.read_text(), re.M)
    assert table == list(inputs)
    job = files_of_the_readme()["kernels.yml"].partition("    steps:\n")[2]
    assert len(job.splitlines()) == 5
