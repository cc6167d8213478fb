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


NAME = "_ZN2my5scaleIdEEvPT_PKS1_sh"
EQUAL = {
    "a_template_by_its_name": [
        [0, 2, 4, 6],
        [[0, 8], [8, 8], [16, 2], [18, 1]],
        1024,
    ],  # sizes of the image's arguments
    "ptx_is_the_same_image": [NAME, NAME],
    "the_next_kernel_after_a_reset": [1, 1, 1, 0],
    "a_captured_graph_launched_twice": [0, 1, 2, 3, 0, 16, 32, 48],
    "nodes_in_the_order_of_their_edges": [2, 1],
    "bytes_of_a_pool": [1000, 0],
    "a_host_function_in_its_place": [1, 2, -2],
    "what_a_pointer_is": [2, 12, 1],  # the device's, of 12 bytes; the host's is an invalid value
    "most_threads_at_once": [4, 2, 1, 1024],
    "an_image_of_its_own_linked": "beyond",
    "what_it_does_not_have": "RuntimeError: CUDA_ERROR_NOT_SUPPORTED\n"
    "softcuda: it does not have cuMipmappedArrayDestroy",
    "of_which_version": [True, True, False, False],
    "nvrtc_takes_headers_and_macros": ["NVRTC_SUCCESS", "", "_ZN1n5tilesE"],
}
OTHER_TEXT = f"this image is PTX, or other text, and {FOREIGN}"
SAID = {
    "out_of_bounds": [
        "CUDAError: CUDA_ERROR_ILLEGAL_ADDRESS\nsoftcuda: out of bounds in beyond\n",
        "scale.cu:16: thread (100, 0) of block (0, 0) writes 4 bytes at 0x",
        "just past the end of to (argument 1), 400 bytes",
    ],
    "used_after_it_was_freed_in_its_stream": [
        "softcuda: use after free in beyond", "in an array of 400 bytes that was freed",
    ],
    "ptx_of_others": [OTHER_TEXT],
    "ptx_of_others_linked": [OTHER_TEXT],
    "a_cubin_of_others": [f"this image is machine code of a GPU (a cubin), and {FOREIGN}"],
    "nvrtc_says_where_an_error_is": ["NVRTC_ERROR_COMPILATION", "mine.cu:2:", "‘y’ was not declared"],
    "nvrtc_names_an_expression_that_is_not_there": ["NVRTC_ERROR_COMPILATION", "the name expression j<float>:1:"],
    "nvrtc_refuses_lto": ["NVRTC_ERROR_COMPILATION", "-dlto asks for LTO-IR, which softcuda cannot run"],
}  # fmt: skip


def test_every_case_has_its_answer(answers: dict[str, Any]) -> None:
    assert {*answers} == {*EQUAL, *SAID}


@pytest.mark.parametrize(("case", "answer"), EQUAL.items())
def test_a_client_is_answered_as_by_the_driver(answers: dict[str, Any], case: str, answer: Any) -> None:
    assert answers[case] == answer


@pytest.mark.parametrize(("case", "said"), SAID.items())
def test_the_clients_own_error_tells_what_is_wrong(answers: dict[str, Any], case: str, said: list[str]) -> None:
    heard = answers[case] if isinstance(answers[case], str) else "\n".join(answers[case])
    assert [each for each in said if each not in heard] == []


@pytest.mark.slow
def test_without_checks_nothing_is_found() -> None:
    assert ask("unchecked", "out_of_bounds") == {"out_of_bounds": "no error"}


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
