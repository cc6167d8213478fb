"""Tests that code is compiled again when anything has changed that its compiler read, or looked for in vain."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from softcuda import cache, cache_folder, stand_in
from softcuda.dependencies import SETTLED
from warpwatch.devices.compile import compiler
from warpwatch.devices.compile.compiler import CompileError, Image, Target, compile_file, compile_text, files_of
from warpwatch.devices.compile.entries import Kernels, compile_entries

KERNEL = 'extern "C" __global__ void scale(int* x) { x[threadIdx.x] *= FACTOR; }\n'
ON_HOST = 'extern "C" int scale(int x) { return x * FACTOR; }\n'
TWO, THREE = "#define FACTOR 2\n", "#define FACTOR 3\n"


def nvcc() -> Target:
    return Target("sm_90")


def software() -> Target:
    return Target("sm_90", str(stand_in(cache_folder())))


# The quickest comes first: `make test` runs most of these tests with it alone.
COMPILERS: dict[str, Callable[[], Target | None]] = {"g++": lambda: None, "softcuda": software, "nvcc": nvcc}


@dataclass
class Project:
    """A kernel in a folder of its own, and how many times it was compiled."""

    root: Path
    target: Target | None
    calls: list[str] = field(default_factory=list)

    def write(self, texts: Mapping[str, str | None]) -> None:
        """Write files of the project; None deletes one, and its folder if that is empty then."""
        for name, text in texts.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is not None:
                path.write_text(text)
                continue
            path.unlink()
            with contextlib.suppress(OSError):
                path.parent.rmdir()

    def compile(self, source: str, *flags: str, root: Path | None = None) -> Image:
        """Compile a text in front of the kernel."""
        root = root or self.root
        path = root / "k" / ("scale.cu" if self.target else "scale.cpp")
        path.parent.mkdir(exist_ok=True)
        path.write_text(source + (KERNEL if self.target else ON_HOST))
        target = replace(self.target, flags=flags) if self.target else None
        return compile_file(path, {}, target, root=root)

    def check_header(self, source: str, header: str, *flags: str, text: str | None = THREE) -> None:
        """Another text of a header makes another image, and what it was before makes the first one again."""
        path = self.root / header
        before = {header: path.read_text() if path.exists() else None}
        self.check(source, lambda: self.write({header: text}), *flags, undo=lambda: self.write(before))

    def check(self, source: str, change: Callable[[], object], *flags: str, undo: Callable[[], object]) -> None:
        """A change makes another image, which is found again as the first is: each is compiled once."""
        first = self.compile(source, *flags)
        assert (self.compile(source, *flags), len(self.calls)) == (first, 1)
        change()
        second = self.compile(source, *flags)
        assert second.image_hash != first.image_hash
        assert second.source_hash != first.source_hash
        assert (self.compile(source, *flags), len(self.calls)) == (second, 2)
        undo()
        assert (self.compile(source, *flags), len(self.calls)) == (first, 2)
        assert cache.notes() == []


@pytest.fixture(params=COMPILERS)
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_notes", {})
    (tmp_path / "project").mkdir()
    made = Project(tmp_path / "project", COMPILERS[request.param]())
    compile_ = compiler.compile_bytes

    def count(*arguments: object, **more: object) -> cache.Compiled:
        if threading.current_thread() is threading.main_thread():  # others compile what later tests of kernels need
            made.calls.append(str(arguments[2]))
        return compile_(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(compiler, "compile_bytes", count)
    return made


with_nvcc = pytest.mark.parametrize("project", ["nvcc"], indirect=True)
on_a_device = pytest.mark.parametrize("project", ["softcuda", "nvcc"], indirect=True)

INCLUDE = '#include "part.h"\n'
ASKS = f"\n{THREE}#else\n{TWO}#endif\n"
FOUND_FAR = {"far/part.h": TWO, "inc/other.h": "", "k/up/outer.h": INCLUDE}


@dataclass(frozen=True)
class Header:
    """A source of the folder k, the files beside it, and the one that decides: its name, and its text when it changes.

    ``path``: the folders of $CPATH.
    """

    source: str
    files: Mapping[str, str]
    changes: str = "k/part.h"
    text: str | None = THREE
    path: tuple[str, ...] = ()


HEADERS = {
    "by a macro": Header('#define HEADER "part.h"\n#include HEADER\n', {"k/part.h": TWO}),
    "by a header": Header('#include "outer.h"\n', {"k/outer.h": INCLUDE, "k/part.h": TWO}),
    "above": Header('#include "../inc/part.h"\n', {"inc/part.h": TWO}, "inc/part.h"),
    "by import": Header('#import "part.h"\n', {"k/part.h": TWO}),
    "across lines": Header('#include \\\n  "part.h"\n', {"k/part.h": TWO}),
    "under a condition": Header(
        f"#if defined __CUDA_ARCH__ || !defined __CUDACC__\n{INCLUDE}#endif\n", {"k/part.h": TWO}
    ),
    "in a folder of CPATH": Header("#include <part.h>\n", {"inc/part.h": TWO}, "inc/part.h", path=("inc",)),
    "deleted": Header(INCLUDE, FOUND_FAR | {"inc/part.h": THREE}, "inc/part.h", None, ("inc", "far")),
    "asked for": Header(f'#if __has_include("part.h") && __has_include(<cmath>){ASKS}', {}, text=""),
    "asked for by a macro": Header(
        f'#define MY_HAS_INCLUDE(x) __has_include(x)\n#if MY_HAS_INCLUDE("part.h"){ASKS}#include "other.h"\n',
        {"k/other.h": ""}, text="",
    ),
    "asked for around a comment": Header(f'#if __has_include /* beside */ ("part.h"){ASKS}', {}, text=""),
    "beside a header of a folder of headers, which a macro names": Header(
        '#include "inside/top.h"\n',
        {"inc/inside/top.h": '#define PART "part.h"\n#include PART\n', "inc/part.h": TWO},
        "inc/inside/part.h", path=("inc",),
    ),
}  # fmt: skip
EARLIER = {
    "beside the source": Header(INCLUDE, FOUND_FAR),
    "in a folder before": Header("#include <part.h>\n", FOUND_FAR, "inc/part.h"),
    "in a folder that is missing": Header("#include <part.h>\n", FOUND_FAR, "later/part.h"),
    "beside a header": Header('#include "up/outer.h"\n', FOUND_FAR, "k/up/part.h"),
}
HEADERS |= {f"earlier, {how}": replace(each, path=("later", "inc", "far")) for how, each in EARLIER.items()}


@pytest.mark.once
@pytest.mark.parametrize("how", HEADERS)
def test_a_header_belongs_to_the_build(project: Project, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is named; also one that appears where it is looked for first, or goes where another is found next."""
    header = HEADERS[how]
    project.write(header.files)
    if header.path:
        monkeypatch.setenv("CPATH", ":".join(str(project.root / name) for name in header.path))
    project.check_header(header.source, header.changes, text=header.text)


