"""Tests that an unpacked commit holds what git would check out, is checked before it is used, and how long it stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import stranger
from tests.checkout import COMMIT
from tests.cli.command import git
from tests.project import ROOT
from warpwatch.catalogue.project import Project
from warpwatch.revision.commit import checkout, find_commit, read_other_kernels
from warpwatch.revision.declared import BadRevision
from warpwatch.revision.unpacked import LISTING, missing_submodules

LOCAL = ("-c", "protocol.file.allow=always")  # git refuses submodules in local folders otherwise


@pytest.fixture
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def project(tmp_path: Path, _own_cache: None) -> Project:
    """A repository with a package ``kernels``, and no commit."""
    return repository(tmp_path / "tree")


def repository(folder: Path) -> Project:
    (folder / "kernels").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    return Project(root=folder, module="kernels", families=())


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, *COMMIT, "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


def unpack(project: Project, number: int = 0) -> Path:
    """Commit kernels that differ by a number, and unpack the commit."""
    (project.root / "kernels" / "__init__.py").write_text(f"number = {number}\n")
    commit(project.root)
    return again(project)


def again(project: Project) -> Path:
    return checkout(find_commit("HEAD", project.root), "HEAD", project)


def files(folder: Path) -> set[str]:
    """List the files in a folder, from the top of it on."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}
    return found - {LISTING}


def used_days_ago(folder: Path, days: int) -> None:
    os.utime(folder, (time.time() - 86400 * days,) * 2)


def test_what_was_not_used_for_a_month_is_removed(project: Project) -> None:
    unused, recent, used_again = (unpack(project, number) for number in range(3))
    for folder, days in ((unused, 31), (recent, 29), (used_again, 31)):
        used_days_ago(folder, days)
    assert checkout(used_again.name.split("-")[0], "HEAD", project) == used_again
    assert unused.exists()  # nothing was unpacked
    last = unpack(project, 3)
    assert sorted(last.parent.iterdir()) == sorted([recent, used_again, last])
    assert (used_again / "kernels" / "__init__.py").read_text() == "number = 2\n"


def test_what_an_interrupted_run_left_is_removed_too(project: Project) -> None:
    left = unpack(project, 0).with_name("tmp1234")
    (left / "kernels").mkdir(parents=True)
    used_days_ago(left, 31)
    unpack(project, 1)
    assert not left.exists()


# A file, and what is written to it; None where it is removed.
SPOILT = {
    "changed": ("kernels/__init__.py", "number = 9\n"),
    "removed": ("kernels/a.h", None),
    "added": ("kernels/b.h", ""),
    "a damaged listing": (LISTING, "{"),
}


@pytest.mark.parametrize(("name", "text"), SPOILT.values(), ids=SPOILT)
def test_a_folder_that_is_not_as_it_was_unpacked_is_not_used(project: Project, name: str, text: str | None) -> None:
    (project.root / "kernels" / "a.h").write_text("")
    first = unpack(project)
    assert again(project) == first
    path, before = first / name, (first / "kernels" / "__init__.py").stat()
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as long and as old as before
    second = again(project)
    assert second != first
    assert files(second) == {"kernels/__init__.py", "kernels/a.h"}
    assert (second / "kernels" / "__init__.py").read_text() == "number = 0\n"
    assert first.exists()  # a run may read it
    assert again(project) == second
    used_days_ago(first, 2)
    assert again(project) == first
    assert files(first) == files(second)


def test_modules_that_python_compiles_there_spoil_nothing(project: Project) -> None:
    tree = unpack(project)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([sys.executable, "-c", "import kernels"], cwd=tree, env=own, check=True)
    assert (tree / "kernels" / "__pycache__").is_dir()
    assert again(project) == tree


@pytest.mark.usefixtures("_own_cache")
def test_two_projects_of_a_repository_have_folders_of_their_own(tmp_path: Path) -> None:
    one = repository(tmp_path / "tree" / "one")
    shutil.move(one.root / ".git", tmp_path / "tree")
    two = Project(root=tmp_path / "tree" / "a b [x]", module="kernels", families=())
    for project in (one, two):
        (project.root / "kernels").mkdir(parents=True, exist_ok=True)
        (project.root / "kernels" / "__init__.py").write_text(f"name = {project.root.name!r}\n")
    commit(tmp_path / "tree")
    trees = [again(project) for project in (one, two)]
    assert [(tree / "kernels" / "__init__.py").read_text() for tree in trees] == [
        "name = 'one'\n",
        "name = 'a b [x]'\n",
    ]
    assert [files(tree) for tree in trees] == [{"kernels/__init__.py"}] * 2


