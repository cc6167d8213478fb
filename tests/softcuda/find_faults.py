"""Who finds the faults of bad_kernels/: the suite on the software device, the suite on a GPU, compute-sanitizer.

And who finds those of public_faults/, which public repositories had: there the comparison is with the corrected twin.

python -m tests.softcuda.find_faults measure FILE    # on a machine with a GPU and compute-sanitizer; five minutes
python -m tests.softcuda.find_faults measure FILE NAME ...  # these kernels alone, into a record of the same machine
python -m tests.softcuda.find_faults table FILE      # the tables of softcuda/README.md and docs/softcuda.md
python -m tests.softcuda.find_faults run NAME        # one kernel on the GPU, in this process, for a tool to watch

One of public_faults/ also as ``run NAME gpu fixed``, its corrected twin, or ``run NAME software``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernels import FAMILIES
from tests.project import PROJECT, ROOT
from tests.softcuda import calls
from tests.softcuda.faults_of_others import PUBLIC_FAULTS, PublicFault
from warpwatch.arguments import SANITIZER_TOOLS
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.devices.compile.compiler import Image, compile_file
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import Settings, open_device
from warpwatch.devices.runner import run_several
from warpwatch.devices.sanitizer import find_program
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.plugin.fixtures import assert_right

FOLDER = ROOT / "tests" / "softcuda" / "bad_kernels"
RECORD = FOLDER / "found.json"
TOOLS = SANITIZER_TOOLS
# What a tool looks for only where it is asked to, in the releases whose --help lists the option: races that end in a
# deadlock (after so many milliseconds), and uninitialised shared memory.
OPTIONS = {
    "racecheck": ("--racecheck-deadlock-timeout", "5000"),
    "initcheck": ("--initcheck-address-space", "all"),
}
SECONDS = 1.0  # that a launch may take
PATIENCE = 40.0  # that a tool may take
PROCESSES = 14  # at a time


@dataclass(frozen=True)
class BadKernel:
    """A kernel with one planted fault. ``wanted`` is a pattern for what the software device must say."""

    path: Path
    what: str
    wanted: str
    case: Case

    @property
    def name(self) -> str:
        return self.path.stem


def read_kernel(path: Path) -> BadKernel:
    """A bad kernel as its header describes it. Raises ValueError where that is not as those of its neighbours."""
    header = re.match(
        r"// (?P<what>.*)\n// Must be found: (?P<wanted>.*)\n// Case: (?P<case>\S+)\n\n", path.read_text()
    )
    if not header:
        raise ValueError(f"{path}: its first lines are not: what it is, 'Must be found: <pattern>', 'Case: <id>'")
    return BadKernel(path, header["what"], header["wanted"], find_case(FAMILIES, header["case"]))


BAD_KERNELS = [read_kernel(path) for path in sorted(FOLDER.glob("*.cu"))]


def compile_bad(kernel: BadKernel, worker: Worker) -> Image:
    return compile_file(kernel.path, kernel.case.build.all_macros, worker.call(describe_device).target)


def found(kernel: BadKernel, worker: Worker) -> str:
    """What the suite's own check says of a kernel, or nothing where it is content."""
    loaded = Kernel(worker, kernel.case.build, compile_bad(kernel, worker))
    try:
        assert_right(loaded, kernel.case, kernel.name, exact=True)
    except (DeviceError, pytest.fail.Exception) as finding:
        return str(finding)
    return ""


def found_of_others(fault: PublicFault, kind: str) -> str:
    """What a launch or a comparison with the corrected twin says of a kernel of public_faults/, or nothing.

    ``kind``: of device. Each launch has a process of its own, which a fault on a GPU may take along or hold up.
    """
    left, right = (in_own_process(fault.name, kind, *options) for options in ((), ("fixed",)))
    if not re.fullmatch(r"[0-9a-f]+", left):
        return left
    return "" if left == right else "the result is not that of the corrected twin"


