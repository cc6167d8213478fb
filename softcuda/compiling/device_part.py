"""Compiles the device code of a file for a GPU, without the host code that nvcc cannot compile here.

``device_part.py FOLDER OUTPUT SOURCE NVCC FLAG...``: nvcc preprocesses the source, what host_code.py sets aside goes
from that text, as it does for softcuda, and nvcc compiles the rest as it is (-fpreprocessed; nvcc 13.0 with g++).
Lines stay where they are. Ends with NOTHING where there is nothing to set aside, and with UNREAD where there is nothing
to read it with.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import headers
import host_code
import messages
import reader

NOTHING, UNREAD = 3, 4  # exit statuses
MARK = re.compile(rf"__attribute__\(\(({reader.MARKS})\)\)")
PHASES = {"-cubin", "--cubin", "-ptx", "--ptx", "-fatbin", "--fatbin"}  # flags that -E cannot stand beside


def main() -> int:
    sys.stderr.reconfigure(errors="surrogateescape")
    folder, output, source, *nvcc = sys.argv[1:]
    host = host_code.Host(
        trap="{ __trap(); }", instance="static inline void warpwatch_instance{number}() {{ (void)&{instance}; }}"
    )
    try:
        text = preprocessed(Path(folder), Path(source), nvcc, host)
        return compile_part(text, Path(folder), Path(source), [*nvcc, "-o", output], host)
    except reader.NoReader as error:
        sys.stderr.write(f"host code cannot be set aside: {error}\n")
        return UNREAD
    except messages.BadKernel as error:
        sys.stderr.write(f"{error}\n{headers.notes(host.missing)}")
        return 1


def preprocessed(folder: Path, source: Path, nvcc: list[str], host: host_code.Host) -> str:
    """Return what nvcc preprocesses of a source for a device. Raises BadKernel."""
    path, place = folder / "preprocessed", folder / headers.FOLDER
    place.mkdir(parents=True)
    flags = [flag for flag in nvcc if flag not in PHASES]

    def preprocess(*more: str) -> str:
        run([*flags, "-E", "-Xcompiler", ",".join([f"-idirafter,{place}", *more]), str(source), "-o", str(path)])
        return path.read_text(errors="surrogateescape")

    stand_ins = headers.StandIns(folder=place, flags=flags, missing=host.missing)
    written = source.read_text(errors="surrogateescape")
    return stand_ins.preprocessed(preprocess, written, source)


def compile_part(text: str, folder: Path, source: Path, nvcc: list[str], host: host_code.Host) -> int:
    """Compile a preprocessed source without its host code. Returns the exit status. Raises BadKernel."""
    begin = beginning(text, source)
    if begin < 0:
        return NOTHING
    unit = reader.Unit(text, begin, len(text), headers.of_others(text))
    part = folder / source.with_suffix(".cu").name
    while True:
        rest = host_code.device_part(unit, host)
        if rest == text and not any((folder / headers.FOLDER).iterdir()):
            return NOTHING
        part.write_text(rest, errors="surrogateescape")
        try:
            run([*nvcc, "-Xcompiler", "-fpreprocessed", str(part)])
            return 0
        except messages.BadKernel as error:
            if not host.learn(str(error)):
                errors = (host.complaint or str(error)).replace(str(part), str(source)).split("\n")
                noted = "\n".join(each for line in errors for each in (line, *messages.notes(line, host.names)))
                raise messages.BadKernel(noted) from error


def beginning(text: str, source: Path) -> int:
    """Return where the source begins, behind the headers that nvcc includes by itself; -1 if that is nowhere."""
    return text.find(f'\n# 1 "{source}"\n', text.rfind('"<command-line>" 2\n'))


def run(command: list[str]) -> None:
    """Run nvcc, and hand on what it says of where it reads. Raises BadKernel."""
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False)
    if done.returncode:
        raise messages.BadKernel(as_written(done.stdout + done.stderr))
    sys.stderr.write(done.stdout + done.stderr)


def as_written(errors: str) -> str:
    """Return errors with __global__ for __attribute__((global)), and what marks a column below it moved with that."""
    lines = errors.split("\n")
    for number, line in enumerate(lines):
        plain = MARK.sub(r"__\1__", line)
        if plain != line and number + 1 < len(lines) and lines[number + 1].strip() == "^":
            column = lines[number + 1].index("^")
            lines[number + 1] = " " * len(MARK.sub(r"__\1__", line[:column])) + "^"
        lines[number] = plain
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
