"""Tests of kernels that are named as C++ names them, and of machine code that is there already.

Kernels run on the device of the run, through PyCUDA; nvcc compiles for other architectures too.
"""

from __future__ import annotations

import re
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softcuda
from tests.project import PROJECT
from tests.softcuda import calls
from warpwatch.devices import compiler
from warpwatch.devices.compiler import NVCC_FLAGS, CompileError, Target, compile_file
from warpwatch.devices.entries import Kernels, compile_entries, needs_names
from warpwatch.devices.gpu import Settings
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.ready import code_image
from warpwatch.devices.symbols import entries, read_sections
from warpwatch.devices.worker import Worker, describe_device

SOURCE = """\
#include "part.h"
#include <shared_part.h>
typedef float real;
enum class Mode { slow = 3, fast = 5 };
enum Old { none, some = 7 };
struct Pair { int first, second; };
namespace ln {
template <class T, int ROWS = 2, Mode mode = Mode::fast, bool flag = true>
__global__ void __launch_bounds__(ROWS * 32) forward(T* x, int)
{
    __shared__ T tile[ROWS * 32];
    tile[threadIdx.x] = T(threadIdx.x);
    __syncthreads();
    x[threadIdx.x] = tile[threadIdx.x ^ 1] + T(100 * ROWS + 10 * int(mode) + int(flag));
}
__global__ void plain(int* x) { x[threadIdx.x] = PART + SHARED_PART; }
namespace inner { template <Old old, unsigned char n> __global__ void old_one(int* x) { x[threadIdx.x] = old * n; } }
}
__global__ void scale(float* x, int) { x[threadIdx.x] = 1.5f; }
__global__ void scale(int* x, int) { x[threadIdx.x] = 3; }
template <class T> __global__ void scale(T* x, Pair) { x[threadIdx.x] = sizeof(Pair); }
static __global__ void hidden(int* x)
{
    if (threadIdx.x > 3)
        return;
    x[threadIdx.x] = 4;
}
namespace { __global__ void unnamed(int* x) { x[threadIdx.x] = 5; } }
extern "C" __global__ void in_c(int* x) { x[threadIdx.x] = 6; }
template <class T> static __global__ void hidden_template(T* x) { x[threadIdx.x] = sizeof(T); }
template <class... T> __global__ void several(int* x, T... more) { x[threadIdx.x] = sizeof...(more); }
template <> __global__ void hidden_template<short>(short* x) { x[threadIdx.x] = 77; }
__device__ int helper(int x) { return x; }
int variable;
"""
MACROS = {"scalar_t": "int", "ROWS_OF_TILE": "1", "MODE": "Mode::slow"}
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
    """A checkout with a kernel's file, a header beside it, and another in an include folder."""
    root = tmp_path_factory.mktemp("checkout")
    for name, text in {
        "csrc/named.cu": SOURCE,
        "csrc/part.h": "#pragma once\n#define PART 3\n",
        "include/shared_part.h": "#define SHARED_PART 20\n",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module")
def child(device: DeviceInfo, pytestconfig: pytest.Config) -> Iterator[Worker]:
    worker = Worker(PROJECT, Settings(kind=pytestconfig.getoption("--device"), ordinal=device.ordinal))
    yield worker
    worker.stop()


def kernels(source: Path, *entries: str, macros: Mapping[str, str] | None = None, **more: Any) -> Kernels:
    return Kernels(source=source, entries=entries, macros=macros or {}, **more)


def compile_named(
    folder: Path, names: list[str], target: Target, macros: Mapping[str, str] = MACROS
) -> tuple[compiler.Image, Mapping[str, str]]:
    made = kernels(folder / "csrc/named.cu", *names, macros=macros, include=(folder / "include",), root=folder)
    return compile_entries(made, target)


def software(arch: str = "sm_90", *flags: str) -> Target:
    return Target(arch, str(softcuda.stand_in(softcuda.cache_folder())), flags)


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


@EACH_TARGET
def test_symbols_are_kernels_of_the_image_and_are_found_again_in_the_cache(folder: Path, target: Target) -> None:
    first, symbols = compile_named(folder, list(KERNELS), target)
    assert set(symbols.values()) <= set(entries(first.path.read_bytes()))
    assert list(symbols) == list(KERNELS)
    assert symbols["ln::plain"] == "_ZN2ln5plainEPi"
    assert symbols["in_c"] == "in_c"
    begin = time.perf_counter()
    assert compile_named(folder, list(KERNELS), target) == (first, symbols)
    assert time.perf_counter() - begin < 0.1  # nothing is compiled


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
    "ln::forward<no_type>": r"^ln::forward<no_type> names no kernel of csrc/named\.cu: .*no_type.*" + FILE_HAS,
    "helper": r"^helper of csrc/named\.cu is no kernel \(__global__\): the file has .*",
    "ln::forward<Pair>": r"^ln::forward<Pair> of csrc/named\.cu does not compile: .* \(csrc/named\.cu:12\)\n",
    "in_c; }": r"^'in_c; }' is no name of a kernel: write it as C\+\+ does, such as ns::scale",
    "ln::forward<int": r"^'?ln::forward<int'? ",
    "scale(float*": r"^'scale\(float\*' is no name of a kernel",
    "": r"^'' is no name of a kernel",
}


