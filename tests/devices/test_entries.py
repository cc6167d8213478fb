"""Tests of kernels that are named as C++ names them.

Kernels run on the device of the run, through PyCUDA; nvcc compiles for other architectures too.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.devices.named import MACROS, kernels, software, write_checkout
from tests.project import PROJECT
from tests.softcuda import calls
from warpwatch.devices.compile import compiler
from warpwatch.devices.compile.builds import symbols_in
from warpwatch.devices.compile.compiler import CompileError, Target, compile_file
from warpwatch.devices.compile.entries import compile_entries, needs_names
from warpwatch.devices.compile.symbols import entries, read_sections
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device

LANES = np.arange(32) ^ 1
# A kernel's name, the type of what it writes, and what 32 threads write with every further argument zero.
KERNELS: dict[str, tuple[str, Sequence[float]]] = {
    "ln::forward<scalar_t, ROWS_OF_TILE>": ("i4", (LANES + 151).tolist()),
    "ln::forward<real>": ("f4", (LANES + 251.0).tolist()),
    "::ln::forward<double, 1, MODE, false>": ("f8", (LANES + 130.0).tolist()),
    "ln::plain": ("i4", [23] * 32),
    "ln::inner::old_one<some, (1 > 0) + 2>": ("i4", [21] * 32),
    "scale(float*, int)": ("f4", [1.5] * 32),
    "scale( int *,int )": ("i4", [3] * 32),
    "scale<short>(short*, Pair)": ("i2", [8] * 32),
    "hidden": ("i4", [4] * 4 + [0] * 28),
    "unnamed": ("i4", [5] * 32),
    "in_c": ("i4", [6] * 32),
    "hidden_template<double>": ("f8", [8] * 32),
    "hidden_template<short>": ("i2", [77] * 32),
    "several<int, float, Pair>": ("i4", [3] * 32),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def child(device: DeviceInfo, pytestconfig: pytest.Config) -> Iterator[Worker]:
    worker = Worker(PROJECT, Settings(kind=pytestconfig.getoption("--device"), ordinal=device.ordinal))
    yield worker
    worker.stop()


def compile_named(folder: Path, names: list[str], target: Target) -> tuple[compiler.Image, Mapping[str, str]]:
    made = kernels(folder / "csrc/named.cu", *names, macros=MACROS, include=(folder / "include",), root=folder)
    image = compile_entries(made, target)
    return image, symbols_in(image.path, tuple(names))


# Functions, because the software device is compiled for its targets.
TARGETS: Mapping[str, Callable[[], Target]] = {
    "sm_80": lambda: Target("sm_80"),
    "sm_90": lambda: Target("sm_90"),
    "software": software,
    "checked": lambda: software("sm_75", "--checks"),
}
EACH_TARGET = pytest.mark.parametrize("target", TARGETS, indirect=True)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    return TARGETS[request.param]()


@pytest.mark.once
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "plain"])
def test_every_kernel_runs_by_its_name(child: Worker, folder: Path, checked: bool) -> None:
    info = child.call(describe_device)
    image, symbols = compile_named(folder, list(KERNELS), info.target if checked else info.timing_target)
    assert len(set(symbols.values())) == len(KERNELS)
    for name, (kind, wanted) in KERNELS.items():
        size = np.dtype(kind).itemsize * 32
        # further arguments: there is one array, and the driver takes the rest from a buffer of zeros
        left = child.call(calls.run_with_zeros, image.path, symbols[name], size)
        assert isinstance(left, bytes), f"{name}: {left}"
        assert np.frombuffer(left, kind).tolist() == wanted, name


@pytest.mark.once
@EACH_TARGET
def test_symbols_are_kernels_of_the_image_and_are_found_again_in_the_cache(
    folder: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, symbols = compile_named(folder, list(KERNELS), target)
    assert set(symbols.values()) <= set(entries(first.path.read_bytes()))
    assert list(symbols) == list(KERNELS)
    assert symbols["ln::plain"] == "_ZN2ln5plainEPi"
    assert symbols["in_c"] == "in_c"
    monkeypatch.setattr(compiler, "compile_bytes", None)  # nothing is compiled
    assert compile_named(folder, list(KERNELS), target) == (first, symbols)


def sections(image: bytes) -> dict[str, bytes]:
    """Contents of the machine code of a cubin by the name of the section."""
    (first,) = struct.unpack_from("<Q", image, 40)
    size, _, names = struct.unpack_from("<HHH", image, 58)
    parts = read_sections(image)
    found = {}
    for number, part in enumerate(parts):
        (offset,) = struct.unpack_from("<I", image, first + number * size)
        begin = parts[names].offset + offset
        name = image[begin : image.index(b"\0", begin)].decode()
        if name.startswith((".text.", ".nv.constant0.", ".nv.shared.")):
            found[name] = bytes(part.length) if part.kind == 8 else image[part.offset : part.offset + part.length]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_machine_code_is_that_of_kernels_that_nobody_asked_for(folder: Path, arch: str) -> None:
    """The same instances, made by explicit instantiation, in a file without the table."""
    image, _ = compile_named(folder, list(KERNELS), Target(arch))
    other = folder / "csrc/instances.cu"
    other.write_text(
        '#include "named.cu"\n'
        "template __global__ void ln::forward<scalar_t, ROWS_OF_TILE>(scalar_t*, int);\n"
        "template __global__ void ln::forward<real>(real*, int);\n"
        "template __global__ void ln::forward<double, 1, MODE, false>(double*, int);\n"
        "template __global__ void ln::inner::old_one<some, 3>(int*);\n"
    )
    plain = sections(
        compile_file(other, MACROS, Target(arch), root=folder, include=[folder / "include"]).path.read_bytes()
    )
    named = sections(image.path.read_bytes())
    same = [name for name in plain if "GLOBAL__N" not in name]
    assert len([name for name in same if name.startswith(".text.")]) >= 9
    assert {name: named[name] for name in same} == {name: plain[name] for name in same}


@pytest.mark.slow
@pytest.mark.once
@EACH_TARGET
def test_images_are_the_same_in_every_checkout(
    folder: Path, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of kernels in an anonymous namespace, whose names hold a hash of the compiled file's path."""
    image, symbols = compile_named(folder, ["unnamed", "ln::plain"], target)
    (tmp_path / "other").symlink_to(folder)
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    again, others = compile_named(tmp_path / "other", ["unnamed", "ln::plain"], target)
    assert again.path != image.path
    assert (again.image_hash, others) == (image.image_hash, symbols)


