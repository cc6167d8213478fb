"""Tests that each kind of change to a process is found by name, and that honest calls leave nothing to find."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.project import ROOT
from warpwatch.devices.foreign import inspection
from warpwatch.devices.foreign.confinement import Confined
from warpwatch.devices.foreign.inspection import MOST, POOL, Outside, look, shortened
from warpwatch.devices.isolated import packages

Changes = Callable[..., list[str]]

# A package in the place of torch, which is not installed here.
TORCH = {
    "torch/__init__.py": "",
    "torch/cuda/__init__.py": "class Event:\n    def record(self): pass\ndef synchronize(): pass\n",
}

# For each line of stdin, a child imports the candidate that lies there and prints what is found.
INSIDE = """
import json, os, sys
from pathlib import Path
import warpwatch.timing.sampling, warpwatch.devices.mismatch
from warpwatch.devices.foreign.inspection import Inside
from warpwatch.devices.opening import Settings, open_device
open_device(Settings(kind="software"))
for line in sys.stdin:
    tree, *packages = json.loads(line)
    if os.fork():
        os.wait()
        continue
    inside = Inside(Path(tree), packages)
    sys.path[:0] = [tree, *packages]
    import candidate
    print(json.dumps(inside.changes()), flush=True)
    os._exit(0)
os._exit(0)
"""

PLANTED = {
    "time": ("import time\ntime.perf_counter = lambda: 0.0", "time.perf_counter is not the one that was imported"),
    "nanoseconds": (
        "import time\ntime.perf_counter_ns = time.monotonic_ns",
        "time.perf_counter_ns is not the one that was imported",
    ),
    "builtin": ("import builtins\nbuiltins.abs = lambda x: 0", "builtins.abs is not the one that was imported"),
    "numpy": (
        "import numpy\nnumpy.array_equal = lambda *_: True",
        "numpy.array_equal is not the one that was imported",
    ),
    "code": (
        "import warpwatch.devices.mismatch as m, types\n"
        "def yes(*_, **__): return True\n"
        "f = next(v for v in vars(m).values() if isinstance(v, types.FunctionType) and not v.__closure__"
        " and v.__module__ == m.__name__)\n"
        "f.__code__ = yes.__code__",
        ": its code or its defaults were replaced",
    ),
    "method": (
        "import pycuda._driver as d\nd.Event.time_till = lambda *_: 0.001",
        "pycuda._driver.Event.time_till is not the one that was imported",
    ),
    "removed": ("import time\ndel time.monotonic", "time.monotonic was removed or replaced by something else"),
    "module": (
        "import sys, types\nsys.modules['time'] = types.ModuleType('time')",
        "module time was replaced in sys.modules",
    ),
    "engine": (
        "import warpwatch.timing.stopping as s\ns.Stopping = type('Stopping', (), {})",
        "warpwatch.timing.stopping.Stopping is not the one that was imported",
    ),
    "module of a package": (
        "import numpy\nnumpy.linalg = numpy",
        "numpy.linalg is not the one that was imported",
    ),
    "torch": (
        "import torch.cuda\nclass Event:\n    def elapsed_time(self, other): return 0.001\ntorch.cuda.Event = Event",
        "torch.cuda.Event is not the package's own: it comes from ",
    ),
    "method of torch": (
        "import torch.cuda\ntorch.cuda.Event.record = lambda self: None",
        "torch.cuda.Event.record is not the package's own: it comes from ",
    ),
    "c": (
        "import ctypes, time\n"
        "def method(f): return ctypes.c_void_p.from_address(ctypes.c_void_p.from_address(id(f) + 16).value + 8)\n"
        "method(time.perf_counter).value = method(time.monotonic).value",
        "time.perf_counter: its code or its defaults were replaced",
    ),
}

HONEST = """
import concurrent.futures, ctypes, queue, random, statistics, threading
import numpy as np, scipy.linalg, torch.cuda
pool = concurrent.futures.ThreadPoolExecutor(4)
list(pool.map(abs, range(100)))
libc = ctypes.CDLL(None)
libc.abs(-3)
np.set_printoptions(precision=3)
np.seterr(all="ignore")
np.random.seed(1)
x = np.random.rand(300, 300) @ np.random.rand(300, 300)
np.testing.assert_allclose(x, x)
event = torch.cuda.Event()
torch.cuda.synchronize()
"""


@pytest.fixture(scope="module")
def children() -> Iterator[subprocess.Popen[str]]:
    """Start a process in which the engine is loaded and the software device open."""
    command = [sys.executable, "-c", INSIDE]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.fixture
def changes(children: subprocess.Popen[str], tmp_path: Path) -> Changes:
    """Return a function that lets a process import a candidate, and returns what is found in it."""
    tree, folder = tmp_path / "tree", tmp_path / "site-packages"

    def find(candidate: str, **files: str) -> list[str]:
        texts = {folder / name: text for name, text in TORCH.items()} | {tree / "candidate.py": candidate}
        for place, text in {**texts, **{tree / name: text for name, text in files.items()}}.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        assert children.stdin
        assert children.stdout
        children.stdin.write(json.dumps([str(tree), str(folder), *packages()]) + "\n")
        children.stdin.flush()
        found: list[str] = json.loads(children.stdout.readline())
        return found

    return find


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_change_is_found_by_name(changes: Changes, kind: str) -> None:
    code, sentence = PLANTED[kind]
    found = changes(code)
    assert len(found) == 1, found
    assert sentence in found[0]


def test_an_honest_candidate_changes_nothing(changes: Changes) -> None:
    assert changes(HONEST) == []


def test_a_module_that_hides_another_is_found_and_a_trees_own_is_not(changes: Changes, tmp_path: Path) -> None:
    files = {"wave.py": "", "scipy/__init__.py": "", "perf/__init__.py": "", "perf/random.py": ""}
    found = changes("import wave, scipy, perf.random", **files)
    assert found == [
        f"module wave is {tmp_path}/tree/wave.py, which hides the standard library's one",
        f"module scipy is {tmp_path}/tree/scipy/__init__.py, which hides the installed one",
    ]


def test_packages_in_the_tree_are_packages(changes: Changes, tmp_path: Path) -> None:
    """An environment often lies in the checkout."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "site-packages").symlink_to(tmp_path / "tree" / "site-packages")
    (tmp_path / "tree" / "site-packages").mkdir()
    assert changes("import torch.cuda") == []


