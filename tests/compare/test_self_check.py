"""Tests `pytest bench --self-check`: delayed kernels wait as long as they are told, and the table counts them."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.checkout import Bench
from tests.project import PROJECT, ROOT
from tools.recording import record_pairs
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.launches import Capability
from warpwatch.catalogue.selection import builds, timed_cases
from warpwatch.compare.saved_self_check import SLOWDOWNS, Checked, merge, path_of, read, read_variances, save, table
from warpwatch.compare.self_check import KERNEL, PER_SLOWDOWN, chosen, delayed, own_side, write_delayed
from warpwatch.devices.compile.compiler import Target, compile_file
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker
from warpwatch.runs.record import BadRun, Gpu, read_run, typed
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import Delay, Plan, measure_pair

KERNELS = {
    str(build.source.relative_to(ROOT / "kernels")): build
    for build in builds(FAMILIES)
    if not build.variant.has_no_block and not build.variant.own_arch
}


def test_every_kernel_can_be_made_to_wait() -> None:
    for source in KERNELS:
        text = (ROOT / "kernels" / source).read_text()
        waiting = delayed(text)
        assert waiting.count("{ warpwatch_wait();") == text.count("__global__") == len(KERNEL.findall(text)), source
    with pytest.raises(ValueError, match="no kernel"):
        delayed("int main() { }")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("source", sorted(KERNELS))
def test_a_kernel_that_waits_compiles(source: str) -> None:
    build = KERNELS[source]
    image = compile_file(write_delayed(ROOT / "kernels" / source), build.all_macros, Target(Capability(9, 0).arch))
    assert image.path.stat().st_size > 0


def test_a_source_that_is_not_utf_8_is_delayed_as_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "kernel.cu"
    source.write_bytes(b"// gr\xf6\xdfe\n__global__ void kernel() {}\n")
    for _ in range(2):
        assert b"// gr\xf6\xdfe\n" in write_delayed(source).read_bytes()


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.exclusive
@pytest.mark.parametrize("variant", ["naive", "tiled"])
def test_a_kernel_waits_as_long_as_it_is_told(device: DeviceInfo, variant: str) -> None:
    """Inject a slowdown of 100 %, which even a host's clock shows, by the median of some hundred short launches."""
    case = find_case(FAMILIES, f"matmul-{variant}-8x8-128x128x128-float32")
    if not device.has_gpu_clock:
        case = Case(case.build, (32, 32, 32))
    side, worker = own_side(case), Worker(PROJECT, Settings(kind="gpu" if device.has_gpu_clock else "software"))
    source = write_delayed(side.kernels.source)
    image = compile_file(source, side.kernels.all_macros, device.timing_target).path

    def measure(swap: bool, delay: Delay) -> tuple[PairSamples, float]:
        """Return a pair's samples and the slowdown; on the host by the least times, which busy others leave alone."""
        plan = Plan(kind="warm", swap=swap, check=not swap, seconds=0.5, warm_up=0.1, delay=delay)
        pairs = worker.call(measure_pair, case, image, side, image, plan)
        return pairs, math.expm1(pairs.log) if device.has_gpu_clock else min(pairs.new) / min(pairs.old) - 1

    try:
        pairs, slowdown = measure(False, Delay(1.0))
        cycles = pairs.cycles
        if not device.has_gpu_clock:  # where the length of the wait is found by medians, which other programs do move
            told = pairs.cycles / device.clock_hz / min(pairs.old)
            assert 0.2 < told < 5
            slowdown, cycles = slowdown / told, round(min(pairs.old) * device.clock_hz)
        assert 0.6 < slowdown < 1.6
        assert 0.6 < measure(True, Delay(1.0, cycles))[1] < 1.6
    finally:
        worker.stop()


def made(**cases: tuple[float, str, float, bool]) -> dict[str, object]:
    keys = ("median", "verdict", "slowdown", "found")
    whole = {name: dict(zip(keys, values, strict=True)) | {"seen": values[2]} for name, values in cases.items()}
    return {"cases": {name: case | {"floor": 0.012, "variance": 1e-6, "freedom": 3} for name, case in whole.items()}}


def test_the_table_says_from_which_slowdown_on_so_many_are_found() -> None:
    few = {f"a{i}": (50e-6, "same", 0.02, i > 0) for i in range(5)}  # 80 %
    many = {f"b{i}": (50e-6, "same", 0.05, True) for i in range(5)}
    none = {f"c{i}": (50e-6, "unsure", 0.01, False) for i in range(2)}
    assert table(typed(made(**few, **many, **none, d=(5e-6, "slower", 0.1, False)), Checked)) == [
        "under 10 µs: 1 cases; unchanged: 1 slower, 0 faster, 0 unsure; floor 1.2 % (median)",
        "  slowdowns found: 10 % (seen 10.0): 0 of 1; "
        "80 % of the time from more than 10.0 %, 95 % from more than 10.0 %",
        "10 to 100 µs: 12 cases; unchanged: 0 slower, 0 faster, 2 unsure; floor 1.2 % (median)",
        "  slowdowns found: 1 % (seen 1.0): 0 of 2, 2 % (seen 2.0): 4 of 5, 5 % (seen 5.0): 5 of 5; "
        "80 % of the time from 2.0 %, 95 % from 5.0 %",
    ]


