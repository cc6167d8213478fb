"""Checks, compares and times a repository's kernels as a job does, and leaves a result: ``warpwatch ci``."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli.children import ended_by_signals, kill, start
from warpwatch.devices.compile.compiler import NoCompiler, nvcc
from warpwatch.devices.detect import why_no_gpu
from warpwatch.devices.foreign_text import Limited, pass_on, plain
from warpwatch.report.pull_request.comment import About, annotate, comment, marker
from warpwatch.report.pull_request.gather import count_tests, count_verdicts, findings, read_code, why_untested
from warpwatch.report.pull_request.result import MOST_NOTES, NAME, Finding, Result, limited, one_line, text_of
from warpwatch.revision.commit import find_commit, find_merge_base, git
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.files import write_whole
from warpwatch.runs.record import BadRun, Outcome, RunRecord, read_run

OWN = "warpwatch-"  # what the files in the folder of results begin with
SOFTWARE = "the software device"
MOST_ON_PAGE = 2**19  # bytes of a table; GitHub shows a page of a megabyte, and nothing of a larger one
MOST_SHOWN, MOST_LOGGED = 2**20, 2**26  # characters that a program prints: in this job's log, and in a file


@dataclass(frozen=True, kw_only=True)
class Request:
    """Holds what was asked for. ``against``: a revision, or empty: that where the pull request's branch began."""

    tests: tuple[str, ...]
    bench: str
    against: str = ""
    device: str = "auto"
    architectures: str = "sm_90"
    keywords: str = ""
    results: Path = Path("warpwatch-results")
    job: str = "kernels"


@dataclass(kw_only=True)
class Job:
    """Holds what a job has found out so far. ``base``: the commit that it compares with; empty where there is none."""

    request: Request
    project: Project
    on_gpu: bool
    base: str = ""
    tests: RunRecord = field(default_factory=lambda: RunRecord(path=Path()))
    timed: RunRecord = field(default_factory=lambda: RunRecord(path=Path()))
    code: dict[str, dict[str, int]] = field(default_factory=dict)
    worse: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    where: str = SOFTWARE
    failed: bool = False

    def file(self, name: str) -> Path:
        return self.request.results.absolute() / f"{OWN}{name}"

    def fail(self, note: str) -> None:
        self.failed = True
        self.notes.append(one_line(note))


def run(project: Project, request: Request) -> int:
    """Run everything that this machine can, and write the result; returns 1 where a kernel is wrong or slower.

    Raises DeviceError where the driver does not work, or OSError.
    """
    prepare(request.results)
    missing = why_no_gpu() if request.device == "auto" else "" if request.device == "gpu" else "not asked for"
    job = Job(request=request, project=project, on_gpu=not missing)
    with ended_by_signals():
        _find_base(job)
        _check(job)
        _compare_code(job)
        _time(job)
    result = _result(job)
    write_whole(request.results / NAME, text_of(result))
    _tell(result, job.file("diff.md"))
    return int(result.failed)


def prepare(folder: Path) -> None:
    """Make the folder of results, and remove the files of an earlier call. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(f"{OWN}*"):
        if path.is_file():
            path.unlink()


def _find_base(job: Job) -> None:
    """Find the commit to compare with: the one that was named, or where a pull request's branch began."""
    named, branch = job.request.against, os.environ.get("GITHUB_BASE_REF", "")
    root = job.project.root
    try:
        if named:
            job.base = find_commit(named, root)
        elif branch:
            job.base = find_merge_base(root, f"origin/{branch}")[0]
        else:
            job.notes.append("nothing is compared: this is no pull request; --against REV compares all the same")
    except BadRevision as error:
        job.fail(f"nothing is compared: {error}; in a workflow: `fetch-depth: 0` for actions/checkout")


def _check(job: Job) -> None:
    """Run the tests on the device."""
    device = "gpu" if job.on_gpu else "software"
    junit = job.file("tests.xml")
    record = job.file("tests.json")
    options = [f"--warpwatch-device={device}", f"--junitxml={junit}", f"--warpwatch-sarif={job.file('tests.sarif')}"]
    command = ["pytest", *job.request.tests, *options, f"--warpwatch-record={record}", *_chosen(job)]
    status, said = _run(job, command)
    job.tests = _read(job, record, status, said, "the tests")
    if why := why_untested(job.tests):
        job.fail(why)


