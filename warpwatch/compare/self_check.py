"""Check of the comparison itself on the GPU at hand: ``pytest bench --self-check``.

The first part is an A/A test: every kernel is compared with itself, what is called slower is a false alarm, and the
spread is the case's own. In the second part slowdowns are injected: a copy of the kernel waits for a given share of its
time, and what is called slower was found. The result is kept beside the baseline, and --against learns the cases' noise
floors from it.

In a copy that waits each block of the first wave begins with a wait of a number of cycles. Later blocks start when
these end, so the whole kernel takes that much longer, whatever it computes. The number is in a variable of the module,
so that both sides of a pair have the same machine code. Both sides do the same until they have read the clock twice,
and differ only in the wait: where only one side read the second variable, that alone took 0.3 µs on an H200.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.texts import Text
from warpwatch.compare.comparison import Comparison
from warpwatch.compare.pairs import PAIR_SECONDS, Pair, PairComparison, recorded
from warpwatch.compare.saved_self_check import CLASSES, SLOWDOWNS, Checked, CheckedCase, table
from warpwatch.devices.compile.compiler import CompileError, Image, Target, private_folder
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.revision import declarations
from warpwatch.revision.commit import compile_other_kernels, other_kernel_of
from warpwatch.revision.declared import DeclaredCase
from warpwatch.runs.record import typed
from warpwatch.timing.measurement import Again, Budget, Measured
from warpwatch.timing.side_by_side import Delay
from warpwatch.verdict.rule import Verdict

OPTION = "--self-check"
PER_SLOWDOWN = 20  # cases of a size class that get the same slowdown


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


@dataclass(kw_only=True)
class SelfCheck(Comparison):
    """Comparison of every kernel with itself, then with a copy that is made to wait; it decides about no case.

    ``target``: what delayed kernels are compiled for. ``compiling``: progress of that. ``side_by_side``: the pairs of
    the A/A test. ``checked``: what is saved of each case.
    """

    target: Target
    side_by_side: PairComparison
    compiling: Callable[[int, int], None]
    checked: dict[str, CheckedCase] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        return len(self.checked)

    @property
    def against(self) -> str:
        return OPTION

    def measures(self, case: Case, image: Image) -> bool:
        return not (case.variant.on_host or case.variant.call)

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Measure a kernel and itself in this process; None for libraries and the host, which have no cubin."""
        if not self.measures(case, kernel.image):
            return None
        measured = Measured(kernel=kernel, case=case, kind="cold" if cold else "warm")
        image, checked = kernel.image.path, kernel.checked.path
        pair = Pair(measured=measured, other=own_side(case), other_image=image, image=image, checked=checked)
        pair.take_first(PAIR_SECONDS, budget.warm_up)
        self.side_by_side.pairs[case.id] = pair
        return measured

    def conclude(self, again: Again) -> None:
        """Run the other processes of the A/A test, then all of the injected slowdowns."""
        unchanged = self.side_by_side.decide(again)
        for name, pair in self.side_by_side.pairs.items():
            pair.measured.facts["pairs"] = recorded(pair)
            decision, effect = unchanged[name], pair.effect("")
            self.checked[name] = CheckedCase(
                median=decision.before,
                variance=float(effect.baseline_variance),
                freedom=effect.baseline_df,
                floor=decision.floor,
                verdict=str(decision.verdict),
            )
        shares = chosen({name: decision.before for name, decision in unchanged.items()})
        late = PairComparison(self.side_by_side.doubt, pairs=self._delayed(shares, again))
        calibrate(late, again)
        for name, decision in late.decide(again).items():
            self.checked[name] = replace(
                self.checked[name],
                slowdown=shares[name],
                seen=decision.ratio - 1,
                found=decision.verdict == Verdict.SLOWER,
                reason=decision.reason,
            )

    def _delayed(self, shares: Mapping[str, float], again: Again) -> dict[str, Pair]:
        """Return pairs of a case and its copy that waits. ``shares``: the slowdowns to inject."""
        sides = {}
        for name, pair in self.side_by_side.pairs.items():
            if name in shares:
                try:
                    sides[name] = delayed_side(own_side(pair.measured.case))
                except (OSError, ValueError) as error:  # no space for it, or no kernel that is known as one
                    again.broken[name] = f"its copy that waits cannot be made: {error}"
        images = compile_other_kernels(sides.values(), self.target, self.compiling)
        pairs = {}
        for name, side in sides.items():
            image = images[key(side)]
            if isinstance(image, CompileError):
                again.broken[name] = f"delayed copy: {image}"
                continue
            own = self.checked[name]
            pairs[name] = Pair(
                measured=self.side_by_side.pairs[name].measured,
                other=side,
                other_image=image.path,
                image=image.path,
                delay=Delay(shares[name]),
                recorded_variance=(own.variance, own.freedom),
            )
        return pairs

    def _describe(self) -> list[str]:
        """Return the lines of the table by size class."""
        return table(Checked(cases=self.checked))

    def document(self) -> dict[str, Any]:
        """Document to save: each case's variance, noise floor and verdicts."""
        return {"cases": msgspec.to_builtins(self.checked), "note": self.side_by_side.doubt}