def test_a_wait_counts_as_what_was_seen_of_it() -> None:
    document = made(a=(5e-6, "same", 0.01, True), b=(5e-6, "same", 0.05, True))
    document["cases"]["a"]["seen"] = 0.035  # type: ignore[index]
    assert table(typed(document, Checked))[1].endswith(
        "1 % (seen 3.5): 1 of 1, 5 % (seen 5.0): 1 of 1; 80 % of the time from 3.5 %, 95 % from 3.5 %"
    )


def test_every_size_has_as_many_cases_for_each_slowdown() -> None:
    medians = {f"small-{i}": 5e-6 for i in range(7)} | {f"large-{i}": 1e-3 for i in range(1000)}
    shares = chosen(medians)
    assert {name for name in shares if name.startswith("small")} == {f"small-{i}" for i in range(7)}
    large = [share for name, share in shares.items() if name.startswith("large")]
    assert {large.count(slowdown) for slowdown in SLOWDOWNS} == {PER_SLOWDOWN}
    assert chosen(dict(reversed(medians.items()))) == shares


def test_what_was_learned_is_kept_whole_and_read_back(tmp_path: Path) -> None:
    path = path_of("a-gpu", tmp_path)
    save(made(a=(5e-6, "same", 0.1, True)), path)
    save(made(b=(5e-6, "same", 0.1, True)), path)
    assert [each.name for each in tmp_path.iterdir()] == ["a-gpu.self-check.json"]
    assert read_variances("a-gpu", tmp_path) == {"b": (1e-6, 3)}
    assert read_variances("b-gpu", tmp_path) == {}
    path.write_text('{"cases": {"b": {"variance": 1}}}')
    with pytest.raises(BadRun, match=r"a-gpu.self-check.json: is no self-check that can be read \('b': .*`median`\)"):
        read_variances("a-gpu", tmp_path)


def test_parts_make_a_whole(tmp_path: Path) -> None:
    names = [c.id for c in timed_cases(FAMILIES) if not (c.variant.on_host or c.variant.call)]
    one, two, other = tmp_path / "1.json", tmp_path / "2.json", tmp_path / "other.json"
    case = (5e-6, "same", 0.1, True)
    gpu: dict[str, object] = {"gpu": {"slug": "a-gpu"}}
    save(made(**dict.fromkeys(names[:9], case)) | gpu, one)
    save(made(**dict.fromkeys(names[9:], case)) | gpu, two)
    shutil.copy(one, again := tmp_path / "again.json")
    save(made(**dict.fromkeys(names[9:], case)) | {"gpu": {"slug": "b-gpu"}}, other)
    merged = read(merge([two, one], FAMILIES, tmp_path))
    assert list(merged.cases) == sorted(names)
    assert merged.gpu == Gpu(slug="a-gpu")
    for parts, said in (
        ([one], rf"{len(names) - 9} cases are in no part, such as"),
        ([one, two, again], r"again.json: 9 cases are in another part too"),
        ([one, other], r"they are of different GPUs: a-gpu, b-gpu"),
        ([tmp_path / "none.json"], r"none.json: cannot be read"),
    ):
        with pytest.raises(BadRun, match=said):
            merge(parts, FAMILIES, tmp_path)


def test_the_whole_way_on_a_fake_gpu(tmp_path: Path) -> None:
    checkout = Bench(tmp_path)
    done = checkout.bench("--self-check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"10 to 100 µs: 17 cases; unchanged: 0 slower, 0 faster, \d unsure; floor 0\.\d %", done.stdout)
    (path,) = (Path(path) for path in checkout.saved if path.endswith("self-check.json"))
    cases = json.loads(path.read_text())["cases"]
    assert len(cases) == 17
    assert sorted(case["slowdown"] for case in cases.values()) == sorted(
        [*SLOWDOWNS, *SLOWDOWNS, *SLOWDOWNS, *SLOWDOWNS][:17]
    )
    assert all(case["found"] for case in cases.values() if case["slowdown"] >= 0.03)
    assert all(case["seen"] == pytest.approx(case["slowdown"], abs=0.005) for case in cases.values())
    (run,) = (read_run(Path(path)) for path in checkout.saved if not path.endswith("self-check.json"))
    assert run.against == "--self-check"
    recording = record_pairs([run])
    assert len(recording.logs) == 17
    assert {len(logs) for logs in recording.logs.values()} <= set(range(3, 9))
    refused = checkout.bench("--self-check", "--against", "HEAD")
    assert "--against and --self-check are different things to do: choose one" in refused.stderr


@pytest.mark.slow
def test_a_kernel_that_cannot_be_made_to_wait_fails_by_itself(tmp_path: Path) -> None:
    checkout = Bench(tmp_path)
    done = checkout.bench("--self-check", uncompiled=["matmul_tiled"])
    assert done.returncode == 1
    assert "delayed copy: tiled.cu does not compile" in done.stdout
    assert "3 failed, 14 passed" in done.stdout
    assert "slowdowns found" in done.stdout
    done = checkout.bench("--self-check", "-k", "cublas and 128x128x128", few=False)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "ERROR: --self-check: none of the 2 selected cases has GPU machine code of this suite" in done.stderr