def _compare_code(job: Job) -> None:
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
    command = ["warpwatch", "diff", job.base, "--arch", job.request.architectures, *files, *_chosen(job)]
    status, said = _run(job, command)
    try:
        job.code, job.worse, notes = read_code(json_file)
    except (OSError, ValueError, KeyError):
        job.fail(f"machine code was not compared: {said}")
        return
    job.notes += notes
    if status:
        job.fail(f"the comparison of machine code ended with exit status {status}: {said}")


def _time(job: Job) -> None:
    """Time the kernels in turns with those of the base, where there is a GPU, and make a site of the times."""
    if not job.on_gpu:
        job.notes.append("nothing is timed: there is no GPU here")
        return
    if not job.base:
        return
    junit, saved, record = job.file("bench.xml"), job.file("bench.json"), job.file("times.json")
    options = ["--warpwatch-device=gpu", f"--warpwatch-against={job.base}", f"--junitxml={junit}"]
    options += [f"--benchmark-json={saved}", f"--warpwatch-record={record}"]
    status, said = _run(job, ["pytest", job.request.bench, *options, *_chosen(job)])
    job.timed = _read(job, record, status, said, "the benchmark")
    if not count_verdicts(job.timed):
        job.fail("no kernel was timed: no case of the benchmark has a verdict")
    try:
        job.where = read_run(saved, tolerant=True).gpu.name or "a GPU"
    except BadRun as error:
        job.fail(f"no times were saved: {error}")
        return
    status, said = _run(job, ["warpwatch", "report", str(saved), "--html", str(job.file("site"))])
    if status:
        job.notes.append(one_line(f"no site was made: {said}"))


def _read(job: Job, path: Path, status: int, said: str, what: str) -> RunRecord:
    """Read the record of a run. A status that it does not explain makes the job red, with the last that was said."""
    try:
        record = read_run(path, tolerant=True)
    except BadRun:
        record = RunRecord(path=path)
    bad = any(test.outcome == Outcome.FAILED for test in record.tests)
    job.failed |= status != 0
    if not record.tests or (status and not bad) or status > 1:
        job.fail(f"{what} ended with exit status {status}{': ' if said else ''}{said}")
    return record


def _chosen(job: Job) -> list[str]:
    return ["-k", job.request.keywords] if job.request.keywords else []


def _run(job: Job, command: Sequence[str]) -> tuple[int, str]:
    """Run a module of Python in the repository, pass on what it prints, and return its status and its last line."""
    call, path = plain(f"$ python -m {shlex.join(command)}"), job.file("log.txt")
    print(call, flush=True)
    reading, writing = os.pipe()
    shown = Limited(show=functools.partial(print, flush=True), most=MOST_SHOWN, rest=f"{path} has all lines")
    with os.fdopen(reading, errors="backslashreplace") as output, path.open("a", encoding="utf-8") as log:
        log.write(f"{call}\n")
        with os.fdopen(writing, "wb") as end:
            process = start([sys.executable, "-m", *command], job.project.root, end)
        try:
            said = pass_on(output, log, MOST_LOGGED, shown)
            status = process.wait()
        finally:
            kill(process)
    return status, one_line(said)


def _result(job: Job) -> Result:
    root = job.project.root
    inside = _git(root, "rev-parse", "--show-prefix")  # of a checkout whose kernels are in a folder of it
    found = [*findings([job.tests, job.timed], root), *job.worse]
    named = [replace(e, file=f"{inside}{e.file}") if e.file and not e.file.startswith("/") else e for e in found]
    shown, more = limited(named)
    return Result(
        job=one_line(job.request.job),
        where=one_line("a GPU" if job.on_gpu and job.where == SOFTWARE else job.where),
        commit=_git(root, "rev-parse", "HEAD"),
        against=job.base,
        tests=count_tests(job.tests),
        verdicts=count_verdicts(job.timed),
        code=job.code,
        findings=shown,
        more=dict(more),
        notes=tuple(_few(job.notes)),
        failed=job.failed,
    )


def _few(notes: Sequence[str]) -> Sequence[str]:
    """Return as many notes as a result holds: the last ones, which say what ended badly."""
    left = len(notes) - MOST_NOTES + 1
    if left < 2:
        return notes
    return [notes[0], f"{left:,} more things, which the job's log has", *notes[left + 1 :]]


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
