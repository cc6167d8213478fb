"""Tests of machine code that is there already: cubins, PTX and fatbins, and what a function returns."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.devices.named import MACROS, kernels, software, write_checkout
from tests.project import PROJECT
from tests.softcuda import calls
from warpwatch.devices.compile import compiler
from warpwatch.devices.compile.builds import symbols_in
from warpwatch.devices.compile.compiler import NVCC_FLAGS, CompileError, Target, compile_file
from warpwatch.devices.compile.entries import compile_entries
from warpwatch.devices.compile.ready import code_image
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def built(folder: Path) -> dict[str, Path]:
    """The file as a cubin, PTX and a fatbin of nvcc, for sm_80."""
    made = {}
    program = compiler.nvcc().program
    for kind in ("cubin", "ptx", "fatbin"):
        made[kind] = folder / f"ready.{kind}"
        flags = [*(flag for flag in NVCC_FLAGS if flag != "-cubin"), "-arch=sm_80", f"-{kind}", f"-I{folder}/include"]
        flags += [f"-D{name}={value}" for name, value in MACROS.items()]
        subprocess.run(
            [program, *flags, str(folder / "csrc/named.cu"), "-o", str(made[kind])], check=True, capture_output=True
        )
    return made


@pytest.mark.once
@pytest.mark.parametrize("kind", ["cubin", "ptx"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_86"])
def test_kernels_of_ready_machine_code_are_found(built: dict[str, Path], kind: str, arch: str) -> None:
    names = ["in_c", "_ZN2ln5plainEPi", "ln::plain", "scale(float *,int)", "hidden", "unnamed"]
    image = compile_entries(kernels(built[kind], *names), Target(arch))
    symbols = symbols_in(image.path, tuple(names))
    assert [symbols[name] for name in names[:5]] == ["in_c", *["_ZN2ln5plainEPi"] * 2, "_Z5scalePfi", "_Z6hiddenPi"]
    assert symbols["unnamed"].endswith("7unnamedEPi")
    assert image.path.suffix == f".{kind}"


def test_a_fatbin_is_taken_as_it_is(built: dict[str, Path]) -> None:
    image = compile_entries(kernels(built["fatbin"], "in_c"), Target("sm_90"))
    assert image.path.read_bytes() == built["fatbin"].read_bytes()
    assert symbols_in(image.path, ("in_c",)) == {"in_c": "in_c"}


def test_machine_code_that_a_function_returned_is_kept_by_what_it_holds(built: dict[str, Path]) -> None:
    code = built["cubin"].read_bytes()
    assert code_image(code, "softmax", Target("sm_80")).path.read_bytes() == code
    text = built["ptx"].read_bytes().rstrip(b"\0")
    assert code_image(text, "softmax", Target("sm_90")).path.read_bytes() == text + b"\0"


def test_an_image_for_the_software_device_runs_there_and_nowhere_else(folder: Path) -> None:
    made = compile_file(folder / "csrc/named.cu", MACROS, software(), root=folder, include=[folder / "include"])
    code = made.path.read_bytes()
    image = code_image(code, "made", software())
    worker = Worker(PROJECT, Settings(kind="software"))
    left: Any = worker.call(calls.run_with_zeros, image.path, "in_c", 128)
    worker.stop()
    assert np.frombuffer(left, "i4").tolist() == [6] * 32
    with pytest.raises(CompileError, match=r"^made is an image for the software device, and cannot run on a GPU$"):
        code_image(code, "made", Target("sm_90"))
    with pytest.raises(CompileError, match=r"^made is cut off: it has [\d,]+ bytes$"):
        code_image(code[:-1], "made", software())


@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "make_target", "said"),
    [
        ("cubin", lambda: Target("sm_75"), "is machine code for sm_80, which sm_75 cannot run: compile it for sm_75"),
        ("cubin", lambda: Target("sm_90"), "is machine code for sm_80, which sm_90 cannot run: compile it for sm_90"),
        (
            "ptx",
            lambda: Target("sm_75"),
            "is PTX for sm_80, which sm_75 cannot run: compile it for sm_75 or an older one",
        ),
        ("cubin", software, "is a GPU's machine code, which the software device cannot run"),
        ("ptx", software, "is PTX, which the software device cannot run"),
        ("fatbin", software, "is a fatbin, which the software device cannot run"),
    ],
)
def test_what_the_device_cannot_run_is_one_sentence(
    built: dict[str, Path], kind: str, make_target: Callable[[], Target], said: str
) -> None:
    with pytest.raises(CompileError, match=re.escape(said)) as caught:
        compile_entries(kernels(built[kind], "in_c"), make_target())
    assert "\n" not in str(caught.value)


def test_older_cubins_have_their_architecture_elsewhere() -> None:
    """Before CUDA 13, bits 0 to 7 of the ELF header's flags, as here 86 for sm_86."""
    header = bytearray(b"\x7fELF\x02\x01\x01\x33\x07" + bytes(55))
    struct.pack_into("<HHI", header, 16, 2, 190, 1)
    struct.pack_into("<QQI", header, 32, 0, 64, 0x560556)
    struct.pack_into("<HHHHH", header, 54, 0, 0, 64, 1, 0)
    code = bytes(header) + bytes(64)
    assert code_image(code, "old", Target("sm_86")).path.read_bytes() == code
    with pytest.raises(CompileError, match=r"^old is machine code for sm_86, which sm_80 cannot run"):
        code_image(code, "old", Target("sm_80"))


