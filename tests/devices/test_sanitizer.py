"""Tests what is read from the logs of compute-sanitizer, whose records are those of 2025.3.1 on an H100."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from warpwatch.devices.opening import NoDevice
from warpwatch.devices.sanitizer import find_program, findings
from warpwatch.runs.faults import Fault, reported

BOUNDS = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at oob_write+0xb0 in {root}/perf/k.cu:16
=========     by thread (4,0,0) in block (1,0,0)
=========     Access to 0x7f7f00a00200 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f7f00a00000 of size 512 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at oob_write+0xb0 in {root}/perf/k.cu:16
=========     by thread (5,0,0) in block (1,0,0)
=========     Access to 0x7f7f00a00204 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f7f00a00000 of size 512 bytes
=========
========= ERROR SUMMARY: 2 errors
"""
MISALIGNED = """========= Invalid __global__ write of size 8 bytes
=========     at misaligned+0x80 in {root}/perf/k.cu:23
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f7f00a00004 is misaligned
=========     and is inside the nearest allocation at 0x7f7f00a00000 of size 512 bytes
=========
"""
ILLEGAL = """========= Illegal instruction
=========     at __syncwarp(unsigned int)+0xa0 in /usr/local/cuda/include/sm_30_intrinsics.hpp:110
=========     by thread (27,0,0) in block (1,0,0)
=========         Device Frame: sync_mask+0x90 in {root}/perf/k.cu:69
=========
"""
RACE = """========= Error: Race reported between Write access at race_error+0x90 in {root}/perf/k.cu:33
=========     and Read access at race_error+0xd0 in {root}/perf/k.cu:34 [8 hazards]
=========     and Write access at race_error+0x90 in {root}/perf/k.cu:33 [134 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNINITIALISED = """========= Uninitialized __global__ memory read of size 4 bytes
=========     at uninit+0xc0 in {root}/perf/k.cu:51
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7fa408a00000
=========
"""
BARRIER = """========= Barrier error detected. Divergent thread(s) in block.
=========     at sync+0x100 in {root}/perf/k.cu:60
=========     by thread (32,0,0) in block (0,0,0)
=========
"""
ALL = {
    "out of bounds in oob_write": (BOUNDS, "perf/k.cu:16"),
    "misaligned access in misaligned": (MISALIGNED, "perf/k.cu:23"),
    "illegal instruction in sync_mask": (ILLEGAL, "perf/k.cu:69"),
    "race in race_error": (RACE, "perf/k.cu:33"),
    "uninitialised memory in uninit": (UNINITIALISED, "perf/k.cu:51"),
    "barrier error in sync": (BARRIER, "perf/k.cu:60"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "perf").mkdir()
    (tmp_path / "perf" / "k.cu").write_text("")
    return tmp_path


@pytest.mark.parametrize(("what", "log", "place"), [(what, *rest) for what, rest in ALL.items()], ids=ALL)
def test_a_finding_has_a_kind_a_kernel_and_a_line(root: Path, what: str, log: str, place: str) -> None:
    (text,) = findings("memcheck", log.format(root=root), root).values()
    assert text.startswith(f"compute-sanitizer memcheck: {what}\n  {place}: ")
    (fault,) = reported(text)
    assert (f"{fault.kind} in {fault.kernel}", f"{fault.place.file}:{fault.place.line}") == (what, place)
    assert fault.in_source


def test_what_many_threads_do_is_one_finding_with_the_thread_of_the_first(root: Path) -> None:
    (fault,) = reported("\n".join(findings("memcheck", BOUNDS.format(root=root), root).values()))
    assert (fault.place.thread, fault.place.block) == ((4, 0, 0), (1, 0, 0))
    assert "1 bytes after the nearest allocation at 0x7f7f00a00000 of size 512 bytes" in fault.place.message


def test_both_sides_of_a_race_have_their_lines(root: Path) -> None:
    (fault,) = reported("\n".join(findings("racecheck", RACE.format(root=root), root).values()))
    assert [(each.file, each.line) for each in fault.others] == [("perf/k.cu", 34), ("perf/k.cu", 33)]
    assert fault.others[0].message == "Read access [8 hazards]"


def test_code_that_was_compiled_in_another_checkout_is_named_as_that_of_this_one(root: Path) -> None:
    ((_, places),) = findings("memcheck", BOUNDS.format(root="/another/checkout"), root)
    assert places == ("perf/k.cu:16",)


def test_a_fault_of_code_without_lines_is_found_too(root: Path) -> None:
    log = UNINITIALISED.replace(" in {root}/perf/k.cu:51", "")
    ((head, _),) = findings("initcheck", log, root)
    assert head == "uninitialised memory\tuninit"
    assert reported("\n".join(findings("initcheck", log, root).values())) == []


@pytest.mark.parametrize("log", ["", "========= COMPUTE-SANITIZER\n", "========= ERROR SUMMARY: 0 errors\n"])
def test_a_log_without_records_has_no_finding(root: Path, log: str) -> None:
    assert findings("memcheck", log, root) == {}


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("========= Internal Sanitizer Error\n========= \n", "internal sanitizer error"),
        ("========= COMPUTE-SANITIZER\n========= Internal Sanitizer Err", "internal sanitizer err"),  # the tool died
    ],
)
def test_a_record_of_an_unknown_kind_is_a_finding(root: Path, log: str, said: str) -> None:
    """Nothing that a tool says is passed over."""
    ((head, _),) = findings("racecheck", log, root)
    assert head == f"{said}\tan unknown kernel"


def test_a_kernel_with_an_endless_name_is_a_fault_that_can_be_sent(root: Path) -> None:
    log = RACE.format(root=root).replace("race_error", f"race<{'int, ' * 9000}int>")
    (fault,) = reported("\n".join(findings("racecheck", log, root).values()))
    assert fault.kernel.startswith("race<int,int,")
    assert msgspec.convert(msgspec.to_builtins(fault), Fault) == fault


@pytest.mark.parametrize("words", ["Internal\tError", "Internal Error " * 900])
def test_odd_words_of_a_record_are_a_fault_that_can_be_sent(root: Path, words: str) -> None:
    log = UNINITIALISED.format(root=root).replace("Uninitialized", words)
    (fault,) = reported("\n".join(findings("initcheck", log, root).values()))
    assert fault.kind.startswith("internal error")
    assert msgspec.convert(msgspec.to_builtins(fault), Fault) == fault


def test_a_missing_program_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    monkeypatch.setattr("warpwatch.devices.sanitizer.from_pypi", lambda name: [])
    with pytest.raises(NoDevice, match=r"no compute-sanitizer: .*nvidia-cuda-sanitizer-api"):
        find_program()