@pytest.mark.once
def test_a_header_that_is_named_by_its_whole_path_belongs_to_the_build(project: Project) -> None:
    header, other = project.root / "k" / "part.h", project.root.parent / "other"
    project.write({"k/part.h": TWO})
    project.check_header(f'#include "{header}"\n', "k/part.h")
    shutil.copytree(project.root, other)
    (other / "k" / "part.h").write_text(THREE)  # which nothing reads
    first = project.compile(f'#include "{header}"\n')
    header.write_text(THREE)
    assert project.compile(f'#include "{header}"\n', root=other).image_hash != first.image_hash


FLAGS = {
    "-I": ("-Iinc",),
    "-I, apart": ("-I", "inc"),
    "-isystem": ("-isystem", "inc"),
    "-iquote": ("-Xcompiler", "-iquote,inc"),
    "-idirafter": ("-Xcompiler", "-idirafter,inc"),
    "a file of options": ("--options-file", "words"),
    "a response file": ("-Xcompiler", "@words"),
    "-include": ("-include", "k/part.h"),
    "-imacros": ("-Xcompiler", "-imacros,k/part.h"),
    "--pre-include": ("--pre-include", "k/part.h"),
}


@pytest.mark.once
@with_nvcc
@pytest.mark.parametrize("how", FLAGS)
def test_a_header_that_flags_name_or_its_folder_belongs_to_the_build(project: Project, how: str) -> None:
    named = any("k/part.h" in flag for flag in FLAGS[how])
    header = "k/part.h" if named else "inc/part.h"
    project.write({header: TWO, "words": "-Iinc\n"})
    project.check_header("" if named else INCLUDE, header, *FLAGS[how])


