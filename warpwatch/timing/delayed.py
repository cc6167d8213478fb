"""Kernels that can be told to wait: the known slowdown that `pytest bench --self-check` looks for.

The first thing that a block of the first wave does is to wait so many cycles. The blocks after them start when they
end, so the whole kernel takes that much longer, whatever it computes. How long is set in a variable of the module, so
that both sides of a pair are the same machine code. Both do the same until the clock has been read twice, and so differ
by nothing but the wait: where only one read the second variable, that alone took 0.3 µs on an H200.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path

from warpwatch.devices.compiler import private_folder

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
KERNEL = re.compile(r'extern "C" __global__[^{;]*\{')


def delayed(text: str) -> str:
    """The source of a kernel with the wait in it. ValueError where there is no kernel to be found."""
    waiting, found = KERNEL.subn(lambda match: match[0] + " warpwatch_wait();", text)
    if not found:
        raise ValueError('no kernel starts as `extern "C" __global__`')
    return f"{PREAMBLE.lstrip()}#line 1\n{waiting}"


def write_delayed(source: Path) -> Path:
    """A file of that text in the cache, named by what is in it. Its own headers are where they were."""
    beside = HEADER.sub(lambda match: f'{match[1]}"{(source.parent / match[2]).resolve()}"', source.read_text())
    text = delayed(beside)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    target = private_folder("delayed") / digest / source.name
    if not target.exists() or target.read_text() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as made:
            made.write(text)
        Path(made.name).replace(target)
    return target
