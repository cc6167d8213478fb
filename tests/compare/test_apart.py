"""Tests ``--against`` in other repositories: of calls, whose sides run in a process each, and of a single file."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kernels import FAMILIES
from tests.checkout import COMMIT
from tests.project import ROOT
from tests.stranger import TABLE, declare, run_pytest
from warpwatch.catalogue.cases import find_case
from warpwatch.compare import apart
from warpwatch.compare.apart import Answer, OtherProcess, SameWork
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.opening import Settings
from warpwatch.runs.launched import LaunchedKernel
from warpwatch.timing import sampling
from warpwatch.timing.measurement import Measured
from warpwatch.timing.side_by_side import OtherSideFailed, Plan
from warpwatch.timing.stopping import FEWEST_TURNS, MOST_TURNS

CASE = "copy-memcpy-vendor-1048576-float32"
RUN = ("bench", "--device=software", "--benchmark-max-time=0.01", "--against", "HEAD", "-k")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a call that needs no library of a vendor, as it is committed."""
    package = declare(tmp_path)
    text = (package / "__init__.py").read_text()
    assert text.count("needs=ww.Driver(), ") == 1
    (package / "__init__.py").write_text(text.replace("needs=ww.Driver(), ", ""))
    (tmp_path / ".gitignore").write_text(".benchmarks\n__pycache__\n")
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    """Commit all files of a repository, and the benchmark with them."""
    (folder / "bench").mkdir(exist_ok=True)
    shutil.copy(ROOT / "bench" / "bench_kernels.py", folder / "bench")
    for command in (("init", "-q"), ("add", "-A"), COMMIT):
        subprocess.run(["git", *command], cwd=folder, check=True)


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "mine" / "memcpy.py"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_call_of_unchanged_files_is_identical_and_not_measured(repository: Path) -> None:
    done = run_pytest(repository, *RUN, CASE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 identical" in done.stdout
    assert "process of its own" not in done.stdout


@pytest.mark.slow
def test_a_call_of_changed_files_is_measured_with_both_revisions_code(repository: Path, tmp_path: Path) -> None:
    """Each side leaves a file that says whose code it is."""
    for side in ("old", "new"):
        note = f'    Path({str(tmp_path / side)!r}).touch()\n    cuda = ctypes.CDLL("libcuda.so.1")'
        edit(repository, '    cuda = ctypes.CDLL("libcuda.so.1")', note)
        edit(repository, "import ctypes\n", "import ctypes\nfrom pathlib import Path\n")
        if side == "old":
            commit(repository)
            for old, new in ((note, '    cuda = ctypes.CDLL("libcuda.so.1")'), ("from pathlib import Path\n", "")):
                edit(repository, old, new)
    done = run_pytest(repository, *RUN, CASE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 call: each side ran in a process of its own, and the two processes took turns" in done.stdout
    # Times of the software device call nothing slower or faster; whether they agree depends on how busy the machine is.
    assert re.search("^1 (same|unsure)$", done.stdout, re.MULTILINE), done.stdout
    assert (tmp_path / "old").exists()
    assert (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (('cuda = ctypes.CDLL("libcuda.so.1")', 'raise RuntimeError("no wheel")'), "RuntimeError: no wheel"),
        (("ctypes.c_size_t(A.nbytes)", "ctypes.c_size_t(A.nbytes // 2)"), "is wrong in 524,288 of 1,048,576 elements"),
    ],
)
def test_a_call_that_fails_in_the_other_revision_is_incomparable(
    repository: Path, damage: tuple[str, str], said: str
) -> None:
    edit(repository, *damage)
    commit(repository)
    edit(repository, *damage[::-1])
    done = run_pytest(repository, *RUN, CASE, "--fail-on", "incomparable")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 incomparable: in HEAD: " in done.stdout
    assert said in done.stdout


@pytest.mark.once
@pytest.mark.parametrize("module", ["perf.bandwidth", "bandwidth"])
def test_a_single_file_is_found_in_another_revision_with_the_kernels_beside_it(tmp_path: Path, module: str) -> None:
    package = declare(tmp_path, TABLE.replace("mine", module))
    to = tmp_path / Path(*module.split(".")).with_suffix(".py")
    to.parent.mkdir(exist_ok=True)
    beside = module.rpartition("bandwidth")[0]
    to.write_text((package / "__init__.py").read_text().replace("from mine.", f"from {beside}"))
    for other in ("memcpy.py", "naive.cu", "vectorised.cu", "serial.cpp"):
        shutil.move(package / other, to.parent)
    shutil.rmtree(package)
    commit(tmp_path)
    done = run_pytest(tmp_path, *RUN, "naive-256-1048576-float32")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 identical" in done.stdout


# What another revision's process sends


class Planted:
    """Writes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OtherProcess]:
    """The process of a revision whose package is ``mine``, of no device: the revision's code runs at once."""
    (tmp_path / "mine").mkdir()
    process = OtherProcess(tmp_path, "mine", Settings(kind="software", launch_timeout=1.0))
    yield process
    process.stop()


def sends(tree: Path, code: str) -> None:
    """Make a revision that does this before it declares anything; ``send`` writes to its parent."""
    begin = "import os, sys, time\n\ndef send(data):\n    os.write(int(sys.argv[1]), data)\n\n"
    (tree / "mine" / "__init__.py").write_text(begin + code + "\nos._exit(3)\n")


ANSWER = '{"number": %s, "value": %s, "error": ""}\n'
SAMPLED = "send(b'" + ANSWER.replace("\n", "\\n") % (0, "null") + "')\ntime.sleep(0.2)\n"


@pytest.mark.once
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("send(b'garbage\\n')", "its process sent what is not an answer"),
        ("send(b'[' * 20000 + b'\\n')", "its process sent what is not an answer"),
        ("send(b'\\xff\\xfe\\n')", "its process sent what is not an answer"),
        ("send(b'{\"number\": 5}\\n')", "is not an answer .it is number 5, not 0."),
        ("while True: send(b'x' * 4096)", "its process sent more than 128 KiB at once"),
        ("print('the last words', flush=True)", r"its process died \(the last words\)"),
        ("print('\\x1b[2J' + 'x' * 500, flush=True)", r"its process died \(\?\[2Jx{200,300}\.\.\."),
        ("os.close(1); os.close(2)", "its process died"),
        ("while True: print('x' * 1000)", "no answer within 3 s; process killed"),
        ("os.close(1); os.close(2); time.sleep(60)", "no answer within 3 s; process killed"),
        ("while True: send(b' '); time.sleep(0.1)", "no answer within 3 s; process killed"),
        (SAMPLED + "send(b'{\"number\": 1}\\n')", "its process took no sample"),
        (SAMPLED + 'send(b\'{"number": 1, "value": [-1.0, 0]}\\n\')', "is not an answer"),
        (SAMPLED + 'send(b\'{"number": 1, "value": [NaN, 0]}\\n\')', "is not an answer"),
        (SAMPLED + 'send(b\'{"number": 1, "value": [1e-5, -3]}\\n\')', "is not an answer"),
        (SAMPLED + 'send(b\'{"number": 1, "error": "a\\\\u001b[2Jb"}\\n\')', r"^a\?\[2Jb$"),
    ],
)
def test_whatever_it_sends_is_a_failure_of_its_side_alone(
    other: OtherProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setattr(apart, "CALL_SECONDS", 2.0)
    sends(tmp_path, code)
    begin = time.monotonic()
    with pytest.raises(OtherSideFailed, match=said) as error:
        other.sample("cold")
    assert "\n" not in str(error.value)
    assert time.monotonic() - begin < 20


def test_a_pickle_that_it_sends_is_not_unpickled(other: OtherProcess, tmp_path: Path) -> None:
    planted = pickle.dumps(Planted(tmp_path / "planted"))
    sends(tmp_path, f"send(len({planted!r}).to_bytes(4) + {planted!r} + b'\\n')")
    with pytest.raises(OtherSideFailed, match="is not an answer"):
        other.sample("cold")
    assert not (tmp_path / "planted").exists()
    pickle.loads(planted)
    assert (tmp_path / "planted").exists()


KERNEL = {"name": "add", "grid": (32, 1, 1), "block": (128, 1, 1), "code": "a1"}


@pytest.mark.parametrize(
    ("new", "same_source", "is_same"),
    [
        ({}, True, True),
        ({}, False, False),  # its arguments may differ
        ({"code": "b2"}, True, False),
        ({"code": ""}, True, False),
        ({"registers": 40}, True, False),
    ],
)
def test_a_call_of_the_same_source_that_launches_the_same_machine_code_is_not_measured(
    other: OtherProcess, monkeypatch: pytest.MonkeyPatch, new: dict[str, object], same_source: bool, is_same: bool
) -> None:
    old = LaunchedKernel(**{**KERNEL, "code": new.get("code", "a1") and "a1"})  # type: ignore[arg-type]
    answers = {"prepare": Answer(number=0, launches=("add",), kernels=(old,)), "sample": Answer(number=0, value=(1, 0))}
    monkeypatch.setattr(other, "_ask", lambda name, *given: answers[name])
    facts = {"launches": ["add"], "kernels": [KERNEL | new]}
    worker = SimpleNamespace(
        call=lambda function, *given, **named: facts if function is sampling.prepare else (1e-3, 0)
    )
    kernel = cast("Kernel", SimpleNamespace(worker=worker, image=SimpleNamespace(path=None)))
    measured = Measured(kernel=kernel, case=find_case(FAMILIES, CASE), kind="cold")
    plan = Plan(kind="cold", swap=False, check=False, seconds=0.0, warm_up=0.0)
    with pytest.raises(SameWork) if is_same else nullcontext():
        other.measure(measured, 0, plan, same_source=same_source)
    assert other.launched[CASE].kernels == (old,)


@pytest.mark.parametrize(("seconds", "wanted"), [(0.0, FEWEST_TURNS), (60.0, MOST_TURNS)])
def test_turns_in_two_processes_end_by_time_or_number_alone(
    other: OtherProcess, monkeypatch: pytest.MonkeyPatch, seconds: float, wanted: int
) -> None:
    sample = (1e-3, 0)
    monkeypatch.setattr(
        other, "_ask", lambda name, *given: Answer(number=0, value=sample if name == "sample" else None)
    )
    worker = SimpleNamespace(call=lambda function, *given, **named: sample if function is sampling.sample else {})
    kernel = cast("Kernel", SimpleNamespace(worker=worker, image=SimpleNamespace(path=None)))
    measured = Measured(kernel=kernel, case=find_case(FAMILIES, CASE), kind="cold")
    plan = Plan(kind="cold", swap=False, check=False, seconds=seconds, warm_up=0.0)
    assert len(other.measure(measured, 0, plan).old) == 2 * wanted
