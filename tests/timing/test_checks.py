"""Tests that `pytest bench` checks results before and after the samples, and finds writes to other arrays."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from kernels import FAMILIES
from tests.checkout import Bench
from tests.project import ROOT
from tests.written import BYTES, compile_written
from warpwatch.catalogue.arrays import ALL_ROWS
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.expected import compute
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.named_arguments import takes
from warpwatch.catalogue.selection import tested_cases
from warpwatch.devices import digest as digest_module
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.digest import MOST_RANGES, digest, digests, queue_of
from warpwatch.devices.host import Host
from warpwatch.devices.large import problems
from warpwatch.devices.machine import GuardedArray
from warpwatch.devices.mismatch import Mismatch, WrongResult, compare_all
from warpwatch.devices.runner import load
from warpwatch.devices.worker import Worker, describe_device, gpu, machine
from warpwatch.timing import checks, inputs, sampling

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
STORE = "b[size_t(col) * m + row] = a[size_t(row) * n + col];"
SPOIL = "const_cast<scalar_t*>(a)[size_t(row) * n + col] = 0;"
# Mistakes that a kernel may make in a launch and not in the one before. Every thread counts.
COUNT = "__device__ unsigned started; // threads so far\n"
LATER = "atomicAdd(&started, 1) >= unsigned(m) * n"  # from the second launch on
# What each block of transpose's naive.cu does wrong, in place of its store.
FAULTS = {
    (8, 8): f"{{ {STORE} {SPOIL} }}",
    (16, 16): f"{{ {STORE} if ({LATER}) b[size_t(col) * m + row] = 0; }}",
    (32, 16): f"if (!({LATER} * 2u)) {STORE}",
    (32, 32): f"{{ {STORE} if (row == m - 1 && col == n - 1) b[size_t(m) * n] = 0; }}",
}
NAMES = {(x, y): f"transpose-naive-{x}x{y}-200x200-float32" for x, y in FAULTS}
ONCE = "was right when it was launched once, and is wrong after the launches that were timed"
SAID = {
    (8, 8): "changed its operand A",
    (16, 16): ONCE,
    (32, 16): ONCE,
    (32, 32): "out of bounds",
}
TILED = "transpose-tiled-16x16-200x200-float32"
HELLO = "hello-hello-8x4-4-none"
CHOSEN = "transpose and 200x200-float32 and (naive or (tiled and 16x16))"


def smaller(factory: pytest.TempPathFactory, name: str) -> Bench:
    """Return a checkout that times transposes of 200 x 200 in place of 1000 x 1000, with and without checks."""
    checkout = Bench(factory.mktemp(name))
    declared = checkout.folder / "kernels" / "transpose" / "__init__.py"
    text = declared.read_text()
    assert "((1000, 1000), " in text
    declared.write_text(text.replace("((1000, 1000), ", "((200, 200), "))
    checkout.commit()
    return checkout


def plant(folder: Path) -> str:
    """Put a fault into each block's kernel in a checkout. Returns the text that was there."""
    path = folder / "kernels" / "transpose" / "naive.cu"
    text = path.read_text()
    assert STORE in text
    lines = [f"#if BLOCK_X == {x} && BLOCK_Y == {y}\n{fault}\n#endif" for (x, y), fault in FAULTS.items()]
    path.write_text(COUNT + text.replace(STORE, "{{\n{}\n}}".format("\n".join(lines))))
    return text


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The output of a benchmark run, its exit status, and the cases that it saved."""

    said: str
    status: int
    saved: set[str]


def bench(checkout: Bench, chosen: str, *args: str) -> Ran:
    """Run the benchmark on the software device."""
    command = (sys.executable, "-m", "pytest", "bench", "-q", "--device=software", "--benchmark-max-time=0.01")
    before = set(checkout.saved)
    done = checkout._run(*command, "-k", chosen, *args)
    entries = [
        entry for path in set(checkout.saved) - before for entry in json.loads(Path(path).read_text())["benchmarks"]
    ]
    return Ran(said=done.stdout + done.stderr, status=done.returncode, saved={entry["param"] for entry in entries})


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run with every fault, and with a variant without fault on the same operands."""
    checkout = smaller(tmp_path_factory, "alone")
    plant(checkout.folder)
    return bench(checkout, CHOSEN)


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Ran]:
    """A run with the faults on the new side of pairs, then one with them on the old side."""
    checkout = smaller(tmp_path_factory, "paired")
    right = plant(checkout.folder)
    new = bench(checkout, CHOSEN, "--against=HEAD")
    checkout.commit()
    (checkout.folder / "kernels" / "transpose" / "naive.cu").write_text(right)
    return new, bench(checkout, f"{CHOSEN} and not 32x32 and not tiled", "--against=HEAD")


