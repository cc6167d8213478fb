"""Makes repositories whose histories hold a slowdown, and asks ``warpwatch bisect`` for the commits, on a GPU.

``python -m tools.planted_histories OUT [NUMBER ...]`` makes 20 histories of 40 commits, or those of these numbers. Six
commits of a history change the machine code of the case, and one or two of the six make it slower by 1 to 5 %; the
others change files that the kernel has nothing to do with, or its comments. It prints a line for each history, and
writes the same to OUT/histories.json.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.project import ROOT

COMMITS, CHANGES, HISTORIES = 40, 6, 20
SHARES = (3, 4, 5, 6, 8, 10)  # of 200 blocks, how many do their work twice
DECLARATION = '''"""Declares the kernel of a planted history."""

import numpy as np

import warpwatch as ww

{family}
'''
# Each kernel does its work again in SLOW of 200 blocks, which costs that share of its time. MARK changes the machine
# code and nothing else.
KERNELS = {
    "steps": (
        """extern "C" __global__ void steps_chain(const float* x, float* y, int m, int n)
{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n || m == -MARK)
        return;
    for (int again = blockIdx.x % 200 < SLOW; again >= 0; --again) {
        float value = x[at];
        for (int i = 0; i < 512; ++i)
            value = value * 0.5f + 0.25f;
        y[at] = value;
    }
}
""",
        """
def reference(x):
    value = x[0].astype(np.float64)
    for _ in range(60):  # by then it is the fixed point, to the last digit
        value = value * 0.5 + 0.25
    return value


FAMILY = ww.Family(
    "steps", sizes=("m", "n"), dtypes=("float32",),
    arrays=lambda m, n: {"x": ww.In((m, n)), "y": ww.Out(n)},
    reference=reference, tolerance=ww.relative(1e-5), work=lambda m, n: ww.Work(m * n, 4 * (m * n + n)),
    tests=((1, 512),), benchmarks=((1, 1 << 22),),
    variants=(ww.kernel("chain", "a chain of FMA", source="kernel.cu", configurations=((256,),),
                        grid=lambda n, block: ww.blocks(n, block[0]), arguments="x y m n"),),
)
""",
        "steps-chain-256-1x4194304-float32",
    ),
    "roots": (
        """extern "C" __global__ void roots_chain(const float* x, float* y, int m, int n)
{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n || m == -MARK)
        return;
    for (int again = blockIdx.x % 200 < SLOW; again >= 0; --again) {
        float value = 1 + x[at] * x[at];
        for (int i = 0; i < 100; ++i)
            value = sqrtf(value);
        y[at] = value;
    }
}
""",
        """
FAMILY = ww.Family(
    "roots", sizes=("m", "n"), dtypes=("float32",),
    arrays=lambda m, n: {"x": ww.In((m, n)), "y": ww.Out(n)},
    reference=lambda x: np.ones_like(x[0]), tolerance=ww.relative(1e-5),
    work=lambda m, n: ww.Work(m * n, 4 * (m * n + n)), tests=((1, 512),), benchmarks=((1, 1 << 21),),
    variants=(ww.kernel("chain", "a chain of square roots", source="kernel.cu", configurations=((128,),),
                        grid=lambda n, block: ww.blocks(n, block[0]), arguments="x y m n"),),
)
""",
        "roots-chain-128-1x2097152-float32",
    ),
    "turns": (
        """extern "C" __global__ void turns_shared(const float* x, float* y, int m, int n)
{
    volatile __shared__ float line[BLOCK_X];  // without volatile, the second time is left out
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (m == -MARK)
        return;
    line[threadIdx.x] = x[at];
    __syncthreads();
    for (int again = blockIdx.x % 200 < SLOW; again >= 0; --again) {
        float sum = 0;
        for (int i = 0; i < 2 * BLOCK_X; ++i)
            sum += line[(threadIdx.x + i) % BLOCK_X];
        y[at] = sum;
    }
}
""",
        """