def calibrate(late: PairComparison, again: Again) -> None:
    """Find how many cycles each copy must wait, in a process of its own whose samples do not count."""
    for pair in list(late.pairs.values())[:1]:
        pair.measured.kernel.worker.renew()
    for done, (name, pair) in enumerate(list(late.pairs.items()), 1):
        try:
            assert pair.delay
            cycles = pair.take(0).cycles
            pair.taken.clear()
            pair.delay = replace(pair.delay, cycles=cycles)
            pair.take(0)
        except (DeviceError, WrongResult) as error:
            again.broken[name] = f"delayed copy: {error}"
            del late.pairs[name]
        again.progress(done, len(late.pairs))


def chosen(medians: Mapping[str, float]) -> dict[str, float]:
    """Choose the cases that get a slowdown, and which: of each size class as many for each slowdown.

    They are chosen by a hash of their names, so that another run chooses the same. More would cost minutes and add
    little.
    """
    shares: dict[str, float] = {}
    for low, high in CLASSES.values():
        names = [name for name, seconds in medians.items() if low <= seconds < high]
        names.sort(key=lambda name: zlib.crc32(name.encode()))
        shares |= dict(zip(names[: PER_SLOWDOWN * len(SLOWDOWNS)], cycle(SLOWDOWNS), strict=False))
    return shares


def delayed(text: str) -> str:
    """Return the source of a kernel with the wait inserted. Raises ValueError where no kernel is found."""
    waiting, count = KERNEL.subn(lambda match: match[0] + " warpwatch_wait();", text)
    if not count:
        raise ValueError("no kernel starts as `__global__`")
    return f"{PREAMBLE.lstrip()}#line 1\n{waiting}"


def write_delayed(source: Path) -> Path:
    """Write the source with the wait to a file in the cache, named by its contents. Its headers stay where they are."""
    text = os.fsdecode(source.read_bytes())  # whatever its encoding is
    beside = HEADER.sub(lambda match: f'{match[1]}"{(source.parent / match[2]).resolve()}"', text)
    waiting = os.fsencode(delayed(beside))
    target = private_folder("delayed") / hashlib.sha256(waiting).hexdigest()[:16] / source.name
    if not target.exists() or target.read_bytes() != waiting:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=target.parent, delete=False) as file:
            file.write(waiting)
        Path(file.name).replace(target)
    return target


def delayed_side(side: OtherKernel) -> OtherKernel:
    """Return a side whose kernels wait for a set time."""
    kernels = side.kernels
    if kernels.text:
        return replace(side, kernels=replace(kernels, text=Text(delayed(kernels.text.numbered(kernels.root)))))
    return replace(side, kernels=replace(kernels, source=write_delayed(kernels.source)))


def own_side(case: Case) -> OtherKernel:
    """Describe the case itself as another revision would be described."""
    root = case.family.root
    return other_kernel_of(root, typed(declarations.declared(case, root), DeclaredCase))
