"""Launches kernels once more under NVIDIA's compute-sanitizer, and reads what its tools find.

Each tool watches a worker process of its own. A tool has written all findings of a launch to its log when the host has
waited for the stream (measured with 2025.3.1 on an H100), so what a log grows by belongs to what was launched last.
racecheck does not where the host waits for an event alone: launches are blocking, and the context is waited for.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.setting import Setting
from warpwatch.devices.child import Child, launch
from warpwatch.devices.compile.compiler import CompileError, compile_file, from_pypi, name_from, nvcc
from warpwatch.devices.foreign_text import plain_lines
from warpwatch.devices.gpu import Device
from warpwatch.devices.kernel import NotedLaunch
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import NoDevice, Settings
from warpwatch.devices.references import drawn
from warpwatch.devices.runner import launch_and_wait, loaded_with
from warpwatch.devices.worker import Worker, gpu

NAME = "compute-sanitizer"
LINES = "-lineinfo"  # leaves machine code as it is
SECONDS = 300.0  # limit of a launch under a tool, which is slow
MOST_BYTES = 2**28  # arrays of a case that is launched under the tools
MOST_FOUND = 100  # records of a process, after which it would be silent: so none goes on after a finding
# A finding must not end the process, and neither what the driver refuses nor what is not freed is a kernel's fault.
OPTIONS = (
    *("--destroy-on-device-error", "kernel", "--show-backtrace", "device", "--strip-paths", "no"),
    *("--demangle", "simple", "--print-limit", str(MOST_FOUND), "--force-blocking-launches"),
)
OF_TOOLS = {"memcheck": ("--report-api-errors", "no", "--leak-check", "no")}
CONTROL = Path(__file__).with_name("sanitized.cu")  # has a kernel for each tool, with a fault that it must find

RECORD = re.compile(r"^========= (?! )(?P<first>.+)(?:\n|\Z)(?P<rest>(?:=========  .+\n)*)", re.MULTILINE)
NO_FINDING = re.compile(r"COMPUTE-SANITIZER|(?:ERROR|RACECHECK|LEAK) SUMMARY")
# A frame of the stack, innermost first, or one side of a race.
FRAME = re.compile(
    r"(?:(?P<access>\w+ access) at|=  +at|Device Frame:) (?P<function>.+?)\+0x[0-9a-f]+"
    r"(?: in (?P<file>[^\n]+):(?P<line>\d+))?(?P<more> \[\d+ hazards?\])?$",
    re.MULTILINE,
)
UNKNOWN = "at an unknown line"  # which reported() does not take for a place
THREAD = re.compile(r"by thread \((?P<thread>[\d,]+)\) in block \((?P<block>[\d,]+)\)")
ACCESS = re.compile(r"(?:Access to 0x\w+|and) is (?P<text>.+)")
# Words of a record, and what softcuda calls such a fault.
KINDS = {
    "Race reported": "race",
    "Uninitialized": "uninitialised memory",
    "Barrier error": "barrier error",
    "is misaligned": "misaligned access",
    "Invalid __": "out of bounds",
}


def find_program() -> str:
    """Find compute-sanitizer on the PATH, beside nvcc, or in Python packages. Raises NoDevice."""
    folders = ["/usr/local/cuda/bin"]
    with contextlib.suppress(CompileError):
        folders.insert(0, str(Path(nvcc().program).resolve().parent))
    for found in (shutil.which(NAME), *(shutil.which(NAME, path=each) for each in folders), *from_pypi(NAME)):
        if found:
            return found
    raise NoDevice(f"no {NAME}: it is in the CUDA toolkit's bin folder, and in PyPI's nvidia-cuda-sanitizer-api")


def findings(tool: str, log: str, root: Path) -> dict[tuple[str, tuple[str, ...]], str]:
    """Return what a tool has written to its log: by kind, kernel and places, the report of the first such finding."""
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for record in RECORD.finditer(plain_lines(log).expandtabs(1)):
        if not NO_FINDING.match(record["first"]):
            kind, kernel, places = _read(record, root)
            head = f"{NAME} {tool}: {kind} in {kernel}"
            key = f"{kind}\t{kernel}", tuple(place for place, _ in places)
            found.setdefault(key, "\n".join([head, *(f"  {place}: {text}" for place, text in places)]))
    return found


def _read(record: re.Match[str], root: Path) -> tuple[str, str, list[tuple[str, str]]]:
    """Return kind, kernel and places of a record, each with what happens there."""
    first, whole = record["first"], record[0]
    kind = next((kind for words, kind in KINDS.items() if words in whole), first.rstrip(".").lower())
    frames = [*FRAME.finditer(whole)]
    kernel = "".join(frames[-1]["function"].split()) if frames else "an unknown kernel"
    if kind == "race":
        return kind, kernel, [(_place(each, root), f"{each['access']}{each['more'] or ''}") for each in frames]
    own = [each for each in frames if each["file"] and not Path(_name(each["file"], root)).is_absolute()]
    who = THREAD.search(whole)
    text = "; ".join([first.rstrip("."), *(each["text"] for each in ACCESS.finditer(whole))])
    if who:
        thread, block = (who[name].replace(",", ", ") for name in ("thread", "block"))
        text = f"thread ({thread}) of block ({block}): {text}"
    return kind, kernel, [(_place(each, root), text) for each in (own or frames)[:1]] or [(UNKNOWN, text)]


def _short(head: str) -> str:
    """Return kind and kernel as ``accepted_of`` writes them: without namespace and template arguments."""
    kind, kernel = head.split("\t")
    return f"{kind}\t{re.split(r'[<(]', kernel)[0].rpartition('::')[2]}"


def _place(frame: re.Match[str], root: Path) -> str:
    return f"{_name(frame['file'], root)}:{frame['line']}" if frame["file"] else UNKNOWN


def _name(file: str, root: Path) -> str:
    """Return a file's name from the root, also where the cache has machine code of another checkout."""
    path = Path(file)
    parts = path.parts[1:]
    ends = (Path(*parts[first:]) for first in range(len(parts)))
    here = next((end for end in ends if (root / end).is_file()), None)
    return str(name_from(root, path) if path.is_relative_to(root) or not here else here)


