from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from warpwatch.devices.file_lock import open_lock_file, take_lock


@pytest.mark.parametrize("shared", [(False, False), (False, True), (True, False), (True, True)])
def test_a_lock_is_refused_while_another_is_held_unless_both_are_shared(
    tmp_path: Path, shared: tuple[bool, bool]
) -> None:
    first, second = (open_lock_file(tmp_path / "lock") for _ in range(2))
    assert take_lock(first, shared=shared[0], seconds=0)
    assert take_lock(second, shared=shared[1], seconds=0) == all(shared)
    os.close(first)
    assert take_lock(second, shared=shared[1], seconds=0)
    os.close(second)


@pytest.mark.slow
def test_a_lock_is_waited_for_until_the_limit(tmp_path: Path) -> None:
    first, second = (open_lock_file(tmp_path / "lock") for _ in range(2))
    refusals: list[float] = []
    assert take_lock(first)
    begin = time.monotonic()
    assert not take_lock(second, seconds=0.3, waiting=lambda: refusals.append(time.monotonic()))
    assert time.monotonic() - begin >= 0.3
    assert len(refusals) >= 2
    threading.Timer(0.2, os.close, [first]).start()
    assert take_lock(second, seconds=60)
    os.close(second)


def test_what_is_called_while_waiting_may_end_it(tmp_path: Path) -> None:
    first, second = (open_lock_file(tmp_path / "lock") for _ in range(2))
    assert take_lock(first)
    with pytest.raises(ZeroDivisionError):
        take_lock(second, waiting=lambda: 1 / 0)
    os.close(first)
    os.close(second)


def test_a_lock_file_has_its_permissions_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        os.close(open_lock_file(tmp_path / "lock", 0o666))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o666


def test_a_lock_file_is_not_opened_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        open_lock_file(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()