@pytest.mark.once
@pytest.mark.parametrize("block", FAULTS, ids=NAMES.get)
def test_a_wrong_kernel_fails_and_gets_no_figure(alone: Ran, block: tuple[int, int]) -> None:
    assert f"{NAMES[block]} {SAID[block]}" in alone.said or f"{NAMES[block]}: " in alone.said
    assert SAID[block] in alone.said
    assert f"FAILED bench/bench_kernels.py::bench_kernel[{NAMES[block]}]" in alone.said
    assert not re.search(rf"^{NAMES[block]} +[\d,]", alone.said, re.MULTILINE), "it has a row in the table"


def test_the_neighbour_that_shares_their_operands_is_right_and_saved(alone: Ran) -> None:
    assert "4 failed, 1 passed" in alone.said, alone.said
    assert alone.saved == {TILED}


@pytest.mark.slow
@pytest.mark.parametrize("block", FAULTS, ids=NAMES.get)
def test_a_pair_whose_new_side_is_wrong_fails(paired: tuple[Ran, Ran], block: tuple[int, int]) -> None:
    new, _ = paired
    assert f"FAILED bench/bench_kernels.py::bench_kernel[{NAMES[block]}]" in new.said, new.said
    assert SAID[block] in new.said
    assert new.saved == set()


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in FAULTS if block != (32, 32)], ids=NAMES.get)
def test_a_pair_whose_old_side_is_wrong_is_incomparable(paired: tuple[Ran, Ran], block: tuple[int, int]) -> None:
    """A write past the end is found only by a build with checks, which the other revision's side does not have."""
    _, old = paired
    assert "FAILED" not in old.said, old.said
    assert f"incomparable: in HEAD: {NAMES[block]} {SAID[block]}" in old.said, old.said
    assert old.saved == set()


def serial(file: Path, case: Case, old: str, new: str) -> Path:
    """Write a serial variant with a mistake in it, and return what is compiled of it."""
    text = (ROOT / "kernels" / case.family.name / "serial.cpp").read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return compile_written(file, case.build.all_macros, None).path


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("launches", [1, 2])
def test_a_serial_kernel_that_no_longer_writes_is_found(tmp_path: Path, launches: int) -> None:
    case = find_case(FAMILIES, "transpose-serial-host-20x19-float32")
    stops = f"static int launched = 0; if (launched++ >= {launches}) return; for (int row = 0;"
    sampling.prepare(case, serial(tmp_path / "serial.cpp", case, "for (int row = 0;", stops), False)
    for _ in range(3):
        sampling.sample("host")
    with pytest.raises(WrongResult, match=r"is wrong in 380 of 380 elements(.|\n)*unwritten 380 of them still hold"):
        sampling.finish("host")
    sampling.release()


def test_a_serial_variant_of_which_no_sample_was_taken_is_checked_all_the_same(tmp_path: Path) -> None:
    case = find_case(FAMILIES, "matmul-serial-host-7x5x9-float64")
    sampling.prepare(case, serial(tmp_path / "serial.cpp", case, "row = 0; row < m", "row = 1; row < m"), False)
    with pytest.raises(WrongResult, match="9 of them still hold the poison"):
        sampling.finish("host")
    sampling.release()


@pytest.mark.parametrize(("samples", "said"), [(0, "printed 1 lines, not 129"), (6, "printed 0 lines, not 128")])
def test_lines_that_are_missing_later_are_found(software: Worker, tmp_path: Path, samples: int, said: str) -> None:
    """Each of the four copies of the operands has a module of its own, which counts by itself."""
    case = find_case(FAMILIES, HELLO)
    path = tmp_path / "hello.cu"
    late = LATER.replace("unsigned(m) * n", "128")
    text = (ROOT / "kernels" / "hello" / "hello.cu").read_text()
    path.write_text(COUNT + text.replace('printf("', f'if ({late}) return; printf("'))
    image = compile_written(path, case.build.all_macros, software.call(describe_device).target).path
    software.call(sampling.prepare, case, image, True)
    for _ in range(samples):
        software.call(sampling.sample, "cold")
    with pytest.raises(WrongResult, match=f"{ONCE}\n{HELLO} {said}"):
        software.call(sampling.finish, "cold")


