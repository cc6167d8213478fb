"""Tests that what a declaration says is carried out: arrays in place, initial values, scratch, scalars, steps.

On the host with a kernel in C++, and on the software device, whose launches are those of a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.own import ADD, CELLS, FAMILIES, SCALE
from tests.project import ROOT
from tests.written import compile_planted, compile_written
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.project import load_project
from warpwatch.catalogue.selection import builds, tested_cases
from warpwatch.catalogue.validation import problems
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.host import Host
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError, poison_of
from warpwatch.devices.mismatch import compare
from warpwatch.devices.opening import Settings
from warpwatch.devices.references import expected
from warpwatch.devices.runner import launch_once, load, loaded_with, run_several, upload
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.revision import declarations
from warpwatch.revision.commit import other_kernel_of
from warpwatch.revision.declared import DeclaredCase, own_identity
from warpwatch.runs.identity import difference
from warpwatch.timing import sampling
from warpwatch.timing.checks import fingerprint
from warpwatch.timing.inputs import digests_of

SERIAL = find_case(FAMILIES, "add-serial-host-100-int32")
ON_DEVICE = [case for case in tested_cases(FAMILIES) if not case.variant.on_host]


@pytest.fixture(scope="module")
def software() -> Iterator[Worker]:
    worker = Worker(load_project(ROOT, "tests.own"), Settings(kind="software"))
    yield worker
    worker.stop()


@pytest.fixture
def alone() -> Iterator[Worker]:
    """A process for launches of which one may be faulty."""
    worker = Worker(load_project(ROOT, "tests.own"), Settings(kind="software"))
    yield worker
    worker.stop()


def test_they_are_declared_without_a_mistake_and_found_by_their_ids() -> None:
    assert problems(FAMILIES) == ()
    cases = tested_cases(FAMILIES)
    assert {case.id for case in cases} >= {
        "add-serial-host-100-int32",
        "add-atomic-128-257-int32",
        "scale-two_steps-steps-1000-float32",
        "cells-cube-4x2x2_per2-5x7x9-int32",
    }
    assert all(find_case(FAMILIES, case.id) == case for case in cases)


def test_the_work_that_is_left_out_moves_each_array_once_and_changed_ones_twice() -> None:
    assert SERIAL.work.bytes == 4 * (100 + 2 * 100 + 1 + 1)
    assert SERIAL.work.operations == 0
    case = find_case(FAMILIES, "scale-two_steps-steps-1000-float32")
    assert case.work.bytes == 4 * (1000 + 1000 + 1), "scratch memory is the variant's own affair"
    assert case.array_bytes == 4 * (1000 + 1000 + 1 + 16)


def is_right(case: Case, kernel: Kernel, seed: int = 1) -> None:
    for inputs in (exact_inputs(case, seed), random_inputs(case, seed)):
        outcome = kernel.run(case.shape, inputs)
        assert outcome.damage == ()
        for name, right in expected(case, inputs).items():
            assert compare(outcome.results[name], right.reference, right.bound) is None, name


@pytest.mark.once
@pytest.mark.parametrize("case", ON_DEVICE, ids=lambda case: case.id)
def test_every_result_is_right_on_the_software_device(software: Worker, case: Case) -> None:
    image = compile_build(case.build, software.call(describe_device).target)
    is_right(case, Kernel(software, case.build, image))


def test_blocks_and_grids_have_three_axes() -> None:
    case = find_case(FAMILIES, "cells-cube-4x2x2_per2-5x7x9-int32")
    assert case.launch == Launch((2, 4, 3), (4, 2, 2))
    assert case.owner((0, 0, 0)) is None, "nothing says which block writes an element"


@pytest.mark.parametrize("variant", ["words", "function"])
def test_texts_of_a_grid_name_sizes_and_macros(variant: str) -> None:
    case = find_case(FAMILIES, f"count-{variant}-4-3x64-int32")
    assert case.launch.grid == (2, 3, 1)
    at = {array.name: 2**40 * i for i, array in enumerate(case.arrays, 1)}
    *_, second, null, groups = case.arguments(case.steps[0], at)
    assert (second.dtype.name, int(null), int(groups)) == ("uint64", 0, 8)
    assert int(second) == (at["hundreds"] if variant == "words" else at["from_100"] + 4)


@pytest.mark.parametrize("kind", ["a number", "a function"])
def test_scratch_memory_has_its_first_values_before_each_launch(software: Worker, kind: str) -> None:
    case = find_case(FAMILIES, "count-words-4-3x64-int32")
    name, values = {"a number": ("turn", [0, 0, 0]), "a function": ("hundreds", [100, 200, 300])}[kind]
    kernel = Kernel(software, case.build, compile_build(case.build, software.call(describe_device).target))
    (result,) = software.call(values_of, case, kernel.image.path, name)
    assert result == [8 + value for value in values]


def values_of(case: Case, image: Path, name: str) -> list[list[int]]:
    """Launch a case three times, in the child, and return the values that an array had then, each once."""
    with loaded_with(gpu(), case, image, random_inputs(case, 1)) as loaded:
        seen = []
        for second in (False, True, False):
            loaded.clear(second)
            launch_once(loaded)
            seen.append(loaded.own[name].read().tolist())
        return [each for i, each in enumerate(seen) if each not in seen[:i]]


def changed(case: Case, **changes: Any) -> Case:
    """Return a case whose variant is declared otherwise."""
    return replace(case, build=replace(case.build, variant=replace(case.variant, **changes)))


def said_of(case_id: str, image: Path, changes: Mapping[str, Any]) -> str:
    """Launch a case whose variant is declared otherwise, in the child, and return what is said of it."""
    case = changed(find_case(FAMILIES, case_id), **changes)
    try:
        with loaded_with(gpu(), case, image, random_inputs(case, 1)) as loaded:
            launch_once(loaded)
    except DeviceError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["together-64", "streams-steps", "early-steps"])
def test_blocks_and_streams_wait_for_each_other(software: Worker, name: str) -> None:
    case = find_case(FAMILIES, f"mean-{name}-300-float32")
    is_right(case, Kernel(software, case.build, compile_build(case.build, software.call(describe_device).target)))


@pytest.mark.slow
def test_blocks_that_wait_for_each_other_need_a_cooperative_launch(alone: Worker) -> None:
    case = find_case(FAMILIES, "mean-together-64-300-float32")
    kernel = Kernel(alone, case.build, compile_build(case.build, alone.call(describe_device).target))
    assert alone.call(said_of, case.id, kernel.image.path, {}) == ""
    said = alone.call(said_of, case.id, kernel.image.path, {"cooperative": False})
    assert "comes to the barrier of the grid in a launch that is not cooperative" in said
    assert said.splitlines()[-1] == "  declare   cooperative=True of the kernel or its ww.Step"


def test_a_step_that_waits_for_no_other_stream_is_a_race(alone: Worker) -> None:
    case = find_case(FAMILIES, "mean-streams-steps-300-float32")
    image = compile_build(case.build, alone.call(describe_device).target)
    *halves, last = case.variant.launches
    said = alone.call(said_of, case.id, image.path, {"launches": (*halves, replace(last, after=()))})
    assert "race between streams" in said


def test_a_step_that_begins_early_and_does_not_wait_is_a_race(alone: Worker) -> None:
    case = find_case(FAMILIES, "mean-early-steps-300-float32")
    image = compile_build(case.build, alone.call(describe_device).target)
    first, last = case.variant.launches
    assert alone.call(said_of, case.id, image.path, {}) == ""
    late = replace(last, entry="mean_too_early", programmatic=False)
    assert alone.call(said_of, case.id, image.path, {"launches": (first, late)}) == ""
    said = alone.call(said_of, case.id, image.path, {"launches": (first, replace(late, programmatic=True))})
    assert "race between launches in mean_too_early" in said
    assert "and never waits for the launch before it" in said


def test_how_steps_are_launched_is_a_part_of_the_work() -> None:
    names = ("together-64", "streams-steps", "early-steps")
    together, streams, early = (find_case(FAMILIES, f"mean-{name}-300-float32") for name in names)
    *halves, last = streams.variant.launches
    first, second = early.variant.launches
    for case, changes, words in (
        (together, {"cooperative": False}, "cooperative True -> none"),
        (streams, {"launches": (*halves, replace(last, after=()))}, "launch 3: after (0, 1) -> none"),
        (streams, {"launches": (*halves, replace(last, stream=""))}, "launch 3: stream 2 -> none"),
        (early, {"launches": (first, replace(second, programmatic=False))}, "launch 2: programmatic True -> none"),
    ):
        other = own_identity(changed(case, **changes))
        assert words in difference(own_identity(case), other).words
    assert [step.launch.programmatic for step in other_kernel_of(ROOT, described(early)).steps] == [False, True]
    steps = [(step.launch.after, step.launch.stream) for step in other_kernel_of(ROOT, described(streams)).steps]
    assert steps == [((), ""), ((), "1"), ((0, 1), "2")]
    renamed = changed(streams, launches=(*halves, replace(last, stream="other")))
    assert own_identity(renamed).steps == own_identity(streams).steps


def described(case: Case) -> DeclaredCase:
    """Return a case as a revision describes it."""
    return msgspec.convert(json.loads(json.dumps(declarations.declared(case, ROOT))), DeclaredCase)


def test_first_values_are_a_part_of_the_work() -> None:
    case = find_case(FAMILIES, "count-words-4-3x64-int32")
    first, *_ = own_identity(case).arrays or ()
    assert first.initial is None
    known = {array.name: array.initial for array in own_identity(case).arrays or ()}
    assert known["turn"] == "0"
    other = own_identity(replace(case, shape=(4, 64))).arrays or ()
    assert str(known["hundreds"]).startswith("values_")
    assert known["hundreds"] != {array.name: array.initial for array in other}["hundreds"]


def test_several_launches_have_their_own_blocks_and_arguments() -> None:
    case = find_case(FAMILIES, "scale-two_steps-steps-1000-float32")
    first, second = case.steps
    assert (first.entry, first.launch) == ("scale_sum", Launch((16, 1, 1), (64, 1, 1), 256))
    assert (second.entry, second.launch) == ("scale_by", Launch((16, 1, 1), (64, 1, 1)))
    at = {array.name: 4096 * i for i, array in enumerate(case.arrays)}
    assert [value.item() for value in case.arguments(second, at)] == [4096, 8192, 12288, 16, 0, 1000, 0.25]
    kinds = [value.dtype.name for value in case.arguments(second, at)]
    assert kinds == ["uint64"] * 3 + ["int32", "uint64", "int64", "float32"]


# What is restored before each launch


def launch_thrice(machine: Host, case: Case, image: Path) -> list[dict[str, np.ndarray]]:
    inputs = upload(machine, case, exact_inputs(case, 1))
    loaded = load(machine, case, image, inputs)
    return [launch_once(loaded) for _ in range(3)]


def test_first_values_are_there_again_before_every_launch() -> None:
    right = expected(SERIAL, exact_inputs(SERIAL, 1))
    for results in launch_thrice(Host(), SERIAL, compile_build(SERIAL.build, None).path):
        assert {name: value.tolist() for name, value in results.items()} == {
            name: value.reference.tolist() for name, value in right.items()
        }


def time_twice(case: Case, image: Path) -> list[float]:
    """In the worker: prepare a case, take samples, and compare its last result."""
    sampling.prepare(case, image, cold=False)
    times = [sampling.sample("warm")[0] for _ in range(5)]
    sampling.finish("warm")
    return times


@pytest.mark.parametrize("case_id", ["add-atomic-64-1000-int32", "scale-two_steps-steps-1000-float32"])
def test_what_is_timed_is_restored_before_every_sample_and_right_after_the_last(software: Worker, case_id: str) -> None:
    case = find_case(FAMILIES, case_id)
    image = compile_build(case.build, software.call(describe_device).timing_target)
    assert len(software.call(time_twice, case, image.path)) == 5


def step_by_step(case: Case, image: Path) -> tuple[list[bool], list[bool]]:
    """In the worker: which words of scratch memory and of the result are poison, before and after a launch."""
    machine = gpu()
    loaded = load(machine, case, image, upload(machine, case, exact_inputs(case, 1)))
    loaded.poison()
    before = [bool((loaded.own[name].read().view(np.uint32) == poison_of(4)).all()) for name in ("parts", "y", "total")]
    loaded.start()
    machine.finish()
    return before, [
        bool((loaded.own[name].read().view(np.uint32) == poison_of(4)).any()) for name in ("parts", "y", "total")
    ]


def test_scratch_memory_is_poison_before_a_launch_as_results_are(software: Worker) -> None:
    case = find_case(FAMILIES, "scale-two_steps-steps-1000-float32")
    image = compile_build(case.build, software.call(describe_device).target)
    assert software.call(step_by_step, case, image.path) == ([True] * 3, [False] * 3)


def test_a_scratch_array_that_is_not_written_first_is_found(software: Worker, tmp_path: Path) -> None:
    """The second launch alone reads poison."""
    case = find_case(FAMILIES, "scale-two_steps-steps-100-float32")
    text = (ROOT / "tests/own/scale.cu").read_text()
    (tmp_path / "scale.cu").write_text(text.replace("parts[blockIdx.x] = sum;", ""))
    image = compile_written(tmp_path / "scale.cu", case.build.all_macros, software.call(describe_device).target)
    with pytest.raises(
        DeviceError, match=r"(?s)uninitialised memory in scale_by.*scale\.cu:21: .* of parts \(argument 3\)"
    ):
        Kernel(software, case.build, image).run(case.shape, exact_inputs(case, 1))


# Faults are found


def planted(folder: Path, old: str, new: str) -> Path:
    return compile_planted(folder, ROOT / "tests/own/serial.cpp", old, new, {}).path


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("state[i] += x[i]", "state[i] = x[i]", {"state"}),
        ("++*count", "", {"count"}),
        ("x[i] > *largest", "false", {"largest"}),
        ("i < n", "i < n - 1", {"state", "count"}),
    ],
)
def test_each_result_is_compared_by_itself(tmp_path: Path, old: str, new: str, wrong: set[str]) -> None:
    inputs = random_inputs(SERIAL, 3)
    outcome = next(run_several(Host(), SERIAL, planted(tmp_path, old, new), [inputs], 1))
    right = expected(SERIAL, inputs)
    found = {name for name, got in outcome.results.items() if compare(got, right[name].reference, right[name].bound)}
    assert found == wrong
    assert outcome.damage == ()


def test_a_write_into_an_input_or_past_an_array_in_place_is_damage(tmp_path: Path) -> None:
    image = planted(tmp_path, "++*count;", "++*count, const_cast<int*>(x)[7] = 5000, state[n] = 1;")
    damage = next(run_several(Host(), SERIAL, image, [random_inputs(SERIAL, 3)], 1)).damage
    assert [said.split(":")[0] for said in damage] == [
        "wrote 1 element(s) after state, the nearest 1 after its end",
        "changed its operand x",
    ]


def test_the_fingerprint_of_several_results_changes_with_each() -> None:
    machine, image = Host(), compile_build(SERIAL.build, None).path
    loaded = load(machine, SERIAL, image, upload(machine, SERIAL, exact_inputs(SERIAL, 1)))
    launch_once(loaded)
    first = fingerprint(digests_of(loaded.results))
    for name in ("state", "count", "largest"):
        loaded.own[name].write(loaded.own[name].read() + 1)
        assert fingerprint(digests_of(loaded.results)) != first
        launch_once(loaded)
        assert fingerprint(digests_of(loaded.results)) == first


def test_every_build_is_compiled_for_its_configuration() -> None:
    one, two = builds([CELLS])
    assert (one.macros, two.macros) == ({"PER": "1"}, {"PER": "2"})
    assert one.own_macros == two.own_macros == {"BLOCK_X": "4", "BLOCK_Y": "2", "BLOCK_Z": "2"}
    assert builds([ADD])[1].own_macros == {"BLOCK_X": "64", "BLOCK_Y": "1"}
    assert "scalar_t" not in builds([SCALE])[0].own_macros
