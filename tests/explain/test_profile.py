"""Tests how Nsight Compute is called and its reports are read, with a stand-in for the program and for its reader."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpwatch.explain import profile as profiling
from warpwatch.explain.profile import NoProfile, Profile, Side, grown, read_report

SIDE = Side(root=Path.cwd(), module="kernels", case="copy-naive-256-1024-float32", image=Path("none"), other=None)


class Metric:
    """A metric of a report. ``at``: its samples by address."""

    def __init__(self, value: float, at: Mapping[int, float] | None = None) -> None:
        self.at = at or {}
        self.as_double = lambda place=None: value if place is None else list(self.at.values())[place]
        self.as_uint64 = list(self.at).__getitem__
        self.num_instances = self.at.__len__
        self.has_correlation_ids = lambda: bool(self.at)
        self.correlation_ids = lambda: self


def action(metrics: Mapping[str, Metric], lines: Mapping[int, tuple[str, int]] | None = None) -> Any:
    """Return a launch in a report. ``lines``: file and line by address, where the code says them."""
    sources = {
        address: SimpleNamespace(file_name=lambda name=name: name, line=lambda number=number: number)
        for address, (name, number) in (lines or {}).items()
    }
    return SimpleNamespace(
        metric_by_name=metrics.get,
        metric_names=metrics.keys,
        source_info=sources.get,
        sass_by_pc=lambda address: f"@P0 BRA  `(.L_x_{address})  0x7f00{address:x}",
    )


@dataclass
class Reader:
    """NVIDIA's reader, with what it reads."""

    actions: Sequence[Any]

    def load_report(self, path: str) -> list[Sequence[Any]]:
        if "broken" in path:
            raise RuntimeError("not a report")
        return [self.actions]


def stalls(reason: str) -> str:
    return f"smsp__pcsamp_warps_issue_stalled_{reason}"


def test_a_report_is_read_in_units_that_are_shown() -> None:
    launch = {
        "gpu__time_duration.sum": Metric(12_500.0),
        "lts__t_sector_hit_rate.pct": Metric(40.0),
        stalls("barrier"): Metric(5.0, {16: 2.0, 32: 3.0}),
        stalls("barrier_not_issued"): Metric(4.0, {16: 4.0}),
        stalls("selected"): Metric(9.0, {16: 9.0}),
    }
    other = launch | {"lts__t_sector_hit_rate.pct": Metric(60.0)}
    found = read_report(Reader([action(launch, {16: ("/a/tiled.cu", 12)}), action(other)]), Path("report"))
    assert found.values == {"time": 25.0, "L2 hit rate": 50.0}
    assert found.stalls == {"barrier": 10.0, "selected": 18.0}
    assert found.lines == {"tiled.cu:12": 2.0, "@P0 BRA `(.L_x_32)": 6.0, "@P0 BRA `(.L_x_16)": 2.0}


def test_reports_that_say_nothing_are_a_sentence() -> None:
    with pytest.raises(NoProfile, match="saw no launch of these kernels"):
        read_report(Reader([]), Path("report"))
    with pytest.raises(NoProfile, match=r"broken.ncu-rep cannot be read: not a report; pip install ncu-report"):
        read_report(Reader([]), Path("broken.ncu-rep"))


def test_what_grew_most_comes_first() -> None:
    old, new = {"a": 5.0, "b": 1.0, "c": 9.0}, {"a": 6.0, "b": 8.0, "c": 2.0, "d": 3.0}
    assert grown(old, new, 2) == [("b", 1.0, 8.0), ("d", 0.0, 3.0)]


def test_more_bytes_from_memory_are_a_cause() -> None:
    old, new = ({"read from memory": read, "written to memory": 10.0} for read in (100.0, 190.0))
    more = Profile(values=new).more_from_memory(Profile(values=old))
    assert more == "more bytes from and to memory: 110.0 -> 200.0 MB"
    assert not Profile(values=old).more_from_memory(Profile(values=old))
    assert not Profile(values=new).more_from_memory(Profile(values={}))


@pytest.mark.parametrize(
    ("prints", "sentence"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission",
            "may not read the GPU's counters: run as root",
        ),
        ("==ERROR== Unknown metric dram__bytes_read.sum", "ncu made no report: Unknown metric"),
        ("", "ncu made no report: it said nothing"),
    ],
)
def test_an_ncu_that_makes_no_report_says_why(
    prints: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ncu"
    program.write_text(f"#!/bin/sh\necho '{prints}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(profiling, "find_ncu", lambda: str(program))
    monkeypatch.setattr(profiling, "find_reader", lambda: Reader([]))
    with pytest.raises(NoProfile, match=sentence):
        SIDE.profile(["copy_naive"])


def test_ncu_leaves_the_clocks_alone_and_is_told_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def run(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(list(command))
        Path(command[list(command).index("--export") + 1]).write_text("a report")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(profiling, "find_ncu", lambda: "ncu")
    monkeypatch.setattr(profiling, "find_reader", lambda: Reader([action({"gpu__time_duration.sum": Metric(1000.0)})]))
    monkeypatch.setattr(subprocess, "run", run)
    assert SIDE.profile(["copy_naive", "f<float>"]).values == {"time": 1.0}
    (command,) = asked
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--kernel-name") + 1] == r"regex:^(copy_naive|f<float>)$"
    assert command[command.index(sys.executable) :][1:4] == ["-P", "-m", "warpwatch.explain.profile"]


def test_what_is_missing_is_said_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(Path, "is_file", lambda self: False)
    with pytest.raises(NoProfile, match="there is no ncu"):
        profiling.find_ncu()
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(NoProfile, match=r"pip install ncu-report \(extra 'profile'\)"):
        profiling.find_reader()