@pytest.mark.once
def test_a_folder_of_cpath_belongs_to_the_build(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write({"inc/part.h": TWO, "far/part.h": THREE})
    images = []
    for name in ("inc", "far"):
        monkeypatch.setenv("CPATH", str(project.root / name))
        images.append(project.compile("#include <part.h>\n").image_hash)
    assert images[0] != images[1]


@with_nvcc
def test_the_words_of_a_file_of_options_belong_to_the_build(project: Project) -> None:
    project.write({"words": "-DFACTOR=2\n"})
    project.check_header("", "words", "--options-file=words", text="-DFACTOR=3\n")


@pytest.mark.once
@with_nvcc
@pytest.mark.parametrize("variable", ["NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "INCLUDES"])
def test_the_flags_of_a_variable_belong_to_the_build(
    project: Project, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "-DFACTOR=2")
    change, undo = (functools.partial(monkeypatch.setenv, variable, f"-DFACTOR={factor}") for factor in "32")
    project.check("", change, undo=undo)


@pytest.mark.slow
@with_nvcc
def test_a_header_of_the_toolkit_that_the_project_gets_is_read(project: Project) -> None:
    """Such as cuda_runtime.h in the working folder, which nvcc includes unasked."""
    project.write({"inc/other.h": ""})
    for header, flags in (("cuda_runtime.h", ()), ("inc/cuda_fp16.h", ("-Iinc",))):
        project.calls.clear()
        text = f"#include_next <{Path(header).name}>\n#undef FACTOR\n{THREE}"
        source = "#include <cuda_fp16.h>\n#ifndef FACTOR\n#define FACTOR 2\n#endif\n"
        project.check_header(source, header, *flags, text=text)


@pytest.mark.once
@pytest.mark.parametrize("where", ["k", "inc"])
def test_a_symbolic_link_to_another_header_is_followed(
    project: Project, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"far/two.h": TWO, "far/three.h": THREE})
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(project.root / "inc"))  # as -isystem, where gcc shortens paths
    link = project.root / where / "a_long_name_that_gcc_shortens_where_it_can_part.h"
    link.parent.mkdir(exist_ok=True)

    def lead(name: str) -> None:
        link.unlink(missing_ok=True)
        link.symlink_to(project.root / "far" / name)

    lead("two.h")
    project.check(f'#include "{link.name}"\n', lambda: lead("three.h"), undo=lambda: lead("two.h"))


@pytest.mark.once
def test_a_link_that_leads_nowhere_is_read_once_it_leads_to_a_header(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"far/part.h": TWO})
    (project.root / "inc").mkdir()
    (project.root / "inc" / "part.h").symlink_to("later.h")
    monkeypatch.setenv("CPATH", ":".join(str(project.root / name) for name in ("inc", "far")))
    project.check_header("#include <part.h>\n", "inc/later.h")


@pytest.mark.once
def test_a_header_of_the_same_size_and_time_is_told_apart(project: Project) -> None:
    header = project.root / "k" / "part.h"

    def put(text: str) -> None:
        project.write({"k/part.h": text})
        os.utime(header, (1, 1))

    put(TWO)
    project.check(INCLUDE, lambda: put(THREE), undo=lambda: put(TWO))


UNREPEATABLE = {
    "__TIME__": "const char* when() { return __TIME__; }\n#define FACTOR 2\n",
    "__has_include": '#define PART "part.h"\n#if __has_include(PART)\n#endif\n#define FACTOR 2\n',
    "__has_include,": '#define ASKS __has_include\n#if ASKS("part.h")\n#endif\n#define FACTOR 2\n',
}


@pytest.mark.once
@pytest.mark.parametrize("word", UNREPEATABLE)
def test_what_cannot_be_verified_is_compiled_each_time_and_said(project: Project, word: str) -> None:
    for count in (1, 2):
        project.compile(UNREPEATABLE[word])
        assert len(project.calls) == count
    (note,) = cache.notes()
    assert re.match(r"k/scale\.c\w+ is compiled anew each time, because k/scale\.c\w+ (uses|asks) ", note)
    assert word.strip(",") in note


