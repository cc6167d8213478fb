"""Rewrites what g++ says of a kernel: names what softcuda does not support, at the line that uses it."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Names whose mere use is an error, and why. "poison" makes the preprocessor say so, with file and line, in code
# that is compiled and not in what an #if leaves out.
UNSUPPORTED = {
    "managed memory": ["__managed__"],
    "textures and surfaces": ["texture", "tex1D", "tex1Dfetch", "tex2D", "tex3D", "tex1DLayered", "tex2DLayered",
                              "surf2Dread", "surf2Dwrite", "cudaTextureObject_t", "cudaSurfaceObject_t"],
    "tensor cores": ["wmma", "nvcuda"],
    "asynchronous copies by objects": ["memcpy_async"],
    "warp functions without a mask": ["__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__ballot", "__any", "__all"],
    "thread block clusters": ["__cluster_dims__"],
    "launches from kernels": ["cudaLaunchDevice", "cudaDeviceSynchronize", "cudaGetParameterBuffer"],
}  # fmt: skip
REASON = {name: why for why, names in UNSUPPORTED.items() for name in names}


# A call that ptx.h forbids: g++ names the line of ptx.h, and after "inlined from" those that led there.
FORBIDDEN_CALL = re.compile(
    r"^In function .*\n(?P<chain>(?:    inlined from .*\n)+)"
    r"\S+ error: call to .* declared with attribute error: (?P<why>.*)(?:\n .*)*",
    re.MULTILINE,
)


# Of static variables in templates, which are one of each instance, as they should be: there is one translation unit.
COPIES = re.compile(
    r"^\S+ warning: sorry: semantics of inline function static data .*\n(?: .*\n)*"
    r"(?:\S+ note: you can work around .*\n(?: .*\n)*)?",
    re.MULTILINE,
)


def forbidden(match: re.Match) -> str:
    """The error at the innermost line that is the kernel's own, and notes with the lines that led there."""
    places = [
        place for place in re.findall(r" at (\S+:\d+:\d+)[,:]", match["chain"]) if not place.startswith(str(HERE))
    ]
    return "\n".join([f"{places[0]}: error: {match['why']}", *(f"{place}: note: called here" for place in places[1:])])


def explain(errors: str, text: str, source: Path) -> str:
    """g++'s messages, with what is not supported in words of our own."""

    def reason(match: re.Match) -> str:
        return f"softcuda does not support {match[1]} ({REASON.get(match[1], 'not on this device')})"

    errors = re.sub(r'attempt to use poisoned "([^"]+)"', reason, errors)
    errors = FORBIDDEN_CALL.sub(forbidden, errors)
    errors = COPIES.sub("", errors)
    lines, out = text.split("\n"), []
    for line in errors.split("\n"):
        out.append(line)
        match = re.match(re.escape(str(source)) + r":(\d+):.*error", line)
        if not match or int(match[1]) > len(lines):
            continue
        code = lines[int(match[1]) - 1]
        if "<<<" in code:
            out.append(f"{source}:{match[1]}: error: softcuda does not support <<<...>>> (launches from kernels)")
        elif missing := re.search(r"\b(texture)\b", code):
            out.append(f"{source}:{match[1]}: note: softcuda does not support {missing[1]}")
    return "\n".join(out)
