"""Tries what confines processes on this machine, and CUDA in them: ``python -m tools.confinement``.

Prints what a process that shares no GPU memory and one that does are not kept from here, and then a table: for each set
of namespaces that a process may stay in, whether CUDA starts in it, and whether it opens memory of this process by
``cuIpcOpenMemHandle`` and by a file descriptor (``cuMemImportFromShareableHandle``). Without a GPU it prints no table.
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
from warpwatch.devices.foreign import confinement
from warpwatch.devices.foreign.confined_process import IPC, NETWORK, PID
from warpwatch.devices.foreign.confinement import Confined

SHARED = ((), (IPC,), (NETWORK, IPC), (PID,), (PID, IPC), (PID, NETWORK), (PID, NETWORK, IPC))
VALUE, ANSWER = 4242, 2424  # what this process writes, and the other one
SECONDS = 60


def describe(*, shares_memory: bool) -> None:
    """Print what a process is not kept from."""
    print(f"a process that shares {'GPU memory' if shares_memory else 'no GPU memory'} is not kept from this:")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        program = Path(folder, "nothing.py")
        program.touch()
        process = Confined(program, [], Path(folder), output, shares_memory=shares_memory)
        print(*(f"  {sentence}" for sentence in process.missing or ["nothing"]), sep="\n")
        process.end()


def row(driver: Driver, shared: tuple[str, ...]) -> str:
    """Return a line of the table: what became of a process that stays in these namespaces."""
    confinement.SHARED_WITH_MEMORY = shared
    (plain, handle), (mapped, descriptor, size) = driver.allocated(), driver.exported()
    for address in (plain, mapped):
        driver.write(address, VALUE)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        words = [handle, *map(str, (descriptor, size, VALUE, ANSWER))]
        program = Path(shared_memory.__file__)
        process = Confined(program, words, Path(folder), output, [descriptor], shares_memory=True)
        has_ended = process.has_ended(SECONDS, lambda: False)
        process.end()
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    os.close(descriptor)
    starts, *opens = lines if len(lines) == 3 else [*(lines[-1:] or ["died"]), "-", "-"]
    back = [driver.read(address) == ANSWER for address in (plain, mapped)]
    cells = [f"{cell}, and back" if cell == "yes" and seen else cell for cell, seen in zip(opens, back, strict=True)]
    name = ", ".join(each.removesuffix(" namespace") for each in shared) or "none"
    seconds = f"{time.monotonic() - begin:.1f} s" if has_ended else f"killed after {SECONDS} s"
    return f"| {name} | {starts} | {cells[0]} | {cells[1]} | {seconds} |"


def main() -> None:
    print(f"Linux {platform.release()}, user {os.geteuid()}, Python {platform.python_version()}")
    describe(shares_memory=False)
    describe(shares_memory=True)
    try:
        driver = Driver()
    except (OSError, RuntimeError) as error:
        sys.exit(f"no table, because CUDA does not start here: {error}")
    print("| stays in | CUDA starts | IPC handle | file descriptor | time |\n|---|---|---|---|---|")
    for shared in SHARED:
        print(row(driver, shared), flush=True)
    sys.stdout.flush()
    end_now(0)  # without the interpreter's own exit, while others may still hold this memory


if __name__ == "__main__":
    main()
