"""Tries what confines processes on this machine, and CUDA in them: ``python -m tools.confinement``.

Prints what a process is not kept from here, and then a table: whether CUDA starts in one with a /dev/shm of its own and
in one without, and whether it opens memory of this process by ``cuIpcOpenMemHandle`` and by a file descriptor
(``cuMemImportFromShareableHandle``). Without a GPU it prints no table.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from tools import shared_memory
from tools.shared_memory import Driver
from warpwatch.catalogue.leaving import end_now
from warpwatch.devices.foreign.confinement import Confined

VALUE, ANSWER = 4242, 2424  # what this process writes, and the other one
SECONDS = 60


def describe() -> None:
    """Print what a process is not kept from."""
    print("a confined process is not kept from this:")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        program = Path(folder, "nothing.py")
        program.touch()
        process = Confined(program, [], Path(folder), output)
        print(*(f"  {sentence}" for sentence in process.missing or ["nothing"]), sep="\n")
        process.end()


def row(driver: Driver, *, shares_files: bool) -> str:
    """Return a line of the table: what became of a process that has this machine's /dev/shm, or one of its own."""
    (plain, handle), (mapped, descriptor, size) = driver.allocated(), driver.exported()
    for address in (plain, mapped):
        driver.write(address, VALUE)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        words = [handle, *map(str, (descriptor, size, VALUE, ANSWER))]
        program = Path(shared_memory.__file__)
        process = Confined(program, words, Path(folder), output, [descriptor], shares_files=shares_files)
        has_ended = process.has_ended(SECONDS, lambda: False)
        process.end()
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    os.close(descriptor)
    starts, *opens = lines if len(lines) == 3 else [*(lines[-1:] or ["died"]), "-", "-"]
    back = [driver.read(address) == ANSWER for address in (plain, mapped)]
    cells = [f"{cell}, and back" if cell == "yes" and seen else cell for cell, seen in zip(opens, back, strict=True)]
    name = "this machine's" if shares_files else "its own"
    seconds = f"{time.monotonic() - begin:.1f} s" if has_ended else f"killed after {SECONDS} s"
    return f"| {name} | {starts} | {cells[0]} | {cells[1]} | {seconds} |"


def main() -> None:
    print(f"Linux {platform.release()}, user {os.geteuid()}, Python {platform.python_version()}")
    describe()
    try:
        driver = Driver()
    except (OSError, RuntimeError) as error:
        sys.exit(f"no table, because CUDA does not start here: {error}")
    print("| /dev/shm | CUDA starts | IPC handle | file descriptor | time |\n|---|---|---|---|---|")
    for shares_files in (False, True):
        print(row(driver, shares_files=shares_files), flush=True)
    sys.stdout.flush()
    end_now(0)  # without the interpreter's own exit, while others may still hold this memory


if __name__ == "__main__":
    main()
