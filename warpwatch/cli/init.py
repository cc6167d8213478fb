"""Writes a working example into a repository: ``warpwatch init``."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path

from warpwatch.catalogue.setting import SETTING, TABLE, BadProject, pytest_settings, read_table
from warpwatch.runs.files import write_whole

TEMPLATES = Path(__file__).parent.parent / "templates"
PACKAGE = "perf"
DECLARATION = f"{PACKAGE}/__init__.py"
# Files of each kind of example beside USERS, by their places: the kernel, its declaration, and what else is its own.
EXAMPLES = {
    "cuda": {DECLARATION: "declaration.py.txt", f"{PACKAGE}/block_per_row.cu": "block_per_row.cu"},
    "torch": {DECLARATION: "torch_declaration.py.txt", "csrc/rms_norm.cu": "torch_rms_norm.cu"},
    "pycuda": {
        DECLARATION: "pycuda_declaration.py.txt",
        f"{PACKAGE}/saxpy.cu": "pycuda_saxpy.cu",
        f"{PACKAGE}/host.py": "pycuda_host.py.txt",
        "tests/test_host.py": "pycuda_test_host.py.txt",
    },
}
USERS = {
    "tests/test_kernels.py": "test_kernels.py.txt",
    "bench/bench_kernels.py": "bench_kernels.py.txt",
}
WORKFLOW = {".github/workflows/kernels.yml": "workflow.yml.txt"}
GITLAB, JOBS = ".gitlab-ci.yml", ".gitlab/kernels.yml"
OF_GITLAB = {JOBS: "gitlab-kernels.yml.txt", GITLAB: "gitlab-ci.yml.txt"}
AGENTS, AGENTS_TEMPLATE = "AGENTS.md", "AGENTS.md.txt"
WRITES = {True: "would write", False: "wrote"}
LINES = "pyproject.toml.txt"
IGNORED = (".benchmarks/", ".pytest_cache/", ".venv/", "__pycache__/")  # of .gitignore: saved runs, and what is made
SITE = "site"  # where NEXT has the report write pages
NEXT = """\
python -m pytest tests  # is the example right? Without a GPU, the software device runs it
python -m pytest bench  # how fast is it? Commit it then, and change the kernel
python -m pytest bench --warpwatch-against HEAD  # is it slower than in the last commit?
python -m warpwatch report .benchmarks/* --html site  # pages with charts of the runs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="the repository (this folder)")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    written = parser.add_mutually_exclusive_group()
    written.add_argument("--agents", action="store_true", help="write AGENTS.md alone, for programs that write kernels")
    written.add_argument("--gitlab", action="store_true", help="write jobs for GitLab, and no workflow for GitHub")
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in (("torch", "a source of a PyTorch extension"), ("pycuda", "a program that launches by PyCUDA")):
        kinds.add_argument(
            f"--{kind}", dest="kind", action="store_const", const=kind, default="cuda", help=f"the example is {text}"
        )


def run(*, folder: Path, dry_run: bool, agents: bool = False, gitlab: bool = False, kind: str = "cuda") -> int:
    """Write the files of an example that are not there yet, and print what to do next; returns the exit status.

    ``dry_run``: show what would be written, and write nothing. ``agents``: write AGENTS.md alone. ``gitlab``: write
    jobs for GitLab, and no workflow for GitHub. ``kind``: of the example. Raises BadProject or OSError, before anything
    is written, where the example would not work.
    """
    if agents:
        if not _write(folder / AGENTS, AGENTS_TEMPLATE, dry_run):
            print(f"{TEMPLATES / AGENTS_TEMPLATE} has the lines that it would get")
        return 0
    named = _named(folder / "pyproject.toml")
    users = USERS | (OF_GITLAB if gitlab else WORKFLOW)
    files: Mapping[str, str] = users if named else EXAMPLES[kind] | users
    if not named and (taken := _taken(folder, kind)):
        raise BadProject(
            f"{taken} exists and may be no package of kernels: name yours in {TABLE}, then call this again"
        )
    settings = None if named else _with_lines(folder / "pyproject.toml")
    for name, template in files.items():
        if not _write(folder / name, template, dry_run) and name == GITLAB:
            print(f"it needs the line `include: [{{local: {JOBS}}}]`")
    _ignore(folder / ".gitignore", dry_run)
    if settings is None:
        print(f"left {folder / 'pyproject.toml'} as it is: it names kernels already")
    else:
        if not dry_run:
            write_whole(folder / "pyproject.toml", settings)
        print(f"{WRITES[dry_run]} {TABLE} in {folder / 'pyproject.toml'}")
    print(NEXT)
    return 0


def _write(path: Path, template: str, dry_run: bool) -> bool:
    """Write a file that is not there yet, and say so; tells whether it was not there."""
    if path.exists() or path.is_symlink():
        print(f"left {path} as it is")
        return False
    if not dry_run:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (TEMPLATES / template).read_bytes())
    print(f"{WRITES[dry_run]} {path}")
    return True


def _ignore(path: Path, dry_run: bool) -> None:
    """Have git ignore saved runs and caches, and say so."""
    before = path.read_text() if path.is_file() else ""
    own = () if (path.parent / SITE).exists() else (f"/{SITE}/",)  # one that is there holds files of others
    missing = [line for line in (*IGNORED, *own) if not {line, line.strip("/"), line.rstrip("/")} & {*before.split()}]
    if not missing or path.is_symlink():
        print(f"left {path} as it is")
        return
    if not dry_run:
        gap = "" if before.endswith("\n") or not before else "\n"
        write_whole(path, before + gap + "".join(f"{line}\n" for line in missing))
    print(f"{WRITES[dry_run]} {path}" if not before else f"{WRITES[dry_run]} {', '.join(missing)} in {path}")


def _named(file: Path) -> bool:
    """Tell whether a pyproject.toml names kernels already. Raises BadProject."""
    return file.is_file() and (read_table(file) is not None or SETTING in pytest_settings(file))


def _taken(folder: Path, kind: str) -> Path | None:
    """Return a package or module of the example's name that is another's."""
    own = (TEMPLATES / EXAMPLES[kind][DECLARATION]).read_bytes()
    for path in (folder / PACKAGE / "__init__.py", folder / f"{PACKAGE}.py"):
        if path.exists() and path.read_bytes() != own:
            return path
    return None


def _with_lines(file: Path) -> bytes:
    """Return a pyproject.toml with our lines at its end, or a new one of them alone. Raises BadProject."""
    lines = (TEMPLATES / LINES).read_bytes()
    if not file.exists():
        return lines
    before = file.read_bytes()
    gap = b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"
    whole = before + gap + lines
    try:
        tomllib.loads(whole.decode())
    except ValueError as error:
        raise BadProject(f"{file}: {TABLE} cannot be added at its end ({error}): write it there yourself") from None
    return whole