def launch_watched(launches: Sequence[NotedLaunch]) -> list[str]:
    """Launch each once, in the child, in memory that nothing hides or writes before. Returns the errors.

    There are no guard bands, behind which a tool would not see the end of an array, and results are not read: a test
    without the tools has compared them.
    """
    device, errors = gpu(), list[str]()
    device.finds_faults = True
    for number, each in enumerate(launches):
        case = each.case
        try:
            inputs = each.inputs or drawn(case, each.seed, exact=each.exact and case.family.exact)
            with loaded_with(device, case, each.image, inputs, each.placement) as loaded:
                launch_and_wait(loaded)
                _await_log(device)
        except DeviceError as error:
            errors.append(str(error))
            if error.lost:
                later = [other.case.id for other in launches[number + 1 :]]
                return [*errors, *[f"not launched after that: {', '.join(later)}"] * bool(later)]
    return errors


def launch_control(tool: str) -> None:
    """Launch, in the child, the kernel that has a fault which a tool must find."""
    device = gpu()
    target = replace(device.info.target, flags=(*device.info.target.flags, LINES))
    function = device.load(compile_file(CONTROL, {}, target).path, tool)
    memory = device.allocate(256)
    with contextlib.suppress(DeviceError):
        device.launcher(function, Launch((1, 1, 1), (64, 1, 1)), (np.uint64(memory),))()
        device.finish()
        _await_log(device)


def _await_log(device: Device) -> None:
    """Wait until the tool has written what it found. Raises DeviceError."""
    with device.errors_of_call("waiting for the context"):
        device.context.synchronize()