@pytest.mark.slow
def test_headers_beside_the_source_and_in_include_folders_belong_to_the_cache_key(folder: Path) -> None:
    first, _ = compile_named(folder, ["ln::plain"], software())
    plain = compile_file(folder / "csrc/named.cu", MACROS, software(), root=folder, include=[folder / "include"])
    for header in ("csrc/part.h", "include/shared_part.h"):
        text = (folder / header).read_text()
        (folder / header).write_text(f"{text}#define MORE\n")
        changed, _ = compile_named(folder, ["ln::plain"], software())
        assert changed.source_hash != first.source_hash, header
        again = compile_file(folder / "csrc/named.cu", MACROS, software(), root=folder, include=[folder / "include"])
        assert again.source_hash != plain.source_hash, header
        (folder / header).write_text(text)
    assert compile_named(folder, ["ln::plain"], software())[0] == first


def test_a_plain_c_name_takes_the_ordinary_build(folder: Path) -> None:
    plain = compile_file(folder / "csrc/named.cu", MACROS, Target("sm_90"), root=folder, include=[folder / "include"])
    assert compile_named(folder, ["in_c"], Target("sm_90")) == (plain, {"in_c": "in_c"})
    assert [needs_names(name) for name in ("in_c", "_x1", "ns::x", "x<1>", "x(int)", "::x", "1x")] == [False] * 2 + [
        True
    ] * 5


