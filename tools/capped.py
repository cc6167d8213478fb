"""Injects slowdowns into kernels that run under the power cap, and none, and shows what the comparison says.

``python -m tools.capped OUT`` measures pairs of CASES on a GPU: each kernel with itself, and with a copy that
waits (warpwatch/compare/self_check.py). It prints a line for each pair, with the SM clocks that stamps read beside the
samples, and the counts. The same goes to OUT/capped.txt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from kernels import FAMILIES
from tools.by_hand import ROOT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.project import load_project
from warpwatch.compare.pairs import Pair, PairComparison
from warpwatch.compare.self_check import calibrate, delayed_side, own_side
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.opening import Settings
from warpwatch.devices.other_kernel import key
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.revision.commit import compile_other_kernels
from warpwatch.timing.measurement import Again, Measured
from warpwatch.timing.side_by_side import Delay
from warpwatch.verdict.rule import Decision, Verdict

CASES = (
    "matmul-tensor-64x64-4096x4096x4096-float64",
    "matmul-tensor-128x128-4096x4096x4096-float64",
    "matmul-warptiled-128x64-4096x4096x4096-float64",
    "matmul-asynchronous-64x64-4096x4096x4096-float64",
)
SHARES = (0.0, 0.0, 0.0, 0.01, 0.02, 0.03)  # of the kernel's time, injected


def pairs_of(case: Case, worker: Worker, device: DeviceInfo) -> Iterator[tuple[str, Pair]]:
    """Yield a pair for each of SHARES, by a name of its own."""
    image = compile_build(case.build, device.timing_target)
    kernel = Kernel(worker=worker, build=case.build, image=image)
    waiting = delayed_side(own_side(case))
    delayed = compile_other_kernels([waiting], device.timing_target, lambda done, count: None)[key(waiting)]
    assert isinstance(delayed, Image), delayed
    for number, share in enumerate(SHARES):
        measured = Measured(kernel=kernel, case=case, kind="cold")
        pair = Pair(measured=measured, other=own_side(case), other_image=image.path, image=image.path)
        if share:
            pair = replace(pair, other=waiting, other_image=delayed.path, image=delayed.path, delay=Delay(share))
        yield f"{case.id} {100 * share:g} % {number}", pair


def measure(device: DeviceInfo, worker: Worker) -> tuple[PairComparison, dict[str, Decision]]:
    """Measure all pairs in as many processes as their verdicts need."""
    comparison = PairComparison()
    for name in CASES:
        for title, pair in pairs_of(find_case(FAMILIES, name), worker, device):
            comparison.pairs[title] = pair
    again = Again(cold=True, progress=lambda done, count: None, broken={})
    waiting = {title: pair for title, pair in comparison.pairs.items() if pair.delay}
    calibrate(replace(comparison, pairs=waiting), again)
    for title in comparison.pairs.keys() - waiting.keys():
        comparison.pairs[title].take(0)
    return comparison, comparison.decide(again)


def lines_of(comparison: PairComparison, decisions: dict[str, Decision]) -> Iterator[str]:
    """Yield a line for each pair, and counts."""
    false, found, injected = 0, 0, 0
    for title, pair in comparison.pairs.items():
        decision = decisions[title]
        clocks = [median(taken.mhz[1]) for taken in pair.taken if taken.has_clocks]
        low, high = (f"{mhz:,.0f}" for mhz in (min(clocks, default=0), max(clocks, default=0)))  # 0: not read
        change, least, most = (f"{100 * (each - 1):+.2f}" for each in (decision.ratio, decision.low, decision.high))
        said = (
            f"{decision.verdict}, {change} % ({least} to {most}), {decision.processes} processes at {low} to {high} MHz"
        )
        yield f"{title}: {said}; {decision.reason}"
        injected += pair.delay is not None
        found += pair.delay is not None and decision.verdict == Verdict.SLOWER
        false += pair.delay is None and decision.verdict in (Verdict.SLOWER, Verdict.FASTER)
    yield f"{false} false alarms in {len(decisions) - injected}, {found} of {injected} slowdowns found"


def main(arguments: Sequence[str]) -> None:
    worker = Worker(load_project(ROOT, "kernels"), Settings(kind="gpu"))
    device = worker.call(describe_device)
    assert isinstance(device, DeviceInfo), device
    lines = list(lines_of(*measure(device, worker)))
    worker.stop()
    print("\n".join(lines))
    Path(arguments[0], "capped.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
