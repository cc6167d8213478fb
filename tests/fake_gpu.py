"""Imitates a GPU that gives set times: a pytest plugin for tests of comparisons, loaded with ``-p tests.fake_gpu``.

It takes the place of the worker process, and gives every case a time of its own with a little noise. The environment
variable FAKE_GPU, in JSON, says what it imitates:

    {"seed": 1, "slower": {"matmul-naive": 1.1}, "driver": "580.1", "wrong": ["hello"], "throttle": ["..."]}

``file_limit``: the largest size of a file in bytes from the first case on; ``file_limit_at_start``: from the start on.
``slower``: factors on times of cases that have other machine code too. ``odd``: the same without other code.
``changed``: cases with other code alone. ``toolchain``: factors on the new side's times of cases that --toolchain
gives other code. ``costs``: bytes and compile seconds of machine code, by the name of its file: none, or other code
where that is another. ``needs``: registers and bytes of local memory of kernels, by part of a case's id. ``drift``: a
factor on all times. ``wrong_later``: cases that are right until their samples are taken. ``others``: how many processes
of this run find another program at work beside a case, which then takes three times as long. ``gpus``: how many there
are. ``other_slug``: the model of all but the first of them. ``model``: of all GPUs, as NVML tells it before one is
opened. ``energy``, ``host``: factors on energy and host time of the new side of a pair. ``clocks``: SM clocks in MHz
that stamps read beside the samples of the old and the new side of a pair. ``dies``: a case that ends its process.
``announced``: a file for the cases that the worker process is told of beforehand. ``locks``: the folder of the lock
files of GPUs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_benchmark.plugin

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.contracts import RESOURCES, Contract
from warpwatch.catalogue.launches import Capability
from warpwatch.compare import compile_cost, with_revision
from warpwatch.compare import self_check as selfcheck
from warpwatch.devices import gpus, worker
from warpwatch.devices.compile import background, compiler
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.info import DeviceInfo, Limits
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.plugin import benchmark_run, contracts, locks
from warpwatch.plugin import pytest_benchmark_bridge as bridge
from warpwatch.revision import commit
from warpwatch.timing import measurement, observers, sampling
from warpwatch.timing import side_by_side as pairs
from warpwatch.timing.nvml import Clock, clock_facts
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.verdict.contracts import Clause, exact

PLAY = json.loads(os.environ.get("FAKE_GPU", "{}"))
PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "gw0")  # each process of xdist has a GPU of its own
_noise = random.Random()
_prepared = ""
_times_prepared: Counter[str] = Counter()
TARGET = compiler.Target("sm_90")
REBUILT = Path("rebuilt")  # a file of machine code that another toolchain has made
LIMITS = Limits(threads=1024, block=(1, 1, 1), grid=(1, 1, 1), shared_bytes=0)
INFO = DeviceInfo(
    name="Fake GPU 1",
    ordinal=0,
    pci_bus_id="0",
    capability=Capability(9, 0),
    driver="13.0",
    multiprocessors=8,
    memory_bytes=2**34,
    l2_bytes=2**20,
    clock_hz=1e9,
    peak_bytes_per_second=1e12,
    limits=LIMITS,
    target=TARGET,
    timing_target=TARGET,
    count=PLAY.get("gpus", 1),
)


def prepare(
    case: Case, image: Path, cold: bool, checking_image: Path | None = None, accepted: Any = None
) -> dict[str, Any]:
    global _prepared  # noqa: PLW0603  # one case at a time, as in the process that this plays
    case_id = case.id
    _prepared = case_id
    _times_prepared[case_id] += 1
    renew_noise()
    if case_id == PLAY.get("interrupt"):
        raise KeyboardInterrupt
    if case_id == PLAY.get("dies"):
        os._exit(9)
    if accepted is None and any(name in case_id for name in PLAY.get("wrong", ())):
        raise WrongResult(f"{case_id} is wrong")
    if accepted is not None and any(name in case_id for name in PLAY.get("breaks_again", ())):
        raise DeviceError(f"{case_id}: the kernel failed")
    return {"hold_timeouts": 0, "cache": "host" if "-host-" in case_id else "cold"}


def renew_noise() -> None:
    """Let the times of a case scatter alike in each run, however many samples others took before."""
    _noise.seed(f"{PLAY.get('seed', 0)} {PROCESS} {_prepared} {_times_prepared[_prepared]}")


def clock() -> Clock:
    """Imitate NVML."""
    others = _times_prepared[_prepared] <= PLAY.get("others", {}).get(_prepared, 0)
    return Clock(1000, tuple(PLAY.get("throttle", ())), ("train (process 7)",) if others else ())


def finish(kind: str, seconds: float | None = None) -> Any:
    if any(name in _prepared for name in PLAY.get("wrong_later", ())):
        raise WrongResult(f"{_prepared} is wrong after the launches that were timed")
    return ((1,),)


def sample(kind: str) -> tuple[float, int]:
    own = int.from_bytes(hashlib.sha256(_prepared.encode()).digest()[:2], "big")
    seconds = 20e-6 + own * 1e-9
    for name, factor in (PLAY.get("slower", {}) | PLAY.get("odd", {})).items():
        seconds *= factor if name in _prepared else 1
    seconds *= 3 if clock().others else 1
    return seconds * PLAY.get("drift", 1.0) * _noise.gauss(1, 0.001), PLAY.get("timeouts", 0)


def compile_build(build: Build, target: compiler.Target | None) -> compiler.Image:
    if target != TARGET and any(name in build.id for name in PLAY.get("toolchain", ())):
        return compiler.Image(REBUILT, "source", "code of another toolchain")
    changed = any(name in build.id for name in (*PLAY.get("slower", ()), *PLAY.get("changed", ())))
    return image_of("other code" if changed else "code")


def image_of(code: str) -> compiler.Image:
    path = Path("none" if code == "code" else code)
    return compiler.Image(path, "source", code, cost_of(path)[1])


def cost_of(path: Path) -> tuple[int, float | None]:
    return PLAY.get("costs", {}).get(path.name, (0, None))  # type: ignore[no-any-return]


def measure_pair(case: Case, image: Path, other: OtherKernel, other_image: Path, plan: pairs.Plan) -> PairSamples:
    """Imitate the samples of a pair; the old side has no ``slower`` cases."""
    case_id = case.id
    if plan.check:
        prepare(case, image, True)
    if any(name in case_id for name in PLAY.get("other_wrong", ())):
        raise pairs.OtherSideFailed(f"{case_id} is wrong\nin many lines")
    if case_id == PLAY.get("interrupt"):
        raise KeyboardInterrupt
    globals()["_prepared"] = case_id
    _times_prepared[case_id] += not plan.check
    renew_noise()
    share = plan.delay.share if plan.delay else 0.0
    if image == REBUILT:
        share += sum(factor - 1 for name, factor in PLAY["toolchain"].items() if name in case_id)
    new = tuple((1 + share) * sample(plan.kind)[0] for _ in range(10))
    slower, PLAY["slower"] = PLAY.get("slower", {}), {}
    old = tuple(sample(plan.kind)[0] for _ in range(10))
    PLAY["slower"] = slower
    facts: dict[str, Any] = {"cache": "cold"} if plan.check else {}
    beside: dict[str, Any] = {}
    if "clocks" in PLAY:
        beside["mhz"] = tuple((float(mhz),) * 10 for mhz in PLAY["clocks"])
    for option in plan.observers:
        if not observers.BY_OPTION[option].leaves_out(case):
            fact, usual = OBSERVED[option]
            _, of_new = beside[fact] = _observed(case_id, option, usual)
            facts[fact] = sum(of_new) / len(of_new)
    return PairSamples(
        old=old, new=new, clocks=(clock(), clock()), cycles=round(1e6 * share), facts=facts, beside=beside
    )


OBSERVED = {"energy": ("joules", 0.05), "host": ("host_seconds", 5e-6)}


def _observed(case_id: str, option: str, usual: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    factor = next((each for name, each in PLAY.get(option, {}).items() if name in case_id), 1.0)
    noise = [usual * _noise.gauss(1, 0.002) for _ in range(4)]
    return (noise[0], noise[3]), (factor * noise[1], factor * noise[2])


def of_code(case: Case, contract: Contract, image: compiler.Image, _: Capability) -> list[Clause]:
    """Imitate the reading of machine code."""
    needs = next((own for name, own in PLAY.get("needs", {}).items() if name in case.id), (32, 0))
    figures = dict(zip(RESOURCES, needs, strict=True))
    return [exact(name, limit, figures[name]) for name, limit in contract.limits(RESOURCES).items()]


def compile_other_kernels(
    others: Iterable[OtherKernel], *_: object
) -> dict[tuple[object, ...], compiler.Image | CompileError]:
    broken = set(PLAY.get("uncompiled", ()))
    return {
        key(other): CompileError(f"{other.kernels.source.name} does not compile\nin many lines")
        if broken.intersection(other.kernels.entries)
        else image_of("code")
        for other in others
    }


def describe_gpu(cold: bool, measures: bool = True) -> dict[str, Any]:
    return ({"coldness": 2.0} if measures else {}) | {
        "name": INFO.name,
        "slug": INFO.slug if PROCESS == "gw0" else PLAY.get("other_slug", INFO.slug),
        "uuid": PLAY.get("uuid", "GPU-1") if PROCESS == "gw0" else f"GPU of {PROCESS}",
        "driver": PLAY.get("driver", "580.1"),
        "cache": "cold" if cold else "warm",
        "remarks": PLAY.get("remarks", []),
    }


def announce(cases: Sequence[Case], reference: bool) -> None:
    if cases and (told := PLAY.get("announced")):
        with open(told, "a") as file:
            file.write(f"{','.join(case.id for case in cases)} {reference}\n")


ANSWERS: dict[Callable[..., Any], Callable[..., Any]] = {
    worker.describe_device: lambda: INFO,
    compiler.cache_notes: list,
    worker.call_missing: lambda build: "",
    sampling.describe_gpu: describe_gpu,
    sampling.prepare: prepare,
    sampling.sample: sample,
    sampling.take_samples: lambda kind, fewest, most, before: [sample(kind) for _ in range(most - len(before))],
    sampling.finish: finish,
    observers.objection: lambda asked: PLAY.get("no_energy", "") if asked else "",
    observers.begin: lambda: None,
    observers.end: lambda: clock_facts([clock(), clock()]),
    sampling.observe: lambda asked: {} if "hello" in _prepared else dict(OBSERVED[option] for option in asked),
    pairs.measure_pair: measure_pair,
    sampling.settle: lambda: None,
    sampling.announce: announce,
    sampling.begin_ahead: lambda: None,
    sampling.warm_up: lambda kind, seconds: None,
    sampling.read_clock: clock,
}


def call(self: worker.Worker, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return ANSWERS[function](*args, **kwargs)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    limit_files(PLAY.get("file_limit"))


def limit_files(size: int | None) -> None:
    """Limit the size of files from now on, also for root, to imitate a disk that is nearly full."""
    if size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def pytest_addoption() -> None:
    """Replace what the plugin calls while it configures, which is before this one does."""
    worker.Worker.start = lambda self: None  # type: ignore[method-assign]
    worker.Worker.open_spares = lambda self, *given, **named: None  # type: ignore[method-assign]
    worker.Worker.start_spares = lambda self, count: None  # type: ignore[method-assign]
    vars(benchmark_run)["sees_gpu"] = lambda: False
    vars(gpus)["model_of_all"] = lambda: PLAY.get("model", "")
    vars(gpus)["number_of_gpus"] = lambda: PLAY.get("gpus", 1)


def pytest_configure() -> None:
    limit_files(PLAY.get("file_limit_at_start"))
    for module in (benchmark_run, selfcheck, commit):
        vars(module)["compile_other_kernels"] = compile_other_kernels
    worker.Worker.call = call  # type: ignore[method-assign]
    vars(bridge)["ask_early"] = lambda config: None
    vars(pytest_benchmark.plugin)["get_cpu_info"] = dict  # a tenth of a second, and no matter here
    # Tests run at the same time, and what each imitates is a GPU of its own.
    vars(locks)["take"] = functools.partial(locks.take, folder=Path(PLAY.get("locks", ".git")))
    vars(background)["compile_build"] = compile_build
    vars(contracts)["of_code"] = of_code
    for module in (compile_cost, measurement):
        vars(module)["code_size"] = lambda path: cost_of(path)[0]
    vars(with_revision)["code_digest"] = lambda image, capability: image.image_hash
