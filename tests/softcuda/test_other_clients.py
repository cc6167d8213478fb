"""The software device for other clients of the driver than PyCUDA: cuda-bindings and cuda.core, and its NVRTC."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.project import ROOT

FOREIGN = "softcuda runs only what its own nvcc or NVRTC compiled: give it the kernel as CUDA C++"


PAGE = ROOT / "docs" / "other-clients.md"


def ask(*arguments: str) -> dict[str, Any]:
    """The answers of tests/softcuda/clients.py, which is a process with no other CUDA device."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "tests.softcuda.clients", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return ask("checked")


@pytest.mark.slow
def test_a_template_runs_by_its_name_and_its_arguments_have_the_sizes_of_the_image(answers: dict[str, Any]) -> None:
    values, arguments, threads = answers["a_template_by_its_name"]
    assert values == [0, 2, 4, 6]
    assert arguments == [[0, 8], [8, 8], [16, 2], [18, 1]]
    assert threads == 1024


@pytest.mark.slow
def test_what_is_called_ptx_is_the_same_image(answers: dict[str, Any]) -> None:
    assert answers["ptx_is_the_same_image"] == ["_ZN2my5scaleIdEEvPT_PKS1_sh"] * 2


def test_the_clients_own_error_tells_what_was_found(answers: dict[str, Any]) -> None:
    said = answers["out_of_bounds"]
    assert said.startswith("CUDAError: CUDA_ERROR_ILLEGAL_ADDRESS\nsoftcuda: out of bounds in beyond\n")
    assert "scale.cu:16: thread (100, 0) of block (0, 0) writes 4 bytes at 0x" in said
    assert "just past the end of to (argument 1), 400 bytes" in said


@pytest.mark.slow
def test_without_checks_nothing_is_found() -> None:
    assert ask("unchecked", "out_of_bounds") == {"out_of_bounds": "no error"}


def test_a_context_that_was_reset_runs_the_next_kernel(answers: dict[str, Any]) -> None:
    assert answers["the_next_kernel_after_a_reset"] == [1, 1, 1, 0]


def test_a_graph_does_nothing_when_captured_and_all_of_it_at_each_launch(answers: dict[str, Any]) -> None:
    assert answers["a_captured_graph_launched_twice"] == [0, 1, 2, 3, 0, 16, 32, 48]


def test_nodes_of_a_graph_are_done_in_the_order_of_its_edges(answers: dict[str, Any]) -> None:
    assert answers["nodes_in_the_order_of_their_edges"] == [2, 1]


def test_memory_freed_in_a_stream_is_there_until_then_and_known_to_be_freed_after(answers: dict[str, Any]) -> None:
    said = answers["used_after_it_was_freed_in_its_stream"]
    assert "softcuda: use after free in beyond" in said
    assert "in an array of 400 bytes that was freed" in said
    assert answers["bytes_of_a_pool"] == [1000, 0]


def test_a_host_function_has_its_place_in_the_stream(answers: dict[str, Any]) -> None:
    assert answers["a_host_function_in_its_place"] == [1, 2, -2]


def test_what_is_known_of_pointers_and_occupancy(answers: dict[str, Any]) -> None:
    assert answers["what_a_pointer_is"] == [2, 12, 1]  # the device's, of 12 bytes; the host's is an invalid value
    assert answers["most_threads_at_once"] == [4, 2, 1, 1024]


def test_an_image_of_another_compiler_is_refused_with_what_it_is(answers: dict[str, Any]) -> None:
    for loaded in ("ptx_of_others", "ptx_of_others_linked"):
        assert f"this image is PTX, or other text, and {FOREIGN}" in answers[loaded]
    assert f"this image is machine code of a GPU (a cubin), and {FOREIGN}" in answers["a_cubin_of_others"]


def test_the_linker_hands_on_an_image_of_its_own(answers: dict[str, Any]) -> None:
    assert answers["an_image_of_its_own_linked"] == "beyond"


def test_a_function_that_is_not_there_says_its_name(answers: dict[str, Any]) -> None:
    expected = "RuntimeError: CUDA_ERROR_NOT_SUPPORTED\nsoftcuda: it does not have cuMipmappedArrayDestroy"
    assert answers["what_it_does_not_have"] == expected


def test_functions_are_found_by_name_and_version(answers: dict[str, Any]) -> None:
    assert answers["of_which_version"] == [True, True, False, False]


def test_nvrtc_says_where_an_error_is(answers: dict[str, Any]) -> None:
    code, log, _ = answers["nvrtc_says_where_an_error_is"]
    assert code == "NVRTC_ERROR_COMPILATION"
    assert "mine.cu:2:" in log
    assert "‘y’ was not declared" in log


def test_nvrtc_takes_headers_macros_and_names_of_variables(answers: dict[str, Any]) -> None:
    assert answers["nvrtc_takes_headers_and_macros"] == ["NVRTC_SUCCESS", "", "_ZN1n5tilesE"]
    code, log, _ = answers["nvrtc_names_an_expression_that_is_not_there"]
    assert code == "NVRTC_ERROR_COMPILATION"
    assert "the name expression j<float>:1:" in log


def test_nvrtc_refuses_link_time_code(answers: dict[str, Any]) -> None:
    code, log, _ = answers["nvrtc_refuses_lto"]
    assert code == "NVRTC_ERROR_COMPILATION"
    assert "-dlto asks for LTO-IR, which softcuda cannot run" in log


@pytest.mark.slow
def test_the_example_of_the_page_says_what_the_page_shows(tmp_path: Path) -> None:
    example, shown = (
        re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)[0] for kind in ("python", "text")
    )
    script = tmp_path / "example.py"
    script.write_text(example)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    said, expected = (re.sub("0x[0-9a-f]+", "0x", text) for text in (done.stderr, shown.removesuffix(" ...\n")))
    assert expected in said