@pytest.mark.once
def test_a_date_that_is_set_belongs_to_the_build(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"__attribute__((used)) static const char when[] = __TIME__;\n{TWO}"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    first = project.compile(source)
    assert (project.compile(source), len(project.calls)) == (first, 1)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "2")
    assert project.compile(source).source_hash != first.source_hash


# Compilers


def check_wrapper(project: Project, wrapper: Path, program: str | None, *flags: str) -> None:
    """Another script of the same name, size and time that calls a compiler makes another image."""

    def put(factor: int) -> None:
        wrapper.write_text(f'#!/bin/sh\nexec {program} -DFACTOR={factor} "$@"\n')
        wrapper.chmod(0o755)
        os.utime(wrapper, (1, 1))

    put(2)
    project.check("", lambda: put(3), *flags, undo=lambda: put(2))


@pytest.mark.once
@on_a_device
def test_the_g_plus_plus_of_the_path_belongs_to_the_build(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "g++" if project.target and project.target.program else "gcc"
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    check_wrapper(project, tmp_path / "bin" / name, shutil.which(name, path="/usr/bin"))


@with_nvcc
def test_another_nvcc_of_the_same_path_and_version_belongs_to_the_build(project: Project, tmp_path: Path) -> None:
    project.target = Target("sm_90", str(tmp_path / "nvcc"))
    check_wrapper(project, tmp_path / "nvcc", shutil.which("nvcc"))


@pytest.mark.slow
@with_nvcc
def test_the_compiler_of_ccbin_belongs_to_the_build(project: Project, tmp_path: Path) -> None:
    check_wrapper(project, tmp_path / "g++", "g++", "-ccbin", str(tmp_path / "g++"))


@pytest.mark.once
@pytest.mark.parametrize("language", ["de_DE.UTF-8", "C.UTF-8"])
def test_the_language_of_messages_and_the_temporary_folder_do_not_matter(
    project: Project, language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = project.compile(TWO)
    monkeypatch.setenv("LC_ALL", language)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert (project.compile(TWO), len(project.calls)) == (first, 1)


# Checkouts, processes and changes while something is compiled


@pytest.mark.once
def test_checkouts_share_what_is_the_same_and_nothing_else(project: Project) -> None:
    project.write({"k/part.h": TWO})
    first = project.compile(INCLUDE)
    other = project.root.parent / "other"
    shutil.copytree(project.root, other)
    assert (project.compile(INCLUDE, root=other), len(project.calls)) == (first, 1)
    (other / "k" / "part.h").write_text(THREE)
    assert project.compile(INCLUDE, root=other).image_hash != first.image_hash
    assert (project.compile(INCLUDE), len(project.calls)) == (first, 2)


@pytest.mark.once
def test_a_header_that_changes_while_it_is_compiled_leaves_nothing_to_be_found(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write({"k/part.h": TWO})
    first = project.compile(INCLUDE)
    project.write({"k/part.h": "#define FACTOR 5\n"})
    run = compiler._run

    def change_after(*arguments: object) -> tuple[int, str]:
        done = run(*arguments)  # type: ignore[arg-type]
        project.write({"k/part.h": THREE})
        return done

    with monkeypatch.context() as patch:
        patch.setattr(compiler, "_run", change_after)
        fifth = project.compile(INCLUDE)
    third = project.compile(INCLUDE)
    assert len({first.image_hash, fifth.image_hash, third.image_hash}) == 3
    assert len(project.calls) == 3


@pytest.mark.once
@pytest.mark.parametrize("damage", ["empty", "another byte", "not JSON", "other fields"])
def test_a_damaged_list_of_what_was_read_is_as_none(project: Project, damage: str) -> None:
    first = project.compile(TWO)
    (listed,) = Path(os.environ["WARPWATCH_CACHE"]).glob("*.reads")
    text = listed.read_bytes()
    texts = {"empty": b"", "another byte": b"?" + text[1:], "not JSON": b"{", "other fields": b'{"files": []}'}
    if damage in ("empty", "another byte"):
        listed.write_bytes(texts[damage])
    else:
        listed.unlink()
        stem = listed.name.rpartition("-")[0]
        listed.with_name(f"{stem}-{cache.checksum_of(texts[damage])}.reads").write_bytes(texts[damage])
    assert (project.compile(TWO), len(project.calls)) == (first, 2)
    assert (project.compile(TWO), len(project.calls)) == (first, 2)


@pytest.mark.once
@on_a_device
def test_kernels_that_are_named_as_in_cpp_are_compiled_again_with_their_headers(project: Project) -> None:
    assert project.target
    named = f'#define PART "part.h"\n#include PART\nnamespace ns {{\n{KERNEL[11:]}}}\n'
    project.write({"k/part.h": TWO, "k/named.cu": named})
    kernels = Kernels(source=project.root / "k" / "named.cu", entries=("ns::scale",), macros={}, root=project.root)
    first = compile_entries(kernels, project.target)
    project.write({"k/part.h": THREE})
    second = compile_entries(kernels, project.target)
    assert second.image_hash != first.image_hash
    project.write({"k/part.h": TWO})
    assert compile_entries(kernels, project.target) == first


@pytest.mark.once
@on_a_device
def test_a_text_is_compiled_again_with_its_headers(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write({"inc/part.h": TWO})
    monkeypatch.setenv("CPATH", str(project.root / "inc"))
    assert project.target
    first = compile_text(f"#include <part.h>\n{KERNEL}", "text.cu", project.target)
    project.write({"inc/part.h": THREE})
    assert compile_text(f"#include <part.h>\n{KERNEL}", "text.cu", project.target).image_hash != first.image_hash
    project.write({"inc/part.h": TWO})
    assert compile_text(f"#include <part.h>\n{KERNEL}", "text.cu", project.target) == first


def processor_seconds(look: Callable[[], object], times: int) -> float:
    """Return the least of several times of the processor, because other processes share its caches."""

    def taken() -> float:
        begin = time.process_time()
        for _ in range(times):
            look()
        return time.process_time() - begin

    return min(taken() for _ in range(5)) / times


@pytest.mark.slow
@with_nvcc
def test_looking_up_a_build_takes_less_time_than_500_looks_at_a_file(project: Project) -> None:
    """Which take a millisecond on a fast host: 200 builds are found in a fifth of a second."""
    first = project.compile(TWO)
    source = project.root / "k" / "scale.cu"
    for path in project.root.rglob("*"):
        os.utime(path, (1, 1))
    time.sleep(SETTLED / 1e9)  # until what was written now is no news
    assert compile_file(source, {}, project.target, root=project.root) == first
    found = processor_seconds(lambda: compile_file(source, {}, project.target, root=project.root), 200)
    assert found < 500 * processor_seconds(lambda: os.stat(source), 20_000)


@pytest.mark.once
def test_the_files_of_a_build_are_known_once_it_was_compiled(project: Project) -> None:
    project.write({"k/part.h": TWO})
    source = project.root / "k" / ("scale.cu" if project.target else "scale.cpp")
    assert files_of(source, project.root) == set()
    project.compile('#define PART "part.h"\n#include PART\n#include <cmath>\n')
    assert files_of(source, project.root) == {source, project.root / "k" / "part.h"}


def test_the_files_of_a_build_are_none_of_the_softcuda_that_compiled_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))  # has libclang
    other = tmp_path / "other" / "softcuda"  # such as that of another checkout, which the environment names
    shutil.copytree(compiler.ENGINE / "softcuda", other, ignore=shutil.ignore_patterns("__pycache__"))
    project = Project(tmp_path, Target("sm_90", str(other / "compiling" / "nvcc")))
    project.compile(TWO)
    assert files_of(source := project.root / "k" / "scale.cu", project.root) == {source}


@pytest.mark.once
def test_messages_hold_nothing_of_what_compilers_say_of_their_folders(project: Project) -> None:
    with pytest.raises(CompileError) as caught:
        project.compile("#error wrong\n")
    text = str(caught.value)
    assert "wrong" in text
    for noise in ("search starts here", "End of search", "#$", "ignoring", "Xpreprocessor"):
        assert noise not in text
