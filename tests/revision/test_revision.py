"""Tests what another revision can do to a run that compares with it, by git tree, Python and declarations."""

from __future__ import annotations

import copy
import functools
import json
import operator
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkout import COMMIT, Bench, without_rights
from tests.project import ROOT
from warpwatch.catalogue.project import Project
from warpwatch.devices import isolated
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.revision import declarations, declared
from warpwatch.revision.commit import checkout, find_commit, is_shallow, other_kernels_of
from warpwatch.revision.declared import BadRevision, DeclarationProcess
from warpwatch.runs import identity
from warpwatch.runs.record import read_runs


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a package ``kernels`` that holds nothing yet."""
    (tmp_path / "tree" / "kernels").mkdir(parents=True)
    return tmp_path / "tree"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))


def write(tree: Path, code: str) -> None:
    (tree / "kernels" / "__init__.py").write_text(code)


def project(root: Path) -> Project:
    return Project(root=root, module="kernels", families=())


def saved(folder: Path) -> str:
    """Commit all that lies in a folder; returns the commit."""
    for command in (("init", "-q"), ("add", "-A"), COMMIT):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return find_commit("HEAD", folder)


def read_declared(folder: Path) -> declared.Declared:
    return DeclarationProcess(folder, "kernels", "HEAD").declared("sm_90")


@functools.cache
def good() -> dict[str, Any]:
    """Declarations of this revision, of three cases alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(declared, "parse", lambda text, revision: json.loads(text))
        document: Any = read_declared(ROOT)
    names = [name for name in document["cases"] if "struct" in name or "matmul-tiled-8x8-128x128x128" in name]
    return {"cases": {name: document["cases"][name] for name in names[:3]}}


# git


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "^'' names no revision: give a commit"),
        (" \t", r"^' \\t' names no revision: give a commit"),
        ("--all", "^--all: git knows no such revision here: none begins with '-'"),
        ("a\0b", "names no revision: none holds a zero byte"),
    ],
)
def test_what_cannot_name_a_revision_is_refused(name: str, said: str) -> None:
    with pytest.raises(BadRevision, match=said):
        find_commit(name, ROOT)


def test_a_machine_without_git_says_so(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tree))
    with pytest.raises(BadRevision, match=r"HEAD needs git, which cannot be run \(.*\): apt install git"):
        find_commit("HEAD", ROOT)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../README.md/../../outside"])
def test_a_link_that_leads_outside_is_named(tree: Path, target: str) -> None:
    (tree / "kernels" / "link.h").symlink_to(target)
    with pytest.raises(BadRevision, match=rf"HEAD: kernels/link.h is a link to {target}, outside of the revision's"):
        checkout(saved(tree), "HEAD", project(tree))
    assert not list((tree.parent / "cache" / "revisions").iterdir())


def test_a_link_within_the_kernels_is_kept(tree: Path) -> None:
    (tree / "kernels" / "real.h").write_text("int a;\n")
    (tree / "kernels" / "link.h").symlink_to("real.h")
    assert (checkout(saved(tree), "HEAD", project(tree)) / "kernels" / "link.h").read_text() == "int a;\n"


def test_a_cache_that_cannot_be_written_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, "")
    (tree.parent / "file").write_text("")
    monkeypatch.setenv("WARPWATCH_CACHE", str(tree.parent / "file"))
    wanted = r"HEAD: there is no place to unpack its kernels in: .*/file cannot be written: .*WARPWATCH_CACHE"
    with pytest.raises(BadRevision, match=wanted):
        checkout(saved(tree), "HEAD", project(tree))


