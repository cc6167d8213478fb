"""Tests of the caches of kernels and of the software device: damaged, foreign, read-only, shared, badly named."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import softcuda
from softcuda import cache, dependencies
from softcuda.dependencies import Dependencies
from tests.project import ROOT
from warpwatch.devices.compile import compiler
from warpwatch.devices.compile.compiler import (
    CompileError,
    CompilerThreads,
    Image,
    cache_folder,
    cache_notes,
    compile_file,
    read_image,
)

AS_ROOT = os.geteuid() == 0
NOBODY = 65534
NOTHING = Dependencies(files=(), headers=(), programs=(), scripts=(), absent={})


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a folder for temporary files, for this test alone."""
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(cache, "_notes", {})
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "twice.cpp"
    file.write_text('extern "C" int twice(int x) { return 2 * x; }\n')
    return file


def twice(source: Path) -> Image:
    """Compile and call it."""
    image = compile_file(source, {}, None)
    assert ctypes.CDLL(str(image.path)).twice(21) == 42
    return image


def test_what_many_need_at_once_is_compiled_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_bytes, calls = compiler.compile_bytes, list[Path]()

    def counted(*given: Any) -> cache.Compiled:
        calls.append(source)
        time.sleep(0.1)  # so that the others ask meanwhile
        return compile_bytes(*given)

    monkeypatch.setattr(compiler, "compile_bytes", counted)
    with ThreadPoolExecutor(4) as pool:
        images = [*pool.map(lambda _: compile_file(source, {}, None), range(4))]
    assert len({*images}) == len(calls) == 1
    assert not [*cache_folder().glob("*.lock")]


