"""Finds nvdisasm, calls it, and keeps what its listing of a cubin comes to in the cache of compiled kernels."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from warpwatch.devices.compile.compiler import CompileError, Image, cached, digest_of, from_pypi, nvcc, read_image
from warpwatch.machine_code.listing import Instruction, inside_loops, loop_bodies, loops, marks, mix, parse
from warpwatch.machine_code.strides import Access, accesses

SECONDS = 120.0  # a listing of the largest kernel here takes one
HOW = "pip install nvidia-cuda-nvdisasm (extra 'disassembly'), or name one in $NVDISASM"


class NoDisassembler(Exception):
    """A missing nvdisasm, or one that fails; the message says what is lacking and how to get it."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """Summary of a kernel's instructions.

    ``inside``, ``outside``: instructions in loops and outside of them, by kind. ``loops``: how many instructions each
    loop has; ``bodies``: the instructions of each that are in no loop within it, by kind. ``marks``: operations of the
    source by name. ``accesses``: loads and stores. ``text``: a hash of the instructions, which does not change with
    addresses, padding and order.
    """

    instructions: int
    loops: tuple[int, ...]
    inside: Mapping[str, int]
    outside: Mapping[str, int]
    text: str
    bodies: tuple[Mapping[str, int], ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    accesses: tuple[Access, ...] = ()


@dataclass(frozen=True)
class Disassembler:
    """An nvdisasm that can be called. ``banner``: what it prints for --version."""

    program: str
    banner: str


@functools.cache
def nvdisasm() -> Disassembler:
    """Find nvdisasm: by $NVDISASM, the PATH, beside nvcc, or Python packages. Raises NoDisassembler."""
    named = os.environ.get("NVDISASM")
    beside = str(Path(nvcc().program).resolve().with_name("nvdisasm"))
    places = [shutil.which("nvdisasm"), beside, "/usr/local/cuda/bin/nvdisasm", *from_pypi("nvdisasm")]
    for program in [named] if named else filter(None, places):
        if Path(program).is_file():
            return Disassembler(program, _run([program, "--version"]))
    where = f"$NVDISASM names {named}, which is no file" if named else "there is no nvdisasm"
    raise NoDisassembler(f"{where}: {HOW}")


def _run(command: list[str]) -> str:
    """Run nvdisasm and return what it prints. Raises NoDisassembler."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoDisassembler(f"{command[0]} cannot be run ({error}): {HOW}") from None
    if done.returncode:
        message = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[0]
        raise NoDisassembler(f"{command[0]} cannot read this machine code ({message}): take one as new as nvcc, {HOW}")
    return done.stdout


@functools.cache
def _version() -> bytes:
    """Return a hash of the code that makes a Code of a cubin, so that the cache holds none of another version."""
    names = ("listing.py", "strides.py", "disassembler.py")
    return digest_of(*(Path(__file__).with_name(name).read_bytes() for name in names)).encode()


def read_code(image: Image) -> dict[str, Code]:
    """Disassemble a cubin; returns what its kernels' code comes to, by their symbols.

    Raises NoDisassembler, or CompileError where the image is damaged.
    """
    tool = nvdisasm()
    key = digest_of(image.image_hash.encode(), tool.banner.encode(), _version())

    def make() -> bytes:
        read_image(image.path)  # raises where it is damaged
        kernels = parse(_run([tool.program, "-c", str(image.path)]))
        if not kernels or not all(kernels.values()):
            raise NoDisassembler(f"{tool.program} prints no instructions that can be read here: take another, {HOW}")
        return json.dumps({name: asdict(summary(instructions)) for name, instructions in kernels.items()}).encode()

    entry = cached(f"code-{key}", ".json", make)
    try:
        return msgspec.json.decode(read_image(entry.path), type=dict[str, Code])
    except msgspec.MsgspecError as error:
        raise CompileError(f"{entry.path} is damaged ({error}): remove it") from None


def summary(instructions: tuple[Instruction, ...]) -> Code:
    """Return what the instructions of a kernel come to."""
    flags, spans = inside_loops(instructions), loops(instructions)
    inside, outside = (
        mix(each for each, loop in zip(instructions, flags, strict=True) if loop is side) for side in (True, False)
    )
    return Code(
        instructions=len(instructions),
        loops=tuple(end - begin + 1 for begin, end in spans),
        inside=inside,
        outside=outside,
        text=digest_of("\n".join(map(str, instructions)).encode()),
        bodies=tuple(mix(instructions[i] for i in body) for body in loop_bodies(spans)),
        marks=marks(instructions),
        accesses=accesses(instructions),
    )
