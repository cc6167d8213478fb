"""Tests that an output that a user names is written whole, and that nothing but an ordinary file is replaced."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from softcuda.compiling.outputs import write_whole
from tests.project import ROOT

KERNEL = 'extern "C" __global__ void f(float* x) { *x = 1; }\n'


def pipe_with_reader(path: Path, got: list[bytes]) -> threading.Thread:
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    return reader


def written(path: Path, content: bytes) -> None:
    """Write an output, as often as it takes until a reader that was just started has opened it."""
    for _ in range(1000):
        try:
            return write_whole(path, content)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            threading.Event().wait(0.01)
    raise AssertionError("nobody reads")


@pytest.mark.parametrize("linked", [False, True], ids=["by its name", "by a link"])
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path, linked: bool) -> None:
    pipe, link, got = tmp_path / "pipe", tmp_path / "link", list[bytes]()
    link.symlink_to(pipe)
    reader = pipe_with_reader(pipe, got)
    written(link if linked else pipe, b"x" * 200_000)  # more than a pipe holds
    reader.join(10)
    assert got == [b"x" * 200_000]
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_a_pipe_that_nobody_reads_is_an_error_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no process reads this pipe") as caught:
        write_whole(tmp_path / "pipe", b"x")
    assert caught.value.filename == str(tmp_path / "pipe")


def node(path: Path, minor: int) -> Path:
    """Make a device file of our own, as /dev/null (3) or /dev/full (7): the machine's own is never put at risk."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        path.open("wb").close()
    except PermissionError:
        pytest.skip("only root can make device files here")
    return path


def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    null = node(tmp_path / "null", 3)
    write_whole(null, b"x")
    assert null.is_char_device()
    full = node(tmp_path / "full", 7)
    with pytest.raises(OSError, match="No space left on device"):
        write_whole(full, b"x")
    assert full.is_char_device()
    (tmp_path / "k.cu").write_text(KERNEL)
    done = nvcc(tmp_path, "-cubin", "-arch=sm_90", "-o", "null", "k.cu")
    assert done.returncode == 0, done.stderr
    assert null.is_char_device()
    assert sorted(os.listdir(tmp_path)) == ["full", "k.cu", "null"]


def nvcc(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-S", str(ROOT / "softcuda" / "compiling" / "nvcc"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_open_file_goes_on_where_it_is(tmp_path: Path, name: str) -> None:
    code = (
        "import os, sys; os.write(1, b'before '); sys.path.insert(0, sys.argv[1]); import outputs\n"
        "outputs.write_whole(sys.argv[2], b'written '); os.write(1, b'after')"
    )
    command = [sys.executable, "-c", code, str(ROOT / "softcuda" / "compiling"), name]
    with (tmp_path / "file").open("wb") as file:
        subprocess.run(command, stdout=file, check=True)
    assert (tmp_path / "file").read_text() == "before written after"
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"before written after"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_leads_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "new").symlink_to("made")
    write_whole(tmp_path / "link", "after")
    write_whole(tmp_path / "new", "after")
    assert (tmp_path / "real").read_text() == (tmp_path / "made").read_text() == "after"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new").is_symlink()


def test_permissions_and_owner_of_a_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    if os.geteuid() == 0:
        os.chown(path, 4711, 4712)
    path.chmod(0o640)
    before = path.stat()
    write_whole(path, "after")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert path.read_text() == "after"


def test_a_new_file_has_the_permissions_that_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_file_that_cannot_be_replaced_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is mounted by itself into a container, or whose owner is another user."""
    path = tmp_path / "file"
    path.write_text("a longer text")

    def busy(self: Path, target: Path) -> Path:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(Path, "replace", busy)
    write_whole(path, "short")
    assert path.read_text() == "short"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_leaves_the_file_of_before_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import outputs, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "outputs.write_whole('file', b'x' * 100_000)"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(ROOT / "softcuda" / "compiling")],
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.endswith("OSError: [Errno 27] File too large: 'file'\n")
    assert (tmp_path / "file").read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("folder", "Is a directory"),
        ("none/file", "No such file or directory"),
        ("loop", "Too many levels of symbolic links"),
        ("file/below", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(OSError, match=said):
        write_whole(tmp_path / name, "x")
    (tmp_path / "k.cu").write_text(KERNEL)
    done = nvcc(tmp_path, "-cubin", "-arch=sm_90", "-o", name, "k.cu")
    assert (done.returncode, done.stderr) == (1, f"nvcc (softcuda): {name} cannot be written: {said}\n")
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "k.cu"])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["k.cu"], "k.cubin"),
        (["-ptx", "k.cu"], "k.ptx"),
        (["--fatbin", "k.cu", "-e", "f", "-rdc", "true"], "k.fatbin"),
        (["-ptx", "-odir", "folder", "k.cu"], "folder/k.ptx"),
        (["-ptx", "--output-file=other", "k.cu"], "other"),
    ],
    ids=" ".join,
)
def test_an_output_has_the_name_that_nvcc_gives_it(tmp_path: Path, arguments: list[str], name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "k.cu").write_text(KERNEL)
    done = nvcc(tmp_path, "-arch=sm_90", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    (written,) = (path for path in tmp_path.rglob("*") if path.is_file() and path.name != "k.cu")
    assert written == tmp_path / name


@pytest.mark.parametrize("option", ["-c", "-dc", "--lib", "-optix-ir"])
def test_an_output_that_it_does_not_make_is_refused(tmp_path: Path, option: str) -> None:
    (tmp_path / "k.cu").write_text(KERNEL)
    done = nvcc(tmp_path, option, "k.cu")
    said = f"nvcc (softcuda): {option}: it writes images alone, by -cubin, -ptx or -fatbin\n"
    assert (done.returncode, done.stderr, os.listdir(tmp_path)) == (1, said, ["k.cu"])
