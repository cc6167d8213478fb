"""Tests that one run at a time measures on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checkout import Bench
from warpwatch.plugin.locks import GpuBusy, take

HOLD = """
import sys
from pathlib import Path
from warpwatch.plugin.locks import take
held = take(sys.argv[1], sys.argv[1], 0.0, print, Path(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def hold(name: str, folder: Path, run: str = "") -> subprocess.Popen[str]:
    """Hold a lock in another process, until its input ends. ``run``: the run of xdist that it belongs to."""
    command = [sys.executable, "-c", HOLD, name, str(folder)]
    environment = os.environ | {"PYTEST_XDIST_TESTRUNUID": run}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def test_another_run_is_named_and_not_waited_for_longer_than_asked(tmp_path: Path) -> None:
    said: list[str] = []
    with hold("GPU-1", tmp_path) as other:
        with pytest.raises(GpuBusy, match=rf"\(process {other.pid}, since .*measures on GPU GPU-1"):
            take("GPU GPU-1", "GPU-1", 0.5, said.append, tmp_path)
        take("GPU GPU-2", "GPU-2", 0.0, said.append, tmp_path).close()  # another GPU is free
        assert len(said) == 1
        assert said[0].startswith("waiting for GPU GPU-1, on which ")
        other.kill()  # however it ends
        other.wait()
        take("GPU GPU-1", "GPU-1", 5.0, said.append, tmp_path).close()
    assert (tmp_path / "warpwatch-GPU-1.lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.slow
def test_a_run_goes_on_when_the_other_has_ended(tmp_path: Path) -> None:
    with hold("GPU-1", tmp_path) as other:
        assert other.stdin
        begin = time.monotonic()
        with subprocess.Popen(["sh", "-c", f"sleep 0.5; kill {other.pid}"]):
            take("GPU GPU-1", "GPU-1", 20.0, print, tmp_path).close()
        assert 0.3 < time.monotonic() - begin < 15


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warpwatch-GPU-1.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="warpwatch-GPU-1"):
        take("GPU GPU-1", "GPU-1", 0.0, print, tmp_path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_a_benchmark_waits_for_another_users_run(tmp_path: Path) -> None:
    checkout = Bench(tmp_path / "checkout")
    with hold("GPU-1", tmp_path) as other:
        done = checkout.bench("--gpu-wait=0", locks=str(tmp_path))
        assert done.returncode == 4
        assert f"(process {other.pid}" in done.stderr
        assert not checkout.saved
        other.kill()
    done = checkout.bench("--gpu-wait=0", locks=str(tmp_path))
    assert done.returncode == 0


def test_a_process_does_not_wait_for_another_one_of_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes of xdist begin when all have collected their tests, so that the wait would never end."""
    monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", "abc123")
    with hold("GPU-1", tmp_path, "abc123") as other:
        with pytest.raises(GpuBusy, match="give each process of this run a GPU of its own"):
            take("GPU GPU-1", "GPU-1", 600.0, print, tmp_path)
        other.kill()


@pytest.mark.slow
def test_runs_on_several_gpus_come_one_after_another(tmp_path: Path) -> None:
    """Each of two could hold a GPU that the other waits for."""
    checkout = Bench(tmp_path / "checkout")
    with hold("several-gpus", tmp_path) as other:
        done = checkout.bench("-n", "2", "--gpu-wait=0", gpus=2, locks=str(tmp_path))
        assert done.returncode == 4
        assert f"(process {other.pid}" in done.stderr
        assert "measures on several GPUs" in done.stderr
        other.kill()