def test_who_waits_for_another_process_stops_and_does_not_wait_for_ever(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, times = threading.Event(), iter(range(500))

    def locked(file: object) -> bool:
        """Refuse, as where another process has the lock."""
        asked.set()
        next(times)
        return False

    monkeypatch.setattr(cache, "_locked", locked)
    monkeypatch.setattr(compiler, "SECONDS_TO_WAIT", 5)
    threads = CompilerThreads(1)
    job = threads.submit(compile_file, source, {}, None)
    assert asked.wait(5)
    threads.stop([job])
    with pytest.raises(CompileError, match="stopped"):
        job.result()
    monkeypatch.setattr(compiler, "SECONDS_TO_WAIT", 0.1)
    assert twice(source)


@pytest.mark.once
@pytest.mark.parametrize("damage", ["empty", "short", "another byte", "longer", "a folder", "a link"])
def test_a_damaged_entry_is_made_anew_and_said(source: Path, damage: str) -> None:
    first = compile_file(source, {}, None)
    whole = first.path.read_bytes()
    broken = {"empty": b"", "short": whole[:-1], "another byte": b"?" + whole[1:], "longer": whole + b"?"}.get(damage)
    first.path.unlink()
    if broken is not None:
        first.path.write_bytes(broken)
    elif damage == "a link":
        other = source.with_suffix(".so")
        other.write_bytes(whole)
        first.path.symlink_to(other)
    else:
        first.path.mkdir()
    if damage == "a folder":  # not to be replaced by a file: the user must look
        with pytest.raises(CompileError, match=str(first.path)):
            compile_file(source, {}, None)
        return
    again = twice(source)
    assert again == first
    assert again.path.read_bytes() == whole
    (note,) = cache_notes()
    assert str(first.path) in note
    assert "made anew" in note


def test_an_entry_that_is_damaged_before_it_is_loaded_is_named(source: Path) -> None:
    image = compile_file(source, {}, None)
    image.path.write_bytes(b"")
    with pytest.raises(CompileError, match=rf"{image.path} is damaged"):
        read_image(image.path)


def test_an_entry_of_the_time_before_checksums_is_not_used(source: Path) -> None:
    image = compile_file(source, {}, None)
    old = image.path.with_name(f"twice-{image.source_hash}.so")
    image.path.rename(old)
    old.write_bytes(b"")
    assert twice(source) == image


def test_the_hash_of_the_machine_code_is_in_the_name(source: Path) -> None:
    image = compile_file(source, {}, None)
    assert image.path.name == f"twice-{image.source_hash}-{image.image_hash}.so"
    assert cache.checksum_of(image.path.read_bytes()) == image.image_hash


def test_checking_what_is_found_costs_little(source: Path, folders: Path) -> None:
    """Measure the processor time for 190 entries of 300 kB among 1000 others."""
    folders.mkdir()
    for number in range(1000):
        (folders / f"other{number}-{number:016x}-{number:016x}.cubin").touch()
    where = cache.Cache(folder=folders, program="p", variable="V")
    made = where.add("kernel-0", ".cubin", os.urandom(300_000), is_code=False)
    begin = os.times()
    for _ in range(190):
        assert where.find("kernel-0", ".cubin", is_code=False) == made
    end = os.times()
    assert end.user + end.system - begin.user - begin.system < 1.0


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_names_are_read_once_until_the_folder_changes(
    source: Path, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile_file(source, {}, None)
    listed: list[str] = []
    names = os.listdir

    def list_names(folder: str) -> list[str]:
        if folder == str(folders):
            listed.append(folder)
        return names(folder)

    monkeypatch.setattr(os, "listdir", list_names)
    with monkeypatch.context() as patch:
        patch.setattr(dependencies, "SETTLED", 0)  # as if it was changed long ago
        for _ in range(3):
            assert compile_file(source, {}, None) == first
    assert listed == [str(folders)]
    copy = folders / first.path.name.replace(first.source_hash, "0" * cache.DIGITS)
    shutil.copy(first.path, copy)
    found = cache.Cache(folder=folders, program="a", variable="A").find(f"twice-{'0' * 16}", ".so", is_code=True)
    assert (found and found.path, len(listed)) == (copy, 2)
    for _ in range(2):  # changed just now: a further change within the same tick would not show
        cache.Cache(folder=folders, program="a", variable="A").find(f"twice-{'0' * 16}", ".so", is_code=True)
    assert len(listed) == 4


def test_folders_are_made_for_the_user_alone_and_entries_not_for_others_to_write(source: Path, folders: Path) -> None:
    before = os.umask(0)
    try:
        image = compile_file(source, {}, None)
    finally:
        os.umask(before)
    assert mode(folders) == 0o700
    assert mode(image.path) == 0o644


def plant(image: Path, name: str) -> Path:
    """Write a shared object that reports its own loading, under an entry's name with a checksum that fits."""
    code = image.parents[1] / "planted.cpp"
    code.write_text('extern "C" int twice(int x) { return 666; }\n')
    contents = compile_file(code, {}, None).path.read_bytes()
    planted = image.with_name(f"{name}-{cache.checksum_of(contents)}.so")
    planted.write_bytes(contents)
    return planted


@pytest.mark.once
@pytest.mark.parametrize("folder_mode", [0o700, 0o1777, 0o777])
@pytest.mark.parametrize("rights", ["everybody writes", "the group writes", "another user's"])
def test_what_another_user_could_have_written_is_not_loaded(source: Path, folder_mode: int, rights: str) -> None:
    image = compile_file(source, {}, None)
    planted = plant(image.path, f"twice-{image.source_hash}")
    image.path.unlink()
    if rights == "another user's":
        if not AS_ROOT:
            pytest.skip("only root can give a file away: run as root to test it")
        os.chown(planted, NOBODY, NOBODY)
    elif rights == "the group writes":
        if not AS_ROOT:
            pytest.skip("only root can give a file to any group: run as root to test it")
        os.chown(planted, -1, NOBODY)
        planted.chmod(0o664)
    else:
        planted.chmod(0o666)
    planted.parent.chmod(folder_mode)
    again = twice(source)
    assert again.path != planted
    (note,) = cache_notes()
    if folder_mode == 0o777:  # others can replace any file of it between the check and the loading
        assert again.path.parent != planted.parent
        assert mode(again.path.parent) == 0o700
        assert f"{planted.parent} can be written by everybody" in note
        assert f"`chmod go-w {planted.parent}`" in note
    else:
        assert f"{planted} is not used: it " in note
        assert "remove it" in note


def test_a_private_group_may_write(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group may write where it has the user's name and no other member, as with a umask of 002."""
    image = compile_file(source, {}, None)
    image.path.chmod(0o664)
    image.path.parent.chmod(0o775)
    monkeypatch.setattr(cache, "_is_private_group", lambda group: True)
    assert twice(source) == image
    assert cache_notes() == []
    monkeypatch.setattr(cache, "_is_private_group", lambda group: False)
    assert cache.distrust(image.path.stat()) == "can be written by its group"


def test_which_groups_are_private() -> None:
    import grp  # noqa: PLC0415
    import pwd  # noqa: PLC0415

    name = pwd.getpwuid(os.geteuid()).pw_name
    for group in grp.getgrall():
        assert cache._is_private_group(group.gr_gid) == (group.gr_name == name and set(group.gr_mem) <= {name})
    assert not cache._is_private_group(2**31 - 7)


@pytest.fixture
def read_only(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache that cannot be written. Root may write anywhere, so for root the system's answer is imitated."""
    folders.mkdir()
    folders.chmod(0o555)
    if AS_ROOT:
        write = cache.write_entry

        def refuse(folder: Path, *arguments: object) -> Path:
            if folder == folders:
                raise OSError(30, "Read-only file system", str(folder))
            return write(folder, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(cache, "write_entry", refuse)
    yield folders
    folders.chmod(0o755)


def test_a_read_only_cache_that_lacks_something_is_helped_out_with_a_private_one(source: Path, read_only: Path) -> None:
    image = twice(source)
    assert image.path.parent == Path(tempfile.gettempdir(), f"warpwatch-{os.geteuid()}")
    assert mode(image.path.parent) == 0o700
    (note,) = cache_notes()
    assert f"{read_only} cannot be written" in note
    assert str(image.path.parent) in note
    when = image.path.stat().st_mtime_ns
    assert twice(source) == image
    assert image.path.stat().st_mtime_ns == when, "it was made twice"


def test_a_private_folder_that_another_user_made_is_refused(source: Path, read_only: Path) -> None:
    place = Path(tempfile.gettempdir(), f"warpwatch-{os.geteuid()}")
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(CompileError, match=rf"{place} is not a folder of the user's alone; remove it"):
        compile_file(source, {}, None)


def test_a_cache_that_cannot_be_written_at_all_is_one_sentence(source: Path, folders: Path) -> None:
    folders.write_text("a file")
    with pytest.raises(CompileError, match=rf"{folders} cannot be written: .*WARPWATCH_CACHE"):
        compile_file(source, {}, None)


# The software device's own.


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a small driver and the stand-in for nvcc."""
    (tmp_path / "sources" / "device").mkdir(parents=True)
    (tmp_path / "sources" / "device" / "driver.cpp").write_text("int driver;\n")
    shutil.copytree(ROOT / "softcuda" / "compiling", tmp_path / "sources" / "compiling")
    monkeypatch.setattr(softcuda, "HERE", tmp_path / "sources")
    softcuda.build(tmp_path / "built")
    softcuda.stand_in(tmp_path / "built")
    return tmp_path / "built"


def test_a_damaged_driver_is_built_anew(built: Path) -> None:
    library = softcuda.build(built)
    whole = library.read_bytes()
    library.write_bytes(whole[:-1])
    assert softcuda.build(built).read_bytes() == whole
    assert any(f"{library} is damaged" in note for note in cache_notes())


def test_a_driver_that_others_could_have_written_is_not_loaded(built: Path) -> None:
    library = softcuda.build(built)
    library.write_bytes(b"planted")
    library = library.rename(library.with_name(f"{library.name[:-19]}{cache.checksum_of(b'planted')}.so"))
    library.chmod(0o666)
    assert softcuda.build(built) != library
    assert any(f"{library} is not used" in note for note in cache_notes())


def test_a_damaged_stand_in_is_made_anew(built: Path) -> None:
    program = softcuda.stand_in(built)
    program.write_text("#!/bin/sh\necho planted\n")
    said = subprocess.run([softcuda.stand_in(built), "--version"], capture_output=True, text=True, check=True)
    assert "stand-in of softcuda" in said.stdout


def test_processes_that_lack_the_same_build_wait_for_one_of_them(tmp_path: Path) -> None:
    begun = []

    def make() -> tuple[bytes, Dependencies]:
        begun.append(time.monotonic())
        time.sleep(0.3)
        return b"built", NOTHING

    def ask(_: int) -> Path:
        return softcuda._kept(tmp_path, "made", ".so", b"key", make)

    with ThreadPoolExecutor(3) as pool:
        found = set(pool.map(ask, range(3)))
    assert len(begun) == 1
    assert found.pop().read_bytes().startswith(b"built")
    assert not found
    assert not list(tmp_path.glob("*.lock"))


def test_a_build_that_fails_is_tried_by_the_next(tmp_path: Path) -> None:
    def fail() -> tuple[bytes, Dependencies]:
        raise softcuda.BuildError("no compiler")

    with pytest.raises(softcuda.BuildError, match="no compiler"):
        softcuda._kept(tmp_path, "made", ".so", b"key", fail)
    built = softcuda._kept(tmp_path, "made", ".so", b"key", lambda: (b"built", NOTHING))
    assert built.read_bytes() == b"built"
