"""Checks, compares and times a repository's kernels as a job does, and leaves a result: ``warpwatch ci``."""

from __future__ import annotations

import argparse
import functools
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import ARCH, add_device, add_keywords, completed, revisions
from warpwatch.cli.programs import Program, ended_by_signals, pytest_words, record_of
from warpwatch.devices.compile.compiler import NoCompiler, nvcc
from warpwatch.devices.foreign_text import Limited, plain
from warpwatch.devices.gpus import why_no_gpu
from warpwatch.report.pull_request.annotations import annotate, code_quality
from warpwatch.report.pull_request.comment import About, comment, marker
from warpwatch.report.pull_request.gather import Gathered
from warpwatch.report.pull_request.result import NAME, Result, one_line
from warpwatch.revision.commit import find_commit, find_merge_base, git
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.files import write_whole
from warpwatch.runs.record import BadRun, Outcome, RunRecord, read_run

OWN = "warpwatch-"  # what the files in the folder of results begin with
SOFTWARE = "the software device"
MOST_ON_PAGE = 2**19  # bytes of a table; GitHub shows a page of a megabyte, and nothing of a larger one
MOST_SHOWN, MOST_LOGGED = 2**20, 2**26  # characters that a program prints: in this job's log, and in a file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH", help="the tests of kernels (tests)")
    parser.add_argument("--bench", default="bench", metavar="PATH", help="the benchmark, run on a GPU (bench)")
    completed(
        parser.add_argument(
            "--against", default="", metavar="REV", help="compare with it (where the pull request's branch began)"
        ),
        revisions,
    )
    parser.add_argument("--arch", default=ARCH, metavar="LIST", help=f"compare machine code for these ({ARCH})")
    add_keywords(parser, "only what matches, as pytest -k")
    folder = Path("warpwatch-results")
    parser.add_argument(
        "--results", type=Path, default=folder, metavar="FOLDER", help=f"write everything there ({folder})"
    )
    name = os.environ.get("GITHUB_JOB") or os.environ.get("CI_JOB_NAME", "kernels")
    parser.add_argument("--job", default=name, metavar="NAME", help="what the comment calls this job")
    add_device(parser)


@dataclass(kw_only=True)
class Job(Gathered):
    """A job, and what it has found out so far. ``keywords``: the options -k. ``base``: the commit to compare with."""

    results: Path
    on_gpu: bool
    keywords: Sequence[str] = ()
    base: str = ""

    def file(self, name: str) -> Path:
        return self.results.absolute() / f"{OWN}{name}"