@pytest.mark.slow
def test_a_run_without_git_is_saved_and_one_against_a_revision_says_what_it_lacks(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "empty").mkdir()
    command = (sys.executable, "-m", "pytest", "bench", "-p", "tests.fake_gpu", "-q", "-k", "hello and not host")
    done = bench.run_in(tmp_path, *command, "--benchmark-max-time=0.001", PATH=str(tmp_path / "empty"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(bench.saved) == 1
    done = bench.run_in(tmp_path, *command, "--against", "HEAD", PATH=str(tmp_path / "empty"))
    assert done.returncode == 4
    assert "ERROR: --against=HEAD needs git, which cannot be run" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_checkout_that_cannot_be_written_is_compared(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "checkout")
    subprocess.run(["chmod", "-R", "a-w", bench.folder], check=True)
    command = [sys.executable, "-m", "pytest", "bench", "-p", "tests.fake_gpu", "-q", "-k", "hello and not host"]
    command += ["--benchmark-max-time=0.001", "--against", "HEAD", f"--benchmark-storage={tmp_path / 'saved'}"]
    done = bench.run_in(bench.folder, *without_rights(command))
    subprocess.run(["chmod", "-R", "u+w", bench.folder], check=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 identical" in done.stdout


# Its Python


def test_it_sees_no_variables_of_the_user_but_those_that_python_needs(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "SSH_AUTH_SOCK", "LD_PRELOAD_HINT"):
        monkeypatch.setenv(name, "a secret")
    code = "import os, sys\nraise SystemExit(' '.join(sorted(os.environ)) + ' ' + os.environ['HOME'])"
    write(tree, code)
    with pytest.raises(BadRevision) as error:
        read_declared(tree)
    names = str(error.value).partition("(")[2].rstrip(")").split()
    home = names.pop()
    own = {"HOME", "TMPDIR", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "WARPWATCH_CACHE", "XDG_CACHE_HOME"}
    assert all(isolated.KEPT.fullmatch(name) for name in set(names) - own)
    assert "PATH" in names
    assert home != os.environ["HOME"]
    assert not Path(home).exists()


def test_it_imports_its_own_kernels_and_nothing_of_this_checkout(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(BadRevision, match=r"has no attribute 'FAMILIES'|No module named|cannot import name"):
        read_declared(tree)  # its folder `kernels` is there, and empty


@pytest.mark.once
@pytest.mark.parametrize("gpu", sorted(path.name for path in (ROOT / "bench" / "baselines").iterdir() if path.is_dir()))
def test_the_code_of_a_committed_baseline_can_be_read(gpu: str) -> None:
    """Pairs build it, so an engine of then must be able to list its cases for this one."""
    if is_shallow(ROOT):
        pytest.skip("needs the history: git fetch --unshallow")
    for commit in {run.commit.id for run in read_runs(ROOT / "bench" / "baselines" / gpu)}:
        assert len(read_declared(checkout(commit, commit, project(ROOT))).cases) > 800


def gone(pid: int) -> bool:
    """True where a process ends within two seconds."""
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("after", ["time.sleep(600)", "raise SystemExit('over')"])
def test_it_ends_in_time_and_leaves_no_process_behind(tree: Path, monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    monkeypatch.setattr(declared, "EXPORT_SECONDS", 3.0)
    write(
        tree,
        "import pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sh', '-c', 'sleep 600 & sleep 600'])\n"
        f"pathlib.Path('pid').write_text(str(child.pid))\n{after}\n",
    )
    begin = time.monotonic()
    said = r"over" if "over" in after else r"\(no answer within 3 s; process killed\)"
    with pytest.raises(BadRevision, match=f"its declarations cannot be read .*{said}"):
        read_declared(tree)
    assert time.monotonic() - begin < 30
    assert gone(int((tree / "pid").read_text()))


def wait_for(path: Path) -> None:
    for _ in range(500):
        if path.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} does not appear")


def test_a_reading_that_nobody_waits_for_leaves_no_process_and_no_folder_behind(tree: Path) -> None:
    write(
        tree,
        "import os, pathlib, time\n"
        "pathlib.Path('new').write_text(f'{os.getpid()} {os.environ[\"HOME\"]}')\n"
        "os.rename('new', 'begun')\n"
        "time.sleep(600)\n",
    )
    reading = DeclarationProcess(tree, "kernels", "HEAD")
    wait_for(tree / "begun")
    process, home = (tree / "begun").read_text().split()
    assert Path(home).is_dir()
    reading.stop()
    assert gone(int(process))
    assert not Path(home).exists()
    reading.stop()


@pytest.mark.slow
def test_it_begins_before_the_architecture_is_known(tree: Path) -> None:
    subprocess.run(["cp", "-r", ROOT / "kernels", tree], check=True)
    with (tree / "kernels" / "__init__.py").open("a") as file:
        file.write("import pathlib\npathlib.Path('begun').touch()\n")
    reading = DeclarationProcess(tree, "kernels", "HEAD")
    wait_for(tree / "begun")
    assert reading.declared("sm_90") == read_declared(ROOT)


def test_it_does_not_fill_the_disk(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "MOST_BYTES", 2**20)
    write(tree, "while True: print('x' * 1000)")
    with pytest.raises(BadRevision, match=r"\(it writes more than 1 MiB; process killed\)"):
        read_declared(tree)


@pytest.mark.slow
def test_what_it_prints_does_not_mix_with_what_it_declares(tree: Path) -> None:
    subprocess.run(["cp", "-r", ROOT / "kernels", tree], check=True)
    with (tree / "kernels" / "__init__.py").open("a") as file:
        file.write("print('a greeting')\n")
    assert read_declared(tree) == read_declared(ROOT)


def test_its_last_words_cannot_steer_a_terminal(tree: Path) -> None:
    write(tree, r"raise SystemExit('\x1b[2J' + 'x' * 500)")
    with pytest.raises(BadRevision, match=r"\(\?\[2Jx{200,300}\.\.\.\)$"):
        read_declared(tree)


# What it declares


def read_answer(tree: Path, text: bytes) -> dict[str, OtherKernel]:
    """Read a revision whose Python writes this."""
    return other_kernels_of(declared.parse(text, "HEAD").cases, tree, "HEAD")


STEP, ARRAY = ("identity", "steps", 0), ("identity", "arrays", 0)
# Of a case, or of the whole document where the place is None: what is set where, and what is said of it.
CHANGES: dict[str, tuple[tuple[str | int, ...] | None, dict[str, Any], str]] = {
    "flags null": ((), {"flags": None}, r"Expected `array`, got `null` - at `\$.cases\[...\].flags`"),
    "no cases": (None, {"cases": ...}, "missing required field `cases`"),
    "cases a list": (None, {"cases": [1]}, "Expected `object`, got `array`"),
    "another file": ((), {"source": "../../../etc/passwd"}, "is not a file of its kernels"),
    "an absolute file": ((), {"source": "/etc/passwd"}, "is not a file of its kernels"),
    "a link outside": ((), {"source": "kernels/link/x.cu"}, "its source lies outside of the revision"),
    "headers behind a link outside": ((), {"include": ["kernels/link"]}, "its source lies outside of the revision"),
    "a folder of headers elsewhere": ((), {"include": ["../include"]}, "is not a file of its kernels"),
    "options of its own": ((), {"flags": ["-ccbin=/tmp/x"]}, "it compiles with '-ccbin=/tmp/x'"),
    "an entry": (STEP, {"entry": "a\tb"}, "Expected `str` matching regex"),
    "an entry of none": (STEP, {"entry": "absent"}, "it launches 'absent', which is none of"),
    "no launch": (("identity",), {"steps": []}, "Expected `array` of length >= 1"),
    "an array's name": (ARRAY, {"name": "a b"}, "matching regex"),
    "a shape of text": (ARRAY, {"shape": ["1"]}, "Expected `int`, got `str`"),
    "a cluster of none": (STEP, {"cluster": [0, 1, 1]}, "Expected `int` >= 1"),
    "a macro": ((), {"macros": {"A B": "1"}}, "matching regex"),
    "a macro's type": ((), {"macros": {"A": 1}}, "Expected `str`, got `int`"),
    "a grid of none": (STEP, {"grid": [0, 1, 1]}, "Expected `int` >= 1"),
    "a grid of two": (STEP, {"grid": [1, 1]}, "Expected `array` of length 3"),
    "a grid of text": (STEP, {"grid": "111"}, "Expected `array`"),
    "a huge number": (STEP, {"shared_bytes": 10**400}, "shared_bytes"),
    "true for a number": (STEP, {"block": [True, 1, 1]}, "Expected `int`, got `bool`"),
    "a pointer to nothing": (STEP, {"arguments": [["pointer", "lost", 0]]}, "cannot be used"),
    "a negative offset": (STEP, {"arguments": [["pointer", "A", -8]]}, "Expected `int` >= 0"),
    "another type": (STEP, {"arguments": [["object", 0]]}, "Invalid value 'object'"),
    "too large a value": (STEP, {"arguments": [["scalar", "int8", str(2**40)]]}, "out of bounds for int8"),
    "no argument": (STEP, {"arguments": [[]]}, "cannot be read"),
    "a struct of itself": (
        STEP,
        {"arguments": [["struct", 8, [["a", 0, ["scalar", "float64", "1"]], ["a", 0, ["scalar", "int8", "1"]]]]]},
        "cannot be used",
    ),
    "machine code that is no base64": ((), {"code": "0"}, "cannot be used"),
    "a field beyond its struct": (
        STEP,
        {"arguments": [["struct", 4, [["a", 3, ["scalar", "float64", "1"]]]]]},
        "cannot be used",
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("change", CHANGES)
def test_what_it_declares_is_checked(tree: Path, change: str) -> None:
    (tree / "kernels" / "link").symlink_to(tree.parent)
    document = copy.deepcopy(good())
    place, values, said = CHANGES[change]
    case: Any = next(iter(document["cases"].values()))
    changed = document if place is None else functools.reduce(operator.getitem, place, case)
    for name, value in values.items():
        changed[name] = value
        if value is ...:
            del changed[name]
    with pytest.raises(BadRevision, match=rf"HEAD: its declaration.*{said}"):
        read_answer(tree, json.dumps(document).encode())


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 200_000, b"null", b'{"cases": [' + b"9" * 5000 + b"]}"])
def test_what_is_no_declaration_is_one_sentence(tree: Path, text: bytes) -> None:
    with pytest.raises(BadRevision, match="HEAD: its declarations cannot be read") as error:
        read_answer(tree, text)
    assert "\n" not in str(error.value)


def test_a_good_declaration_is_read(tree: Path) -> None:
    assert read_answer(tree, json.dumps(good()).encode()).keys() == good()["cases"].keys()
    values = [
        value for case in good()["cases"].values() for step in case["identity"]["steps"] for value in step["arguments"]
    ]
    assert any(value[0] == "struct" for value in values)


def test_a_field_that_is_an_array_is_a_struct_of_its_elements() -> None:
    tensor = np.zeros(1, np.dtype([("data", "u8"), ("sizes", "i4", (2, 2)), ("dims", "i4")]))[0]
    tensor["data"], tensor["sizes"], tensor["dims"] = declarations.FIRST + declarations.SPACING + 8, [[7, 6], [5, 4]], 2
    read = msgspec.convert(declarations.described(tensor, ["A", "B"]), identity.Structure)
    assert read.fill({"A": 0, "B": 100}).tobytes() == np.array([108, 0, 7, 6, 5, 4, 2], "i4").tobytes()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield every place in a document, as the keys that lead there."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for name, each in inner for found in places(each, (*path, name)))]


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [10**400, "pointer", "struct", "float64", [], {}, [[]], ["struct", 8, [["a", 0, ["scalar", "int8", "1"]]]]]
    ),
)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_whatever_it_declares_is_read_or_refused(data: st.DataObject) -> None:
    document = copy.deepcopy(good())
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([place for place in places(document) if place]))
        value: Any = document
        for name in path[:-1]:
            value = value[name]
        value[path[-1]] = copy.deepcopy(data.draw(ODD))  # or a list could come to hold itself
    try:
        read_answer(ROOT, json.dumps(document).encode())
    except BadRevision as error:
        assert "\n" not in str(error)  # noqa: PT017  # what else is raised fails the test
