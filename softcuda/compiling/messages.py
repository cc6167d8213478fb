"""Rewrites what g++ says of a kernel: names what softcuda does not support, at the line that uses it."""

from __future__ import annotations

import re
from pathlib import Path

SOFTCUDA = Path(__file__).resolve().parents[1]
OWN = rf"{re.escape(str(SOFTCUDA))}/\S+"

WITHOUT_MASK = ["__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__ballot", "__any", "__all"]
# Names whose mere use in the device's code is an error, and why.
UNSUPPORTED = {
    "collectives of cub beyond reductions, scans, radix sorts and ranks, exchanges, loads and stores":
        [f"cub::{name}" for name in ("BlockMergeSort", "BlockHistogram",
         "BlockDiscontinuity", "BlockAdjacentDifference", "BlockShuffle", "BlockRunLengthDecode",
         "WarpMergeSort", "WarpExchange", "WarpLoad", "WarpStore")],
    "warp functions without a mask": WITHOUT_MASK,
    "thread block clusters": ["__cluster_dims__", "cluster_group", "this_cluster"],
    "tiles of more than a warp": ["block_tile_memory"],
    "several devices": ["multi_grid_group", "this_multi_grid"],
    "launches from kernels": ["cudaLaunchDevice", "cudaDeviceSynchronize", "cudaGetParameterBuffer"],
}  # fmt: skip
REASON = {name: why for why, names in UNSUPPORTED.items() for name in names}
REASON_WORDS = {name.rpartition("::")[2] for name in REASON}


# A call that ptx.h forbids: g++ names the line of ptx.h, and after "inlined from" those that led there.
FORBIDDEN_CALL = re.compile(
    r"^In function .*\n(?P<chain>(?:    inlined from .*\n)+)"
    r"(?P<place>\S+) error: call to .* declared with attribute error: (?P<why>.*)(?:\n .*)*",
    re.MULTILINE,
)

# A call that ptx.py puts in the place of an asm statement: g++ names its line.
REFUSED_PTX = re.compile(
    r"(?:^In .*\n(?:    inlined from .*\n)*)?"
    r"^(?P<place>\S+) error: call to \S*softcuda_refused_ptx_\d+\S* declared with attribute error: "
    r"(?P<why>.*)(?:\n .*)*",
    re.MULTILINE,
)

# A static_assert of softcuda's own headers: its line is there, and the kernel's is the last that required it.
REFUSED = re.compile(
    rf"^(?:In file included from .*\n(?: +from .*\n)*)?{OWN} In .*\n(?:\S+   required from .*\n)*?"
    r"(?P<place>\S+)   required from here\n(?: .*\n)*"
    rf"{OWN} error: static assertion failed: (?P<why>.*)(?:\n .*)*"
    r"(?:\n\S+ note: the comparison .*)?",
    re.MULTILINE,
)


class BadKernel(Exception):
    """Raised when a compiler refuses a kernel; the message is its own."""


def forbidden(match: re.Match) -> str:
    """Return the error at the innermost line that is the kernel's own, and notes with the lines that led there."""
    called = [match["place"].rstrip(":"), *re.findall(r" at (\S+:\d+:\d+)[,:]", match["chain"])]
    places = [place for place in called if not place.startswith(str(SOFTCUDA))]
    return "\n".join([f"{places[0]}: error: {match['why']}", *(f"{place}: note: called here" for place in places[1:])])


def unsupported_name(before: list[str], name: str) -> str:
    """Return the name as the table has it, with or without its namespace; "" if it is supported."""
    qualified = "".join([*before, name])
    return qualified if qualified in REASON else name if name in REASON else ""


def not_supported(name: str) -> str:
    return f"softcuda does not support {name} ({REASON[name]})"


def notes(line: str, host: set[str]) -> list[str]:
    """Return what to do about an error that comes of host code. ``host``: names that were set aside."""
    place = line.partition(": ")[0]
    if ": error: " not in line:
        return []
    named = [name for name in re.findall(r"[‘'\"]~?(?:\w+::)*(\w+)", line) if name in host]
    return [f"{place}: note: {name} is host code, which is set aside: mark it __device__, or const or constexpr"
            " if it is a constant" for name in named[:1]]  # fmt: skip


def explain(errors: str, text: str, source: Path, host: set[str]) -> str:
    """Return g++'s messages, with softcuda's own words for what is not supported."""
    errors = REFUSED_PTX.sub(r"\g<place> error: \g<why>", errors)
    errors = FORBIDDEN_CALL.sub(forbidden, errors)
    errors = REFUSED.sub(r"\g<place> error: \g<why>", errors)
    lines, out = text.split("\n"), []
    for line in errors.split("\n"):
        out += [line, *notes(line, host)]
        match = re.match(re.escape(str(source)) + r":(\d+):.*error", line)
        if not match or int(match[1]) > len(lines):
            continue
        code = lines[int(match[1]) - 1]
        if "<<<" in code:
            out.append(f"{source}:{match[1]}: error: softcuda does not support <<<...>>> (launches from kernels)")
        elif missing := re.search(r"\b(texture|surface)\s*<", code):
            kind, place = missing[1], f"{source}:{match[1]}"
            out.append(
                f"{place}: error: softcuda does not support {kind}<...> ({kind} references, which CUDA 12 took"
                f" out of the language): give the kernel a cuda{kind.capitalize()}Object_t as a parameter"
            )
    return "\n".join(out)