@pytest.mark.slow
def test_one_case_by_hand_is_checked_in_the_same_way(checkout: Bench) -> None:
    plant(checkout.folder)
    path = checkout.folder / "kernels" / "transpose" / "naive.cu"
    path.write_text(path.read_text().replace("* 2u", "* 6u"))  # more launches than those on other inputs are
    late = "was right before, and is wrong after the launches that were timed"
    for block, said in (("8x8", "changed its operand A: "), ("16x16", "is wrong in 2,000"), ("32x16", late)):
        name = f"transpose-naive-{block}-40x50-float32"
        done = checkout._run(sys.executable, "-m", "warpwatch", "run", name, "--device", "software", "--seed", "1")
        assert done.returncode == 1, done.stdout + done.stderr
        assert f"result    WRONG\n{name} {said}" in done.stdout


def test_a_large_array_that_is_changed_is_named_and_the_next_case_is_not_blamed(
    software: Worker, tmp_path: Path
) -> None:
    bad, good = (find_case(FAMILIES, f"transpose-{name}-8x8-20x19-float32") for name in ("naive", "tiled"))
    source = tmp_path / "naive.cu"
    source.write_text((ROOT / "kernels" / "transpose" / "naive.cu").read_text().replace(STORE, FAULTS[8, 8]))
    target = software.call(describe_device).target
    images = [
        compile_written(source, bad.build.all_macros, target).path,
        compile_build(good.build, target).path,
    ]
    said = software.call(problems, [bad, good], images, 1, 90)
    assert said == [f"{bad.id} changed its operand A"]


def outcomes(cases: list[Case], images: list[Path]) -> list[str]:
    """Prepare cases one after the other, in the child, and say of each whether it was compared or found wrong."""
    said = list[str]()

    def counted(*given: Any) -> dict[str, Mismatch]:
        said.append("compared")
        return compare_all(*given)

    with mock.patch.object(checks, "compare_all", counted):
        for case, image in zip(cases, images, strict=True):
            before = len(said)
            try:
                sampling.prepare(case, image, True)
            except WrongResult:
                said.append("wrong")
            if len(said) == before:
                said.append("equal")
    return said


def test_a_result_that_is_equal_to_a_right_one_is_not_compared_again(software: Worker, tmp_path: Path) -> None:
    first, second, third = (
        find_case(FAMILIES, f"transpose-{name}-20x19-float32") for name in ("naive-8x8", "tiled-8x8", "naive-16x16")
    )
    source = tmp_path / "naive.cu"
    source.write_text(
        (ROOT / "kernels" / "transpose" / "naive.cu").read_text().replace("a[size_t(row)", "-a[size_t(row)")
    )
    target = software.call(describe_device).target
    bad = compile_written(source, third.build.all_macros, target).path
    images = [*(compile_build(case.build, target).path for case in (first, second)), bad, bad]
    said = software.call(outcomes, [first, second, third, third], images)
    assert said == ["compared", "equal", *["compared", "compared", "wrong"] * 2]


def notice_changes(on_host: bool) -> list[bool]:
    """Return, in the child, whether the digest shows each of several changes, and is the same for the same array."""
    array = GuardedArray(machine(on_host), "A", (1001,), "float32", offset=1)
    values = np.random.default_rng(1).random(1001, np.float32)
    array.write(values)
    first, seen = digest(array), []
    for index in (0, 1, 500, 1000):
        changed = values.copy()
        changed.view(np.uint32)[index] ^= 1
        array.write(changed)
        seen.append(digest(array) != first)
    swapped = values.copy()
    swapped[[3, 4]] = values[[4, 3]]
    array.write(swapped)
    seen.append(digest(array) != first)
    array.write(values)
    return [*seen, digest(array) == first]


@pytest.mark.parametrize("on_host", [True, False], ids=["host", "device"])
def test_a_digest_shows_every_change(software: Worker, on_host: bool) -> None:
    assert all(software.call(notice_changes, on_host))


def digests_of_many(on_host: bool) -> bool:
    """Return, in the child, whether digests of many arrays at once are those of each, bands and odd sizes included."""
    rng = np.random.default_rng(2)
    with mock.patch.object(machine(on_host), "finds_faults", new=False):  # which would leave the guard bands out
        arrays = [GuardedArray(machine(on_host), "A", (1 + 37 * i,), "uint8") for i in range(2 * MOST_RANGES + 3)]
    for array in arrays:
        array.write(rng.integers(0, 255, array.shape, dtype=np.uint8))
    ranges = [array.with_bands for array in arrays] + [(array.address, array.nbytes) for array in arrays]
    found = digests(machine(on_host), ranges)
    return found == [digests(machine(on_host), [each])[0] for each in ranges] and len(set(found)) > len(arrays)


