"""Makes kernels that wait for a set time: the injected slowdowns that `pytest bench --self-check` must find.

Each block of the first wave begins with a wait of a number of cycles. Later blocks start when these end, so the whole
kernel takes that much longer, whatever it computes. The number is in a variable of the module, so that both sides of a
pair have the same machine code. Both sides do the same until they have read the clock twice, and differ only in the
wait: where only one side read the second variable, that alone took 0.3 µs on an H200.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

from warpwatch.devices.compile.compiler import private_folder

VARIABLES = ("warpwatch_cycles", "warpwatch_blocks")
PREAMBLE = """
__device__ long long warpwatch_cycles;
__device__ unsigned warpwatch_blocks; // of the first wave

static __device__ void warpwatch_wait()
{
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const long long cycles = block < warpwatch_blocks ? warpwatch_cycles : -1;
    if (cycles >= 0 && threadIdx.x == 0 && threadIdx.y == 0) { // known before the clock starts, on both sides
        const long long start = clock64();
        while (clock64() - start < cycles)
            ;
    }
    __syncthreads();
}
"""
HEADER = re.compile(r'^(\s*#\s*include\s*)"([^"]+)"', re.MULTILINE)
KERNEL = re.compile(r"__global__[^{;]*\{")


def delayed(text: str) -> str:
    """Return the source of a kernel with the wait inserted. Raises ValueError where no kernel is found."""
    waiting, count = KERNEL.subn(lambda match: match[0] + " warpwatch_wait();", text)
    if not count:
        raise ValueError("no kernel starts as `__global__`")
    return f"{PREAMBLE.lstrip()}#line 1\n{waiting}"


def write_delayed(source: Path) -> Path:
    """Write the source with the wait to a file in the cache, named by its contents. Its headers stay where they are."""
    beside = HEADER.sub(lambda match: f'{match[1]}"{(source.parent / match[2]).resolve()}"', _read(source))
    text = delayed(beside)
    digest = hashlib.sha256(os.fsencode(text)).hexdigest()[:16]
    target = private_folder("delayed") / digest / source.name
    if not target.exists() or _read(target) != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=target.parent, delete=False) as file:
            file.write(os.fsencode(text))
        Path(file.name).replace(target)
    return target


def _read(path: Path) -> str:
    """Read a source, whatever its encoding is."""
    return os.fsdecode(path.read_bytes())