def test_many_findings_are_cut() -> None:
    assert shortened(map(str, range(MOST))) == [*map(str, range(MOST))]
    assert shortened(map(str, range(MOST + 3)))[MOST:] == ["and 3 more"]


# From outside. A call is what a line of stdin starts, and its end is a line of stdout.

SERVE = """
import sys, os, threading, time, subprocess, tempfile, concurrent.futures, ctypes
import numpy as np
tree, home = os.getcwd(), os.path.expanduser("~")
pool = concurrent.futures.ThreadPoolExecutor(4)
kept = []
def honest():
    list(pool.map(lambda _: time.sleep(0.001), range(8)))
    kept.append(np.random.rand(200, 200) @ np.random.rand(200, 200))
    kept.append(os.memfd_create("x"))
    kept.append(os.pipe())
    kept.append(open("/etc/passwd"))
    kept.append(open("/dev/null", "w"))
    with open(home + "/log", "a") as file:
        file.write("x")
    with open("kernel.cu") as file:
        file.read()
    subprocess.run(["true"])
    threading.Thread(target=time.sleep, args=(0.01,)).start()
def spin():
    def work():
        while True:
            sum(range(100))
    threading.Thread(target=work, daemon=True).start()
def threads():
    for _ in range(int(sys.argv[1]) + 1):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
def child():
    subprocess.Popen(["sleep", "60"], start_new_session=True)
def fork():
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
def written():
    kept.append(open(home + "/kept", "w"))
def read():
    kept.append(open("kernel.cu"))
print("ready", flush=True)
for line in sys.stdin:
    globals()[line.strip()]()
    print("done", flush=True)
"""

LEFT = {
    "spin": r"thread \d+ \(.*\) is at work after the call",
    "threads": r"\d+ new threads are left behind",
    "child": r"process \d+ \(sleep( 60)?\) runs on after the call",
    "fork": r"process \d+ \(a fork\) runs on after the call",
    "written": r"/.*/kept is left open for writing",
    "read": r"/.*/kernel.cu is left open",
}


@contextmanager
def served(tmp_path: Path) -> Iterator[tuple[Confined, Callable[[str], None]]]:
    """Start a confined process that calls functions by their names; yield it, and what calls one."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "kernel.cu").write_text("")
    program = tmp_path / "program.py"
    program.write_text("import sys\nsys.path[:0] = sys.argv[2:]\n" + SERVE)
    reading, writing = os.pipe()
    with open(writing, "wb") as output:
        process = Confined(program, [str(POOL)], tmp_path / "tree", output)
    with open(reading) as lines:

        def call(name: str) -> None:
            assert process.process.stdin
            if name:
                process.process.stdin.write(f"{name}\n".encode())
                process.process.stdin.flush()
            assert (line := lines.readline()) in ("ready\n", "done\n"), line + lines.read()

        try:
            call("")
            yield process, call
        finally:
            process.end()


@pytest.mark.parametrize("name", LEFT)
def test_what_a_call_leaves_behind_is_found_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(inspection, "QUIET_SECONDS", 0.3)
    with served(tmp_path) as (process, call):
        call("honest")
        outside = Outside(tmp_path / "tree", process.processes)
        call(name)
        (sentence,) = outside.changes()
        assert re.fullmatch(LEFT[name], sentence)
        outside.expect()
        assert outside.changes() == []


def test_honest_calls_leave_nothing_behind(tmp_path: Path) -> None:
    with served(tmp_path) as (process, call):
        outside, before = Outside(tmp_path / "tree", process.processes), look(process.processes())
        for _ in range(5):
            call("honest")
        begin = time.monotonic()
        assert outside.changes() == []  # even since before the first call
        assert time.monotonic() - begin < 1
        assert before.files
        assert not before.unreadable
        assert any(name.startswith("python") for name in before.threads.values())


def test_processes_that_ended_are_no_finding(tmp_path: Path) -> None:
    done = subprocess.Popen(["true"])
    outside = Outside(tmp_path, lambda: [done.pid, os.getpid()])
    done.wait()
    assert outside.changes() == []