def test_the_files_are_those_that_git_checks_out(project: Project) -> None:
    root = project.root
    (root / "bench" / "baselines").mkdir(parents=True)
    for name in (".benchmarks/gpu/0001.json", "bench/baselines/0001.json", "notes/with a space.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    (root / ".gitattributes").write_text(
        "kernels/** export-ignore\nkernels/id.h export-subst\nkernels/dos.h eol=crlf\n"
    )
    (root / "kernels" / "id.h").write_text("// $Format:%H$\n")
    (root / "kernels" / "dos.h").write_bytes(b"a\r\n")
    (root / "kernels" / "tool.sh").write_text("#!/bin/sh\n")
    (root / "kernels" / "tool.sh").chmod(0o755)
    (root / "kernels" / "link.h").symlink_to("id.h")
    tree = unpack(project)
    kernels = {f"kernels/{name}" for name in ("__init__.py", "id.h", "dos.h", "tool.sh", "link.h")}
    assert files(tree) == {*kernels, ".gitattributes", "notes/with a space.txt"}
    assert (tree / "kernels" / "id.h").read_text() == "// $Format:%H$\n"
    assert (tree / "kernels" / "dos.h").read_bytes() == b"a\r\n"
    assert os.access(tree / "kernels" / "tool.sh", os.X_OK)
    assert (tree / "kernels" / "link.h").readlink() == Path("id.h")
    assert git(root, "status", "--porcelain") == ""


def test_attributes_are_those_of_the_commit_and_not_of_the_working_tree(project: Project) -> None:
    (project.root / ".gitattributes").write_text("*.h eol=crlf\n")
    (project.root / "kernels" / "a.h").write_bytes(b"a\r\n")
    unpack(project)
    (project.root / ".gitattributes").write_text("*.h -text\n")
    shutil.rmtree(project.root.parent / "cache")
    assert (again(project) / "kernels" / "a.h").read_bytes() == b"a\r\n"


def test_a_filter_that_fails_is_one_sentence(project: Project) -> None:
    """As that of Git LFS where its server is not reached."""
    unpack(project)
    (project.root / ".gitattributes").write_text("*.bin filter=broken\n")
    (project.root / "kernels" / "a.bin").write_text("x")
    commit(project.root)
    for name, value in {"smudge": "false", "required": "true"}.items():
        git(project.root, "config", f"filter.broken.{name}", value)
    with pytest.raises(BadRevision, match=r"^HEAD: it cannot be unpacked \(error: external filter 'false' failed"):
        again(project)
    assert len(list((project.root.parent / "cache" / "revisions").iterdir())) == 1


@pytest.fixture
def with_submodule(project: Project, tmp_path: Path) -> Project:
    """A repository with a submodule of headers, in which there is another one."""
    inner, outer = repository(tmp_path / "inner").root, repository(tmp_path / "outer").root
    (inner / "inner.h").write_text("int inner;\n")
    commit(inner)
    (outer / "outer.h").write_text("int outer;\n")
    git(outer, *LOCAL, "submodule", "add", "-q", str(inner), "in")
    commit(outer)
    git(project.root, *LOCAL, "submodule", "add", "-q", "--name", "a/name", str(outer), "third party/lib")
    git(project.root, *LOCAL, "submodule", "update", "-q", "--init", "--recursive")
    return project


HEADERS = {"third party/lib/outer.h", "third party/lib/in/inner.h"}


def headers(tree: Path) -> set[str]:
    return {name for name in files(tree) if name.endswith(".h")}


def test_submodules_are_there_as_the_commit_records_them(with_submodule: Project) -> None:
    root, lib = with_submodule.root, with_submodule.root / "third party" / "lib"
    assert headers(unpack(with_submodule)) == HEADERS
    (lib / "new.h").write_text("")
    commit(lib)
    assert headers(unpack(with_submodule)) == {*HEADERS, "third party/lib/new.h"}
    git(lib, "checkout", "-q", "HEAD~")  # what is checked out now does not matter
    (lib / "outer.h").write_text("changed")
    assert (again(with_submodule) / "third party" / "lib" / "outer.h").read_text() == "int outer;\n"
    git(root, "checkout", "-q", "HEAD~")
    assert headers(again(with_submodule)) == HEADERS


SINCE = {
    "moved": [("mv", "third party/lib", "elsewhere")],
    "removed": [("rm", "-qf", "third party/lib")],
    "without its address": [
        ("config", "-f", ".gitmodules", "submodule.a/name.url", "/nowhere"),
        ("submodule", "sync", "-q"),
    ],
    "emptied": [("submodule", "-q", "deinit", "-f", "--all")],
}


@pytest.mark.once
@pytest.mark.parametrize("commands", SINCE.values(), ids=SINCE)
def test_a_submodule_is_found_whatever_became_of_it_since(
    with_submodule: Project, commands: Sequence[Sequence[str]]
) -> None:
    unpack(with_submodule)
    shutil.rmtree(with_submodule.root.parent / "cache")
    for command in commands:
        git(with_submodule.root, *command)
    assert headers(again(with_submodule)) == HEADERS