class Sanitizer:
    """One tool, and the worker process that it watches. ``folder``: of its logs."""

    def __init__(self, tool: str, program: str, project: Project | Setting, settings: Settings, folder: Path) -> None:
        self.tool, self._program, self._root, self._folder = tool, program, project.root, folder
        self._log, self._read = folder, 0
        self._worker = Worker(project, replace(settings, launch_timeout=SECONDS, gpu_seen=True), self._launch)

    def _launch(self, project: Project | Setting, settings: Settings) -> Child:
        self._log, self._read = self._folder / f"{self.tool}-{self._worker.started}.log", 0
        options = (*OPTIONS, *OF_TOOLS.get(self.tool, ()), "--log-file", str(self._log))
        return launch(project, settings, under=(self._program, "--tool", self.tool, *options))

    def _news(self) -> str:
        """Return what the tool has written since this was asked last."""
        with contextlib.suppress(OSError), self._log.open(errors="replace") as log:
            log.seek(self._read)
            text = log.read()
            self._read = log.tell()
            return text
        return ""

    def refusal(self) -> str:
        """Launch a kernel with a fault that the tool must find, and say why it does not; empty where it does."""
        said = ""
        try:
            self._worker.call(launch_control, self.tool)
        except (DeviceError, NoDevice, CompileError) as error:
            said = str(error)
        except OSError as error:
            said = f"it cannot be run: {error}"
        log = plain_lines(self._news())
        self._worker.renew()  # so that the fault leaves nothing behind
        if any(CONTROL.name in place for _, places in findings(self.tool, log, self._root) for place in places):
            return ""
        lines = (line.removeprefix("=========").strip() for line in log.splitlines())
        words = [said, *(line for line in lines if line and not NO_FINDING.match(line))]
        why = "; ".join(filter(None, words)) or "it does not find the fault that is planted for it"
        return f"{NAME} --tool {self.tool} does not work here: {why}"

    def watch(self, launches: Sequence[NotedLaunch], accepted: Iterable[str] = ()) -> tuple[list[str], list[str]]:
        """Launch under the tool. Returns its findings, and the keys of those that were ``accepted``.

        A launch that fails without a finding is one, because it was not watched.
        """
        keys, errors = set(accepted), list[str]()
        try:
            errors = self._worker.call(launch_watched, launches)
        except DeviceError as error:
            errors = [f"{error}; launched were {', '.join(dict.fromkeys(each.case.id for each in launches))}"]
        found = findings(self.tool, self._news(), self._root)
        if found or errors:
            self._worker.renew()
        known = {key: {f"{_short(key[0])}\t{place}" for place in key[1]} & keys for key in found}
        said = [text for key, text in found.items() if not known[key]]
        said += [] if found else [f"{NAME} {self.tool}: not watched to the end: {each}" for each in errors]
        return said, [each for taken in known.values() for each in taken]

    def stop(self) -> None:
        self._worker.stop()


@contextlib.contextmanager
def stopping(sanitizers: Sequence[Sanitizer]) -> Iterator[ThreadPoolExecutor]:
    """Ask all tools at the same time, inside; where that is interrupted, end their processes."""
    with ThreadPoolExecutor(max(1, len(sanitizers))) as pool:
        try:
            yield pool
        except BaseException:
            for each in sanitizers:
                each.stop()
            raise


def refusals(sanitizers: Sequence[Sanitizer]) -> list[str]:
    """Return why tools do not work here, as ``Sanitizer.refusal`` does."""
    with stopping(sanitizers) as pool:
        return [*filter(None, pool.map(Sanitizer.refusal, sanitizers))]


def watch_all(
    sanitizers: Sequence[Sanitizer], launches: Sequence[NotedLaunch], accepted: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Launch under all tools at the same time, and return what ``Sanitizer.watch`` does of each."""
    with stopping(sanitizers) as pool:
        watch = functools.partial(Sanitizer.watch, launches=launches, accepted=[*accepted])
        answers = [*pool.map(watch, sanitizers)]
    return [text for said, _ in answers for text in said], [key for _, keys in answers for key in keys]