@EACH_TARGET
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_one_sentence(folder: Path, target: Target, name: str) -> None:
    """Beside a right one, so that it must be told which of them is wrong."""
    with pytest.raises(CompileError, match=WRONG[name]) as caught:
        compile_named(folder, ["ln::plain", name], target)
    assert "warpwatch-" not in str(caught.value).partition("\n")[0]


@EACH_TARGET
def test_a_file_that_is_wrong_itself_is_named_with_its_line(folder: Path, target: Target) -> None:
    source = folder / "csrc/broken.cu"
    source.write_text("namespace a {\n__global__ void f(int* x) { x[0] = nothing; }\n}\n")
    with pytest.raises(CompileError, match=r"csrc/broken\.cu[:(]2") as caught:
        compile_entries(kernels(source, "a::f", root=folder), target)
    assert str(caught.value).startswith("csrc/broken.cu does not compile\n")


def test_a_finding_in_a_named_kernel_names_the_users_line(folder: Path) -> None:
    source = folder / "csrc/racy.cu"
    source.write_text('#include "racy.h"\nextern "C" __global__ void one(int* x) { body(x); }\n')
    (folder / "csrc/racy.h").write_text(
        "template <int n> __global__ void racy(int* numbers)\n{\n    numbers[threadIdx.x / n] = threadIdx.x;\n}\n"
        "__device__ inline void body(int* x) { x[threadIdx.x] = 1; }\n"
    )
    worker = Worker(PROJECT, Settings(kind="software"))
    image, symbols = compile_entries(kernels(source, "racy<2>", root=folder), worker.call(describe_device).target)
    said = worker.call(calls.run_with_zeros, image.path, symbols["racy<2>"], 128)
    worker.stop()
    assert re.search(r"race in .*racy.*\n  csrc/racy\.h:3: thread \(1, 0\) .* writes 4 bytes of numbers ", str(said)), (
        said
    )


# Machine code


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


@pytest.mark.parametrize("kind", ["cubin", "ptx"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_86"])
def test_kernels_of_ready_machine_code_are_found(built: dict[str, Path], kind: str, arch: str) -> None:
    names = ["in_c", "_ZN2ln5plainEPi", "ln::plain", "scale(float *,int)", "hidden", "unnamed"]
    image, symbols = compile_entries(kernels(built[kind], *names), Target(arch))
    assert [symbols[name] for name in names[:5]] == ["in_c", *["_ZN2ln5plainEPi"] * 2, "_Z5scalePfi", "_Z6hiddenPi"]
    assert symbols["unnamed"].endswith("7unnamedEPi")
    assert image.path.suffix == f".{kind}"


def test_a_fatbin_is_taken_as_it_is(built: dict[str, Path]) -> None:
    image, symbols = compile_entries(kernels(built["fatbin"], "in_c"), Target("sm_90"))
    assert image.path.read_bytes() == built["fatbin"].read_bytes()
    assert symbols == {"in_c": "in_c"}


def test_machine_code_that_a_function_returned_is_kept_by_what_it_holds(built: dict[str, Path]) -> None:
    code = built["cubin"].read_bytes()
    assert code_image(code, "softmax", Target("sm_80")).path.read_bytes() == code
    text = code_image(built["ptx"].read_text(), "softmax", Target("sm_90"))
    assert text.path.read_bytes() == built["ptx"].read_bytes().rstrip(b"\0") + b"\0"


def test_an_image_for_the_software_device_runs_there_and_nowhere_else(folder: Path) -> None:
    made = compile_file(folder / "csrc/named.cu", MACROS, software(), root=folder, include=[folder / "include"])
    code = made.path.read_bytes()
    image = code_image(code, "made", software())
    worker = Worker(PROJECT, Settings(kind="software"))
    left = worker.call(calls.run_with_zeros, image.path, "in_c", 128)
    worker.stop()
    assert np.frombuffer(left, "i4").tolist() == [6] * 32  # type: ignore[arg-type]
    with pytest.raises(CompileError, match=r"^made is an image for the software device, and cannot run on a GPU$"):
        code_image(code, "made", Target("sm_90"))
    with pytest.raises(CompileError, match=r"^made is cut off: it has [\d,]+ bytes$"):
        code_image(code[:-1], "made", software())


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
        ("cubin", lambda: None, "holds machine code for a GPU, and the variant runs on the host"),
    ],
)
def test_what_the_device_cannot_run_is_one_sentence(
    built: dict[str, Path], kind: str, make_target: Callable[[], Target | None], said: str
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
        CompileError, match=r"is an ELF file, but no cubin: its machine has the number \d+, a GPU's has 190$"
    ):
        compile_entries(kernels(tmp_path / "host.cubin", "in_c"), Target("sm_80"))


@pytest.mark.parametrize("kind", ["cubin", "ptx"])
def test_an_entry_that_ready_code_lacks_is_named_with_those_that_it_has(built: dict[str, Path], kind: str) -> None:
    with pytest.raises(CompileError, match=r"has no kernel named absent: the file has .*scale\(float\*, int\)"):
        compile_entries(kernels(built[kind], "absent"), Target("sm_80"))
    with pytest.raises(CompileError, match=r"has 2 kernels named scale: the file has .*in_c"):
        compile_entries(kernels(built[kind], "scale"), Target("sm_80"))