def run(
    project: Project,
    *,
    tests: Sequence[str],
    bench: str,
    against: str,
    arch: str,
    keywords: str,
    results: Path,
    job: str,
    device: str,
) -> int:
    """Run everything that this machine can, and write the result; returns 1 where a kernel is wrong or slower.

    Raises DeviceError where the driver does not work, or OSError.
    """
    results.mkdir(parents=True, exist_ok=True)
    for path in results.glob(f"{OWN}*"):  # of an earlier call
        if path.is_file():
            path.unlink()
    on_gpu = device == "gpu" or (device == "auto" and not why_no_gpu())
    words = ["-k", keywords] if keywords else []
    done = Job(root=project.root, results=results, on_gpu=on_gpu, keywords=words)
    with ended_by_signals():
        _find_base(done, against)
        _check(done, tests)
        _compare_code(done, arch)
        where = _time(done, bench)
    result = done.result(
        job=job,
        where=where or ("a GPU" if on_gpu else SOFTWARE),
        commit=_git(project.root, "rev-parse", "HEAD"),
        against=done.base,
        inside=_git(project.root, "rev-parse", "--show-prefix"),  # where the kernels are in a folder of the checkout
    )
    report = json.dumps(code_quality(result.findings), indent=1)
    write_whole(done.file("codequality.json"), f"{report}\n")
    write_whole(results / NAME, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    _tell(result, done.file("diff.md"))
    return int(result.failed)


def _find_base(job: Job, named: str) -> None:
    """Find the commit to compare with: the one that was named, or where a pull request's branch began."""
    branch = os.environ.get("GITHUB_BASE_REF", "")
    named = named or os.environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", "")
    try:
        if named:
            job.base = find_commit(named, job.root)
        elif branch:
            job.base = find_merge_base(job.root, f"origin/{branch}")[0]
        else:
            none = "nothing is compared: this is no pull request; --against REV compares all the same"
            job.notes.append(none)
    except BadRevision as error:
        whole = "at GitHub `fetch-depth: 0` for actions/checkout, at GitLab `GIT_DEPTH: 0`"
        job.fail(f"nothing is compared: {error}; clone the whole history: {whole}")


def _check(job: Job, tests: Sequence[str]) -> None:
    device = "gpu" if job.on_gpu else "software"
    junit = job.file("tests.xml")
    options = [f"--warpwatch-device={device}", f"--junitxml={junit}", f"--warpwatch-sarif={job.file('tests.sarif')}"]
    job.take_tests(_pytest(job, "tests", [*tests, *options], "the tests"))


def _compare_code(job: Job, architectures: str) -> None:
    """Compare the machine code with that of the base, where there is a compiler for it."""
    if not job.base:
        return
    try:
        nvcc()
    except NoCompiler:
        job.notes.append("machine code is not compared: there is no nvcc on this machine")
        return
    json_file = job.file("diff.json")
    files = ["--json", str(json_file), "--markdown", str(job.file("diff.md"))]
    command = ["warpwatch", "diff", job.base, "--arch", architectures, *files, *job.keywords]
    status, last = _run(job, command)
    try:
        job.take_code(json_file)
    except (OSError, ValueError):
        job.fail(f"machine code was not compared: {last}")
        return
    if status:
        job.fail(f"the comparison of machine code ended with exit status {status}: {last}")


def _time(job: Job, bench: str) -> str:
    """Time the kernels in turns with those of the base, and make a site, on a GPU; returns the GPU's name."""
    if not job.on_gpu:
        job.notes.append("nothing is timed: there is no GPU here")
    if not (job.on_gpu and job.base):
        return ""
    junit, saved = job.file("bench.xml"), job.file("bench.json")
    options = ["--warpwatch-device=gpu", f"--warpwatch-against={job.base}", f"--junitxml={junit}"]
    words = [bench, *options, f"--benchmark-json={saved}"]
    job.take_times(_pytest(job, "times", words, "the benchmark"))
    try:
        where = read_run(saved, tolerant=True).gpu.name
    except BadRun as error:
        job.fail(f"no times were saved: {error}")
        return ""
    status, last = _run(job, ["warpwatch", "report", str(saved), "--html", str(job.file("site"))])
    if status:
        job.notes.append(one_line(f"no site was made: {last}"))
    return where


def _pytest(job: Job, name: str, words: Sequence[str], called: str) -> RunRecord:
    """Run pytest and read its record. A status that this does not explain makes the job red, with the last line."""
    path = job.file(f"{name}.json")
    status, last = _run(job, pytest_words([*words, *job.keywords], path))
    record = record_of(path) or RunRecord(path=path)
    explained = any(test.outcome == Outcome.FAILED for test in record.tests)
    job.failed |= status != 0
    if not record.tests or (status and not explained) or status > 1:
        job.fail(f"{called} ended with exit status {status}{': ' if last else ''}{last}")
    return record


def _run(job: Job, command: Sequence[str]) -> tuple[int, str]:
    """Run a module of Python in the repository, pass on what it prints, and return its status and its last line."""
    call, path = plain(f"$ python -m {shlex.join(command)}"), job.file("log.txt")
    print(call, flush=True)
    reading, writing = os.pipe()
    shown = Limited(show=functools.partial(print, flush=True), most=MOST_SHOWN, rest=f"{path} has all lines")
    with os.fdopen(reading, errors="backslashreplace") as output, path.open("a", encoding="utf-8") as log:
        log.write(f"{call}\n")
        with os.fdopen(writing, "wb") as end:
            program = Program(command, job.root, end)
        with program:
            last = shown.pass_on(output, log, MOST_LOGGED)
            program.wait()
            return program.status or 0, one_line(last)


def _git(root: Path, *words: str) -> str:
    """Return what git prints, or an empty text where there is no git or no checkout."""
    try:
        return git("HEAD", root, *words).stdout.decode(errors="replace").strip()
    except BadRevision:
        return ""


def _tell(result: Result, table: Path) -> None:
    """Print the result; on GitHub, also beside the lines and on its page with the table of machine code."""
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotate(result.findings):
            print(line)
    text = comment([result], About(marker=marker(result.job), commit=result.commit))
    print(text)
    if page:
        code = table.read_text(encoding="utf-8") if table.exists() else ""
        if (size := len(code.encode())) > MOST_ON_PAGE:
            code = f"The table of machine code has {size:,} bytes, too many for this page: it is in {table.name}.\n"
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n{code}\n")