def in_own_process(name: str, kind: str, *options: str) -> str:
    """What a kernel of public_faults/ leaves in its array, in hexadecimal, or what is said of its launch."""
    command = [sys.executable, "-m", "tests.softcuda.find_faults", "run", name, kind, *options]
    try:
        output, errors = ended(command)
    except subprocess.TimeoutExpired:
        return "the launch does not end"
    return output.strip() or errors[-2000:]


def ended(command: Sequence[str]) -> tuple[str, str]:
    """Run a command and return its output and its errors.

    Raises TimeoutExpired after PATIENCE; then the processes that it started are killed too, because a kernel that
    never ends would share the GPU with all that comes after.
    """
    done = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        return done.communicate(timeout=PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(done.pid, signal.SIGKILL)
        done.wait()


def run_here(name: str, kind: str = "gpu", *, fixed: bool = False) -> None:
    """One kernel on the GPU, in bare memory: guard bands would hide from a tool where an array ends."""
    device = open_device(Settings(kind=kind, launch_timeout=PATIENCE / 2))
    device.finds_faults = True
    for fault in PUBLIC_FAULTS:
        if fault.name == name:
            image = compile_file(fault.path, {"FIXED": "1"} if fixed else {}, device.info.target)
            block, grid = (fault.threads, 1, 1), (fault.blocks, 1)
            return print(calls.left_here(image.path, name, block, grid, 4 * fault.ints))
    kernel = next(k for k in BAD_KERNELS if k.name == name)
    image = compile_file(kernel.path, kernel.case.build.all_macros, device.info.target)
    try:
        next(run_several(device, kernel.case, image.path, [exact_inputs(kernel.case, 0)], 1))
    except DeviceError as error:
        print(error)


def options_of_the_tools(manual: str) -> dict[str, tuple[str, ...]]:
    """The options that each tool is given, of those that a release's --help lists."""
    known = set(re.findall(r"^ +(--[\w-]+)", manual, re.MULTILINE))
    return {tool: option for tool, option in OPTIONS.items() if option[0] in known}


def ask_tool(name: str, tool: str, options: Sequence[str]) -> str:
    """The first thing that a tool of compute-sanitizer finds in a kernel, or nothing."""
    command = [find_program(), "--tool", tool, *options, "--print-limit", "1"]
    command += [sys.executable, "-m", "tests.softcuda.find_faults", "run", name]
    try:
        output, errors = ended(command)
    except subprocess.TimeoutExpired:
        return ""
    total = re.search(r"SUMMARY: (\d+)", output)
    if not total:
        raise RuntimeError(f"{' '.join(command)} has no summary:\n{output[-2000:]}{errors[-2000:]}")
    first = re.search(r"========= ((?!COMPUTE-SANITIZER|Program hit|Target).+)", output)
    return first[1].strip() if first and int(total[1]) else ""


def measure(file: Path, names: Sequence[str] = ()) -> None:
    """Fill the record: the software device, the GPU with and without each tool.

    ``names``: the kernels whose rows are measured, and replaced in the record that ``file`` holds; none for all.
    """
    before = read_record(file) if names else {}
    bad = [kernel for kernel in BAD_KERNELS if not names or kernel.name in names]
    public = [fault for fault in PUBLIC_FAULTS if not names or fault.name in names]
    rows: dict[str, dict[str, str]] = {name: {} for name in [*(k.name for k in bad), *(f.name for f in public)]}
    if unknown := set(names) - rows.keys():
        sys.exit(f"no kernel of bad_kernels/ or public_faults/: {', '.join(sorted(unknown))}")
    for column, kind in (("softcuda", "software"), ("comparison", "gpu")):
        with ThreadPoolExecutor(PROCESSES) as pool:
            said = pool.map(functools.partial(found_of_others, kind=kind), public)
            for fault, words in zip(public, said, strict=True):
                rows[fault.name][column] = words.replace(str(ROOT) + "/", "")
        worker = Worker(PROJECT, Settings(kind=kind, launch_timeout=SECONDS))
        for kernel in bad:
            rows[kernel.name][column] = found(kernel, worker).replace(str(ROOT) + "/", "")
        machine = worker.call(describe_device)
        print(f"{machine.name}: {sum(bool(row[column]) for row in rows.values())} of {len(rows)}", flush=True)
        worker.stop()
    options = options_of_the_tools(say("--help"))
    ask_all_tools(rows, options)
    release = re.search(r"Version (\S+)", say("--version"))
    record: dict[str, object] = {
        "gpu": machine.name,
        "cuda": machine.driver,
        "sanitizer": release[1] if release else "",
        "options": {tool: list(words) for tool, words in options.items()},
    }
    for name, value in record.items() if before else ():
        if before[name] != value:
            sys.exit(f"{file}: its {name} is {before[name]!r} and here {value!r}: measure all kernels")
    for part, kernels in (("found", bad), ("public", public)):
        record[part] = before.get(part, {}) | {kernel.name: rows[kernel.name] for kernel in kernels}
    file.write_text(json.dumps(record, indent=1) + "\n")


def read_record(file: Path) -> dict[str, Any]:
    """Return the record that a file holds."""
    record: dict[str, Any] = json.loads(file.read_text())
    return record


def ask_all_tools(rows: Mapping[str, dict[str, str]], options: Mapping[str, tuple[str, ...]]) -> None:
    """Fill the columns of compute-sanitizer's tools."""
    jobs = [(name, tool, options.get(tool, ())) for tool in TOOLS for name in rows]
    with ThreadPoolExecutor(PROCESSES) as pool:
        for (name, tool, _), answer in zip(jobs, pool.map(lambda job: ask_tool(*job), jobs), strict=True):
            rows[name][tool] = answer


def say(option: str) -> str:
    """What compute-sanitizer prints for --help or --version."""
    return subprocess.run([find_program(), option], capture_output=True, text=True, check=True).stdout


def together(found: Mapping[str, Mapping[str, str]], columns: Iterable[str]) -> int:
    """How many of the kernels at least one of these columns found."""
    wanted = tuple(columns)
    return sum(any(row[column] for column in wanted) for row in found.values())


def table(record: Path, part: str = "found") -> str:
    """The record as Markdown: a row a kernel, a column each for whoever looked, and how many each found.

    ``part``: "found" for bad_kernels/, "public" for public_faults/, which records before 2026-11 have not.
    """
    read = json.loads(record.read_text())
    columns = ("softcuda", "comparison", *TOOLS)
    lines = [
        f"| fault | softcuda | comparison on {read['gpu']} | {' | '.join(TOOLS)} |",
        "|---|" + ":-:|" * len(columns),
    ]
    found = read[part]
    for name in sorted(found):
        marks = " | ".join("found" if found[name][column] else "" for column in columns)
        lines.append(f"| {name.replace('_', ' ')} | {marks} |")
    counts = [together(found, [column]) for column in columns]
    lines.append(f"| of {len(found)} | " + " | ".join(f"**{count}**" for count in counts) + " |")
    tools, all_of_them = together(found, TOOLS), together(found, ("comparison", *TOOLS))
    lines += ["", f"The four tools together find {tools}, and with the comparison {all_of_them}."]
    beyond = [
        name.replace("_", " ") for name, row in found.items() if together({name: row}, TOOLS) and not row["softcuda"]
    ]
    lines[-1] += f" What a tool finds and softcuda does not: {', '.join(beyond) or 'nothing'}."
    return "\n".join(lines)


def main() -> None:
    match sys.argv[1:]:
        case ["run", name]:
            run_here(name)
        case ["run", name, kind]:
            run_here(name, kind)
        case ["run", name, kind, "fixed"]:
            run_here(name, kind, fixed=True)
        case ["measure", file, *names]:
            measure(Path(file), names)
        case ["table", file]:
            print(table(Path(file)))
            if "public" in json.loads(Path(file).read_text()):
                print("\n" + table(Path(file), "public"))
        case _:
            sys.exit(__doc__)
    sys.stdout.flush()
    os._exit(0)  # PyCUDA aborts at the interpreter's own end when a context is left


if __name__ == "__main__":
    main()