def test_a_linked_working_tree_finds_the_submodules_of_the_first(with_submodule: Project, tmp_path: Path) -> None:
    unpack(with_submodule)
    shutil.rmtree(tmp_path / "cache")
    git(with_submodule.root, "worktree", "add", "-q", "--detach", str(tmp_path / "second"))
    second = Project(root=tmp_path / "second", module="kernels", families=())
    assert headers(again(second)) == HEADERS


def test_a_submodule_that_is_not_in_the_clone_is_named_until_it_is_there(
    with_submodule: Project, tmp_path: Path
) -> None:
    recorded = git(with_submodule.root / "third party" / "lib", "rev-parse", "HEAD")
    unpack(with_submodule)
    git(tmp_path, "clone", "-q", str(with_submodule.root), "clone")
    clone = Project(root=tmp_path / "clone", module="kernels", families=())
    shutil.rmtree(tmp_path / "cache")
    tree = again(clone)
    assert headers(tree) == set()
    assert missing_submodules(tree) == (
        f"third party/lib is a submodule whose commit {recorded[:12]} is not in this clone: "
        f"`git submodule update --init --recursive` or `git -C 'third party/lib' fetch origin {recorded}`"
    )
    assert again(clone) == tree
    with pytest.raises(BadRevision, match=r"declarations cannot be read .*; third party/lib is a submodule whose"):
        read_other_kernels(tree, "kernels", "HEAD", "sm_90")
    git(clone.root, *LOCAL, "submodule", "update", "-q", "--init", "--recursive")
    assert headers(again(clone)) == HEADERS
    assert missing_submodules(again(clone)) == ""


@pytest.mark.usefixtures("_own_cache")
def test_kernels_in_a_missing_submodule_are_said_to_be_there(tmp_path: Path) -> None:
    lib = repository(tmp_path / "lib")
    (lib.root / "kernels" / "__init__.py").write_text("")
    commit(lib.root)
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "-q")
    git(tree, *LOCAL, "submodule", "add", "-q", str(lib.root), "lib")
    commit(tree)
    own = Project(root=tree, module="lib.kernels", families=())
    assert files(again(own) / "lib") == {"kernels/__init__.py"}
    shutil.rmtree(tmp_path / "cache")
    shutil.rmtree(tree / "lib")
    shutil.rmtree(tree / ".git" / "modules")
    with pytest.raises(BadRevision, match=r"^HEAD: it has no kernels \(lib is a submodule whose commit"):
        again(own)


def test_a_check_takes_less_than_it_saves(project: Project) -> None:
    for number in range(400):
        (project.root / "kernels" / f"{number}.h").write_text("x" * 1000)
    unpack(project)
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        again(project)
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.05  # 10 ms, of which two calls of git take most


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("needed", ["a header", "a folder of headers"])
def test_a_case_that_lacks_a_submodule_makes_the_run_red(tmp_path: Path, needed: str) -> None:
    """The working tree does without the submodule's header; the other side needs it, and cannot be compared."""
    folder, lib = tmp_path / "user", repository(tmp_path / "lib").root
    (lib / "inc").mkdir()
    (lib / "inc" / "twice.cuh").write_text("static __device__ float twice(float x) { return 2 * x; }\n")
    commit(lib)
    package = stranger.declare(folder, stranger.TABLE)
    shutil.copytree(ROOT / "bench", folder / "bench", ignore=shutil.ignore_patterns("baselines", "recordings"))
    git(folder, "init", "-q")
    git(folder, *LOCAL, "submodule", "add", "-q", str(lib), "mine/lib")
    changed = package / ("naive.cu" if needed == "a header" else "__init__.py")
    text = changed.read_text()
    if changed.name == "naive.cu":
        using = "static __device__ float four(float x) { return twice(twice(x)); }"
        changed.write_text(f'#include "lib/inc/twice.cuh"\n{using}\n{text}')
    else:
        changed.write_text(text.replace('"one thread an element",', '"...", include=("lib/inc",),'))
    commit(folder)
    git(folder, "rm", "-qf", "mine/lib")
    shutil.rmtree(folder / ".git" / "modules")
    changed.write_text(text)
    done = bench(folder, ("--warpwatch-against", "HEAD"))
    assert done.returncode == 1, done.stdout + done.stderr
    said = {"naive.cu": "does not compile", "__init__.py": "in HEAD, not declared"}[changed.name]
    assert f"{said}; mine/lib is a submodule whose commit" in done.stdout
    assert "`git submodule update --init --recursive`" in done.stdout
    assert " identical" in done.stdout


def bench(folder: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    short = ("--benchmark-max-time=0.001", "--benchmark-min-rounds=3", "-k", "float32 and 1048576 and not host")
    return stranger.run_pytest(folder, "bench", "-q", *short, *options)