FILE_HAS = r"; the file has (?=.*\bscale\(float\*, int\))(?=.*\bin_c\b)(?=.*\bhidden\(int\*\))(?=.*\bforward<\.\.\.>)"
WRONG = {
    "ln::forwrd<int>": r"^ln::forwrd<int> names no kernel of csrc/named\.cu: .*forwrd.*" + FILE_HAS,
    "absent": r"^absent names no kernel of csrc/named\.cu: .*absent.*" + FILE_HAS,
    "scale": r"^scale names no kernel of csrc/named\.cu: .*overloaded function.*" + FILE_HAS,
    "scale(char*)": r"^scale\(char\*\) names no kernel of csrc/named\.cu: .*" + FILE_HAS,
    "ln::forward": r"^ln::forward names no kernel of csrc/named\.cu: .*" + FILE_HAS,
    "ln::forward<__half>": r"^ln::forward<__half>: csrc/named\.cu does not compile .*: #include <cuda_fp16.h>",
    "ln::forward<no_type>": r"^ln::forward<no_type> names no kernel of csrc/named\.cu: .*no_type.*" + FILE_HAS,
    "helper": r"^helper of csrc/named\.cu is not a kernel \(__global__\): the file has .*",
    "ln::forward<Pair>": r"^ln::forward<Pair> of csrc/named\.cu does not compile: .* \(csrc/named\.cu:12\)\n",
    "in_c; }": r"^'in_c; }' is not a valid name of a kernel: write it as C\+\+ does, such as ns::scale",
    "ln::forward<int": r"^'?ln::forward<int'? ",
    "scale(float*": r"^'scale\(float\*' is not a valid name of a kernel",
    "": r"^'' is not a valid name of a kernel",
}


@pytest.mark.once
@EACH_TARGET
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_one_sentence(folder: Path, target: Target, name: str) -> None:
    """Beside a right one, so that it must be told which of them is wrong."""
    with pytest.raises(CompileError, match=WRONG[name]) as caught:
        compile_named(folder, ["ln::plain", name], target)
    assert "warpwatch-" not in str(caught.value).partition("\n")[0]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("twise", "twice(float*)"),
        ("ns::twise", "ns::inside(float*)"),
        ("twise<float>", "made<...>"),
        ("norm", "twice(float*)"),  # an overloaded function of CUDA's headers
    ],
)
def test_a_wrong_name_in_a_file_that_uses_a_macro_of_ours_is_one_sentence(
    tmp_path: Path, name: str, known: str
) -> None:
    source = tmp_path / "twice.cu"
    body = "x[blockIdx.x * BLOCK_X + threadIdx.x] *= 2;"
    source.write_text(
        f"/* gr\xf6\xdfe */ __global__ void twice(float* x) {{ {body} }}\n"
        f"namespace ns {{ __global__ void inside(float* x) {{ {body} }} }}\n"
        f"template <class T> __global__ void made(T* x) {{ {body} }}\n",
        encoding="latin-1",
    )
    case = "128"
    given = {"macros": {"BLOCK_X": case}} if needs_names(name) else {"own_macros": {"BLOCK_X": case}}
    with pytest.raises(CompileError) as caught:
        compile_entries(kernels(source, name, root=tmp_path, **given), software())
    first = str(caught.value).partition("\n")[0]
    assert re.match(rf"{re.escape(name)} (names no kernel of|of) twice\.cu", first)
    assert known in first
    assert "BLOCK_X" not in str(caught.value).replace("-DBLOCK_X=128", "")


@pytest.mark.slow
@pytest.mark.once
@EACH_TARGET
def test_a_file_that_is_wrong_itself_is_named_with_its_line(folder: Path, target: Target) -> None:
    source = folder / "csrc/broken.cu"
    source.write_text("namespace a {\n__global__ void f(int* x) { x[0] = nothing; }\n}\n")
    with pytest.raises(CompileError, match=r"csrc/broken\.cu[:(]2") as caught:
        compile_entries(kernels(source, "a::f", root=folder), target)
    assert str(caught.value).startswith("csrc/broken.cu does not compile\n")


@pytest.mark.slow
def test_a_finding_in_a_named_kernel_names_the_users_line(folder: Path) -> None:
    source = folder / "csrc/racy.cu"
    source.write_text('#include "racy.h"\nextern "C" __global__ void one(int* x) { body(x); }\n')
    (folder / "csrc/racy.h").write_text(
        "template <int n> __global__ void racy(int* numbers)\n{\n    numbers[threadIdx.x / n] = threadIdx.x;\n}\n"
        "__device__ inline void body(int* x) { x[threadIdx.x] = 1; }\n"
    )
    worker = Worker(PROJECT, Settings(kind="software"))
    image = compile_entries(kernels(source, "racy<2>", root=folder), worker.call(describe_device).target).path
    said = worker.call(calls.run_with_zeros, image, symbols_in(image, ("racy<2>",))["racy<2>"], 128)
    worker.stop()
    assert re.search(r"race in .*racy.*\n  csrc/racy\.h:3: thread \(1, 0\) .* writes 4 bytes of numbers ", str(said)), (
        said
    )