@pytest.mark.parametrize("on_host", [True, False], ids=["host", "device"])
def test_digests_of_many_ranges_are_those_of_each(software: Worker, on_host: bool) -> None:
    assert software.call(digests_of_many, on_host)


def queue_digests(count: int) -> tuple[bool, bool]:
    """Queue digests, in the child, of so many results of four copies; return whether they fit, and are right."""
    arrays = [GuardedArray(gpu(), "A", (4,), "float32") for _ in range(4)]
    queue, sets = queue_of(gpu()), [[array.with_bands] * count for array in arrays]
    if not queue.begin(sets, 3):
        return False, True
    for number in (2, 0, 3):
        queue.add(number)
    return True, queue.take() == [(number, tuple(digests(gpu(), sets[number]))) for number in (2, 0, 3)]


@pytest.mark.parametrize(("count", "fits"), [(1, True), (137, True), (138, False), (1000, False)])
def test_a_queue_takes_no_more_results_than_it_has_memory_for(software: Worker, count: int, fits: bool) -> None:
    assert software.call(queue_digests, count) == (fits, True)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1001])
def test_a_digest_of_the_host_is_the_same_in_several_pieces(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    array = GuardedArray(Host(), "A", (count,), "float32", offset=1)
    array.write(np.random.default_rng(1).random(count, np.float32))
    whole = digest(array)
    monkeypatch.setattr(digest_module, "PIECE_WORDS", 32)
    assert digest(array) == whole


def test_the_rows_of_a_large_result_that_are_compared_hold_its_edges() -> None:
    case = find_case(FAMILIES, "transpose-naive-32x32-4096x4096-float32")
    rows = inputs.compared_rows(case)
    assert isinstance(rows, np.ndarray)
    assert {0, 1, 4094, 4095} <= set(rows.tolist())
    assert inputs.compared_rows(find_case(FAMILIES, "transpose-tiled-16x16-1000x1000-float32")) is None


def test_the_same_rows_of_several_large_results_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    case = find_case(FAMILIES, "layernorm-registers-256-16384x4096-float32")
    assert {array.shape for array in case.results} == {(16384, 4096), (16384,)}
    for seed in range(1000):  # some draw no row that is compared in any case, others would
        monkeypatch.setattr(inputs, "_rows_seed", lambda seed=seed: seed)
        rows = inputs.compared_rows(case)
        assert rows is not None
        assert len({*rows.tolist()}) == inputs.SAMPLED_ROWS
        assert {0, 1, 16382, 16383} <= {*rows.tolist()} <= {*range(16384)}


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if takes(each.reference, "part")], ids=lambda each: each.name
)
def test_a_reference_computes_rows_as_they_are_in_the_whole(family: Family) -> None:
    case = next(each for each in tested_cases((family,)) if each.results[0].shape[0] > 3)
    drawn, rows = random_inputs(case, 1), np.array([0, 2, case.results[0].shape[0] - 1])
    whole, part = (compute(case, family.reference, drawn, each) for each in (ALL_ROWS, rows))
    assert whole.keys() == {array.name for array in case.results}
    for name, array in whole.items():
        np.testing.assert_allclose(part[name], array[rows], rtol=1e-12)


@pytest.mark.parametrize(("condition", "right"), [("true", True), ("x[i] != 127", False), ("x[i] != -1", False)])
def test_narrow_results_are_checked_on_both_patterns_of_poison(tmp_path: Path, condition: str, right: bool) -> None:
    case = find_case((BYTES,), "bytes-plain-host-4000-int8")
    file = tmp_path / "plain.cpp"
    file.write_text(
        'extern "C" void bytes_plain(const signed char* x, signed char* y, int n)'
        f"{{ for (int i = 0; i < n; i++) if ({condition}) y[i] = x[i]; }}"
    )
    host, image = Host(), compile_written(file, case.build.all_macros, None).path
    shared = inputs.Shared.upload(host, case, True)
    loaded = load(host, case, image, shared.copies[0])
    with contextlib.nullcontext() if right else pytest.raises(WrongResult, match="unwritten"):
        checks.check_result(loaded, shared)