@pytest.mark.parametrize("kind", ["cubin", "ptx", "fatbin"])
def test_a_file_that_is_cut_off_is_said_to_be(built: dict[str, Path], tmp_path: Path, kind: str) -> None:
    whole = built[kind].read_bytes().rstrip(b"\0") if kind == "ptx" else built[kind].read_bytes()
    for part in (0.1, 0.3, 0.5, 0.9, 0.99):
        file = tmp_path / f"cut.{kind}"
        file.write_bytes(whole[: int(len(whole) * part)])
        # PTX may be cut off behind a kernel, and is whole then.
        with pytest.raises(CompileError, match="cut off" + "|no kernel named in_c" * (kind == "ptx")) as caught:
            compile_entries(kernels(file, "in_c"), Target("sm_80"))
        assert "\n" not in str(caught.value)


def test_other_files_are_refused(built: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "text.cubin"
    file.write_text("no machine code")
    with pytest.raises(CompileError, match=r"is neither a cubin nor PTX nor a fatbin: it begins with b'no machi'$"):
        compile_entries(kernels(file, "in_c"), Target("sm_80"))
    with pytest.raises(CompileError, match=r"absent\.cubin cannot be read: No such file or directory$"):
        compile_entries(kernels(tmp_path / "absent.cubin", "in_c"), Target("sm_80"))
    (tmp_path / "host.cubin").write_bytes(Path("/bin/sh").resolve().read_bytes())
    with pytest.raises(
        CompileError, match=r"is an ELF file, but not a cubin: its machine has the number \d+, a GPU's has 190$"
    ):
        compile_entries(kernels(tmp_path / "host.cubin", "in_c"), Target("sm_80"))


@pytest.mark.parametrize("kind", ["cubin", "ptx"])
def test_an_entry_that_ready_code_lacks_is_named_with_those_that_it_has(built: dict[str, Path], kind: str) -> None:
    with pytest.raises(CompileError, match=r"has no kernel named absent: the file has .*scale\(float\*, int\)"):
        compile_entries(kernels(built[kind], "absent"), Target("sm_80"))
    with pytest.raises(CompileError, match=r"has 2 kernels named scale: the file has .*in_c"):
        compile_entries(kernels(built[kind], "scale"), Target("sm_80"))