FAMILY = ww.Family(
    "turns", sizes=("m", "n"), dtypes=("float32",),
    arrays=lambda m, n: {"x": ww.In((m, n)), "y": ww.Out(n)},
    reference=lambda x: np.repeat(2 * x[0].astype(np.float64).reshape(-1, 256).sum(1), 256),
    tolerance=ww.relative(1e-4, absolute=1e-2), work=lambda m, n: ww.Work(m * n, 4 * (m * n + n)),
    tests=((1, 512),), benchmarks=((1, 1 << 21),),
    variants=(ww.kernel("shared", "sums of blocks, in turns", source="kernel.cu", configurations=((256,),),
                        grid=lambda n, block: n // block[0], arguments="x y m n"),),
)
""",
        "turns-shared-256-1x2097152-float32",
    ),
}


@dataclass(frozen=True, kw_only=True)
class History:
    """Holds a repository with a planted history. ``slower``: the commits that make ``case`` slower, oldest first."""

    folder: Path
    case: str
    first: str
    last: str
    slower: tuple[str, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Holds what ``warpwatch bisect`` said of a history, and whether that is right."""

    case: str
    shares: tuple[float, ...]
    planted: tuple[str, ...]
    found: tuple[str, ...]
    right: bool
    seconds: float
    gpu_seconds: float
    output: str


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A tester", "-c", "user.email=tester@example.org", "-c", "gc.auto=0")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_history(folder: Path, seed: int) -> History:
    """Make a repository of one kernel and COMMITS commits after the first. An odd seed plants two slow ones."""
    draw = random.Random(seed)
    source, family, case = KERNELS[list(KERNELS)[seed % len(KERNELS)]]
    package = folder / "perf"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')
    (folder / ".gitignore").write_text("__pycache__/\n")
    (package / "__init__.py").write_text(DECLARATION.format(family=family))
    places = sorted(draw.sample(range(1, COMMITS + 1), CHANGES))
    slow_places = sorted(draw.sample(places, 1 + seed % 2))
    slow, mark, note = 0, 1, 0
    ids, shares = [], []

    def commit(subject: str) -> str:
        head = f"#define SLOW {slow}\n#define MARK {mark}\n// Note {note}.\n"
        (package / "kernel.cu").write_text(head + source)
        _git(folder, "add", "-A")
        _git(folder, "commit", "-q", "--allow-empty", "-m", subject)
        return _git(folder, "rev-parse", "HEAD")

    _git(folder, "init", "-q", "-b", "main")
    first = last = commit("The kernel")
    for number in range(1, COMMITS + 1):
        if number in slow_places:
            more = draw.choice(SHARES)
            slow += more
            shares.append(more / 200)
            last = commit(f"Change {number}: a better way")
            ids.append(last)
        elif number in places:
            mark += 1
            last = commit(f"Change {number}: a check of the arguments")
        else:
            note += number % 3 == 0
            (folder / "README.md").write_text(f"State {number}\n")
            last = commit(f"Change {number}: words")
    return History(folder=folder, case=case, first=first, last=last, slower=tuple(ids), shares=tuple(shares))


def ask(history: History) -> Answer:
    """Run ``warpwatch bisect`` on a history."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "warpwatch", "bisect", history.case, f"{history.first}..{history.last}"]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=history.folder, capture_output=True, text=True, check=False, env=environment)
    output = done.stdout + done.stderr
    named = re.findall(r"^  ([0-9a-f]{12}) \d{4}-", output, re.MULTILINE)
    found = tuple(each for each in (*history.slower, history.first) if each[:12] in named)
    spent = re.search(r"^  (\d+) s on the GPU", output, re.MULTILINE)
    return Answer(
        case=history.case,
        shares=history.shares,
        planted=history.slower,
        found=tuple(named),
        right=len(named) == len(found) and found == history.slower,
        seconds=time.monotonic() - begin,
        gpu_seconds=float(spent[1]) if spent else 0.0,
        output=output,
    )


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0])
    numbers = list(map(int, arguments[1:])) or list(range(HISTORIES))
    folder.mkdir(parents=True, exist_ok=True)
    answers = []
    with tempfile.TemporaryDirectory() as made:
        for seed in numbers:
            answers.append(ask(make_history(Path(made) / str(seed), seed)))
            each = answers[-1]
            planted = ", ".join(f"+{100 * share:.1f} %" for share in each.shares)
            verdict = "right" if each.right else f"WRONG: {each.output}"
            times = f"{each.seconds:.0f} s, {each.gpu_seconds:.0f} s of them on the GPU"
            print(f"{seed:3} {each.case}: planted {planted}: {verdict}, {times}", flush=True)
            (folder / "histories.json").write_text(json.dumps([asdict(answer) for answer in answers], indent=1))
    print(f"{sum(answer.right for answer in answers)} of {len(answers)} right")
    return int(not all(answer.right for answer in answers))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
