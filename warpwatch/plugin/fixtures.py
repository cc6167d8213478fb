"""Fixtures for tests of kernels: the case, its build, the compiled kernel, and what checks and measures it.

Their names begin with ``warpwatch_``, so that no fixture of a repository replaces one that others here depend on.
The short names that tests ask for come last.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.draws import has_few_cases
from warpwatch.catalogue.names import BadCase, print_short, size_name
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import launch_cost, timed_cases
from warpwatch.catalogue.validation import Problem
from warpwatch.catalogue.variants import Variant
from warpwatch.compare.comparison import Comparison
from warpwatch.compare.contracts import broken, sentence
from warpwatch.devices import host_memory, opening
from warpwatch.devices.compile.background import Compilation
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.evaluate import judged
from warpwatch.devices.gpu import Device
from warpwatch.devices.info import HALVED, QUICK, SOFTWARE_LAUNCHES, DeviceInfo
from warpwatch.devices.kernel import Kernel, NotedLaunch
from warpwatch.devices.machine import DeviceError, NoFigure
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import NoDevice
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.worker import Worker, call_missing
from warpwatch.plugin import judge
from warpwatch.plugin.benchmark_run import RUN, asked_observers
from warpwatch.plugin.cases import is_timed, parameter_of
from warpwatch.plugin.compile_step import COMPILATION
from warpwatch.plugin.contracts import Contracts, next_steps
from warpwatch.plugin.device import PROJECT, WORKER, open_device
from warpwatch.plugin.options import spelled, value_of
from warpwatch.plugin.pytest_benchmark_bridge import BenchmarkFixture, timed_rounds
from warpwatch.plugin.xdist.processes import is_part
from warpwatch.revision.declared import own_identity, with_code
from warpwatch.timing.measurement import Budget, announce_next
from warpwatch.verdict.contracts import BrokenContract, Clause, Standing


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Checks, times and checks again the case of a test, as ``measure()``.

    ``cold``: L2 is scrubbed before each launch that is timed. ``budget``: the time that a case may take.
    ``later``: the cases that will be measured after this one.
    """

    benchmark: BenchmarkFixture
    kernel: Kernel
    case: Case
    cold: bool
    budget: Budget
    comparison: Comparison
    contracts: Contracts | None = None
    later: Iterable[Case] = ()

    def __repr__(self) -> str:
        return f"Measure({self.case.id})"

    _repr_pretty_ = print_short

    def __call__(self) -> None:
        """Measure. A slower kernel fails after all cases are timed, because it is known only then."""
        try:
            self._measure()
        except NoFigure as reason:
            pytest.skip(str(reason))

    def _measure(self) -> None:
        if not self.case.variant.on_host and self.comparison.measures(self.case, self.kernel.image):
            announce_next(self.kernel.worker, self.case, self.later)
        measured = self.comparison.measure(self.kernel, self.case, self.cold, self.budget)
        if measured is None:
            if self.contracts:
                self.contracts.add(self.kernel, self.case)
            return
        benchmark = self.benchmark
        if benchmark.enabled:
            measured.take_for_rounds()
        if not self.case.variant.on_host:
            version = measured.facts.get("library", "")
            identity = with_code(own_identity(self.case), self.kernel.image.image_hash, version)
            measured.facts["identity"] = msgspec.to_builtins(identity)
        rounds, parameters = measured.rounds, self.case.parameters
        with timed_rounds(benchmark, measured.sample, rounds, parameters=parameters, facts=measured.facts) as stats:
            if stats:
                measured.finish(stats.median)
            measured.check(stats.median if stats else None)
            measured.record_bits()
        if stats:
            measured.observe(self.budget.observers)
            self.comparison.add(measured, stats.data)
        if self.contracts:
            self.contracts.add(self.kernel, self.case, measured, stats.data if stats else ())


# Copies of operands and result: as drawn, as read back, in the memory of a device that uses the host's, of further
# inputs, and as the reference computes with them.
COPIES = 6
NOTED = pytest.StashKey[list[NotedLaunch]]()  # of a test, for compute-sanitizer
FAILURES = pytest.StashKey[list[str]]()  # of a test: messages of its checks that failed
# Properties of a test, in JUnit's file too: why no further inputs were tried; what is odd of a case that is right; how
# often it was asked for the same bits, and whether it gave them.
LEFT_OUT, REMARK, REPEATED = "further inputs left out", "remark", "same bits again"
LARGE_SHOWN = 3  # sizes that the reason of a skip names
AGAIN = 3  # launches of a test of random inputs, where another one has launched its case often
# Launches that ask for the same bits: of a slow case, or where only the declaration asks; and with --deterministic.
REPEATS, MANY_REPEATS = 4, 12


def assert_right(
    kernel: Kernel,
    case: Case,
    again: str,
    *,
    exact: bool,
    placement: Placement = PLAIN,
    seed: int = 0,
    launches: int = 1,
    further: bool = False,
) -> list[tuple[str, object]]:
    """Fail the test unless the result is right and nothing else was written.

    ``exact``: inputs are whole numbers whose sums are exact in any order, so that results must be equal to the bit;
    where the family says that they are. Otherwise inputs are random, and the family's tolerance applies.
    ``placement``: the layout of arrays and blocks. ``again``: the command that runs this test alone, for the message.
    ``launches``: on these inputs, all of them compared. ``further``: other inputs are tried too (catalogue/draws.py).
    Returns properties of the test: why they were not tried, and what is odd of a case that is right.
    """
    host_memory.require(case, host_memory.peak_bytes(case, copies=COPIES))
    try:
        tested = kernel.evaluate(
            case, again, seed=seed, launches=launches, exact=exact, further=further, placement=placement
        )
    except DeviceError as error:
        raise DeviceError(with_command(str(error), again), error.lost) from None
    _fail_where(tested.faults)
    properties = {LEFT_OUT: tested.left_out, REMARK: tested.remark}
    return [(name, text) for name, text in properties.items() if text]


def _valid(case: Case) -> Case:
    """Return a case or, where Hypothesis has drawn a shape that ``valid`` refuses, that of the nearest valid one.

    Raises BadCase where a shape that is not drawn is refused.
    """
    if case.family.is_valid(case.shape, case.variant):
        return case
    hypothesis: Any = sys.modules.get("hypothesis")
    near = case.family.near(case.shape, case.variant)
    if near and hypothesis and hypothesis.currently_in_test_context():
        return replace(case, shape=near)
    raise BadCase(f"{case.id}: {case.problem}")


def _fail_where(problems: Sequence[str]) -> None:
    if problems:
        failure = pytest.fail.Exception("\n".join(problems), pytrace=False)
        failure.__context__ = WrongResult.of(problems)  # its kind and elements, for the record of this run
        raise failure from None


@dataclass(frozen=True, kw_only=True)
class Check:
    """Check of a case, which fails the test unless the result is right: ``check()``.

    ``case``: of a test that is marked with cases; None for one that is marked with builds. ``again``: the command that
    runs this test alone. ``by_hand``: options of this run for ``warpwatch run``. ``launches``: of a case on one of the
    shapes that its family is tested on, unless its cost is above ``cheap``. ``of_cheapest``: of the cheapest case of a
    kernel. ``launched``: such cases, and the test that launched each so often: other tests of it need not.
    ``clauses``: checks the machine code of a case against its contract, once. ``properties``: of the test, to which
    remarks are added. ``failures``: messages of the checks that failed, whatever the test makes of them. ``other``:
    with --deterministic, returns the worker of another process. ``repeated``: cases that were asked for the same bits.
    """

    kernel: Kernel
    case: Case | None
    again: str
    by_hand: str = ""
    launches: int = 1
    cheap: float = math.inf
    of_cheapest: int = 0
    launched: dict[str, str] = field(default_factory=dict)
    properties: list[tuple[str, object]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    other: Callable[[], Worker] | None = None
    clauses: Callable[[Case], Sequence[Clause]] = lambda case: ()
    repeated: set[str] = field(default_factory=set)

    def __repr__(self) -> str:
        return f"Check({self.case.id if self.case else self.kernel.build.id})"

    _repr_pretty_ = print_short

    def __call__(
        self, case: Case | None = None, *, exact: bool = False, placement: Placement = PLAIN, seed: int | None = None
    ) -> None:
        """Check the test's own case, or another of its build, by ``assert_right``.

        ``seed``: of the random operands. Where it is given, the message names the command that runs that one case.
        """
        chosen = case or self.case
        if chosen is None:
            pytest.fail("check() needs a case where the test is marked with builds: check(case)", pytrace=False)
        chosen = _valid(chosen)
        again = self.again if seed is None else f"python -m warpwatch run {chosen.id} --seed {seed}{self.by_hand}"
        repeats = chosen == self.case and self._is_repeated(chosen)
        launches = 1 if exact or not repeats else min(self.launches, AGAIN)
        if repeats and self.launched.setdefault(chosen.id, again) == again:
            launches = self._launches(chosen)
        try:
            more = assert_right(
                self.kernel,
                chosen,
                again,
                exact=exact,
                placement=placement,
                seed=seed or 0,
                launches=launches,
                further=repeats,
            )
            self.properties.extend(more)
            if chosen == self.case:
                self._require_contract(chosen)
            if repeats and chosen.id not in self.repeated:
                self.repeated.add(chosen.id)
                self._require_same_bits(chosen, again, known=REMARK in dict(more))
        except (Exception, pytest.fail.Exception) as error:
            self.failures.append(str(error))
            raise

    def _require_contract(self, case: Case) -> None:
        """Fail the test where machine code breaks a limit; remark on what could not be checked."""
        clauses = self.clauses(case)
        unknown = [each for each in clauses if each.standing == Standing.UNKNOWN]
        self.properties.extend((REMARK, f"{case.id}: contract: {sentence(each)}") for each in unknown)
        if said := broken(clauses):
            raise BrokenContract("\n".join([f"{case.id}: {said[0]}", *said[1:], *next_steps(clauses)]))

    def _require_same_bits(self, case: Case, again: str, *, known: bool) -> None:
        """Ask a case for the same bits again, where the declaration requires them or --deterministic asks for them.

        The inputs are random ones, because sums of small whole numbers are the same in every order. ``known``: the
        launches before have shown that bits differ.
        """
        asked = self.other is not None and case.deterministic is not False
        if case.family.prints or not (asked or case.deterministic or case.same_for):
            return
        launches = MANY_REPEATS if asked and case.launch_cost <= self.cheap else REPEATS
        if known:
            launches, asked = 1, False
        found = self.kernel.repeat(case, launches=launches, other=self.other() if asked and self.other else None)
        differs = case.deterministic is not False and (known or bool(found.differing))
        problems, remark = judged(case, found.differing, again) if found.differing else ([], "")
        problems += [f"{case.id}: {fewer} (same_for)\n  again     {again}" for fewer in found.fewer]
        self.properties.append((REPEATED, "no" if differs or found.fewer else "yes"))
        if remark:
            self.properties.append((REMARK, remark))
        _fail_where(problems)

    def _launches(self, case: Case) -> int:
        """Return how often a case is launched: more often where that is the cheapest of its kernel, because it counts.

        What a kernel leaves behind for its next launches depends on its source more than on blocks and shapes.
        """
        family, variant = case.family, case.variant
        first = Build(family, variant, variant.listed[0], family.dtypes_of(variant)[0])
        return max(self.launches, self.of_cheapest) if case == _cheapest(first) else self.launches

    def _is_repeated(self, case: Case) -> bool:
        """Tell whether a case is launched several times: a tested one that is cheap, or the cheapest of its build.

        Where a kernel has few cases, its edges and other shapes count as tested ones.
        """
        tests = case.family.tests_of(case.variant)
        if case.shape not in tests or case.launch_cost <= self.cheap:
            return case.launch_cost <= self.cheap and (case.shape in tests or has_few_cases(case))
        return case.launch_cost == _cheapest(case.build).launch_cost


@functools.cache
def _cheapest(build: Build) -> Case:
    """Return the tested case of a build whose launch costs least."""
    cases = (Case(build, shape) for shape in build.family.tests_of(build.variant))
    return min(cases, key=lambda case: case.launch_cost)


def with_command(message: str, again: str) -> str:
    """Return the message with the command that repeats it at its end, if it has none yet."""
    return message if "\n  again     " in message else f"{message}\n  again     {again}"


def command_of(item: pytest.Item) -> str:
    """Return the command that runs a test: ``pytest "correctness/test_kernels.py::test_exact[...]"`` with options."""
    return command_for(item.config, item.nodeid)


def command_for(config: pytest.Config, nodeid: str) -> str:
    options = _chosen(config, spelled(config, "device"), spelled(config, "schedule-seed"))
    tools = ",".join(value_of(config, "sanitizer"))
    options += f" {spelled(config, 'sanitizer')} {tools}" * bool(tools)
    options += f" {spelled(config, 'deterministic')}" * bool(value_of(config, "deterministic"))
    if value_of(config, "untrusted"):
        return f'pytest "{judge.written(nodeid)}" --untrusted{options}'
    return f'pytest "{nodeid}"{options}'


def _chosen(config: pytest.Config, device_option: str, seed_option: str) -> str:
    """Return the options that change what a kernel does, where given: `` --device software --schedule-seed 3``."""
    device, seed = value_of(config, "device"), value_of(config, "schedule-seed")
    return ("" if device == "auto" else f" {device_option} {device}") + (
        "" if seed is None else f" {seed_option} {seed}"
    )


@pytest.fixture(scope="session")
def warpwatch_project(pytestconfig: pytest.Config) -> Project:
    """The kernels of this repository."""
    return pytestconfig.stash[PROJECT]


@pytest.fixture
def warpwatch_parameter(request: pytest.FixtureRequest) -> Case | Build:
    """The case or build of a test that is marked with ``cases`` or ``builds``.

    A declaration with a mistake fails here. A benchmark skips cases that are too large for a slow device.
    """
    parameter = parameter_of(request.node)
    if isinstance(parameter, Problem):
        pytest.fail(str(parameter), pytrace=False)
    if parameter is None:
        pytest.fail('needs cases or builds: mark the test with @pytest.mark.cases("tested")', pytrace=False)
    if isinstance(parameter, Case) and is_timed(request.node) and not parameter.variant.on_host:
        device: DeviceInfo = request.getfixturevalue("warpwatch_device")
        if parameter.launch_cost > device.largest_launch_cost:
            sizes = value_of(request.config, "sizes")
            pytest.skip(too_large(parameter.family, device.name, device.largest_launch_cost, sizes))
    return parameter


@functools.cache
def too_large(family: Family, device: str, most: float, sizes: tuple[Shape, ...] = ()) -> str:
    """Say which sizes of a family's benchmarks are too large for a slow device, and which is quick there.

    ``device``: its name. ``most``: the largest Case.launch_cost that a benchmark runs there. ``sizes``: those of
    --sizes, in place of the declared ones.
    """
    on_device = [case for case in timed_cases((family,), sizes) if not case.variant.on_host]
    timed = [case for case in on_device if not case.variant.call] or on_device
    timed_builds = {case.build for case in timed}

    cost = functools.partial(launch_cost, timed_builds)
    large = [*dict.fromkeys(case.shape for case in timed if case.launch_cost > most)]
    shape, named = min(large, key=math.prod), ", ".join(map(size_name, large[:LARGE_SHOWN]))
    more = f" and {len(large) - LARGE_SHOWN} more" if len(large) > LARGE_SHOWN else ""
    halves = [shape]
    while max(shape) >= HALVED and cost(shape) > QUICK * most:
        longest = shape.index(max(shape))
        shape = (*shape[:longest], shape[longest] // 2, *shape[longest + 1 :])
        halves.append(shape)
    valid = [each for each in halves if cost(each) <= most]
    quick = [f"{size_name(each)} is quick there" for each in valid if cost(each) <= QUICK * most]
    verb, pronoun = ("are", "them") if len(large) > 1 else ("is", "it")
    cures = (quick or [f"{size_name(each)} would do" for each in valid[:1]])[:1]
    cure = ", or ".join([*cures, f"time {pronoun} on a GPU"])
    subject = f"{family.name}: {' x '.join(family.sizes)} = {named}{more}"
    return f"{subject} {verb} too large for {device}, which would take seconds for a launch: {cure}"


@pytest.fixture
def warpwatch_case(warpwatch_parameter: Case | Build) -> Case:
    """The case of a test that is marked with ``cases``."""
    if not isinstance(warpwatch_parameter, Case):
        pytest.fail("a test that is marked with builds has no case: mark it with cases", pytrace=False)
    return warpwatch_parameter


@pytest.fixture
def warpwatch_build(warpwatch_parameter: Case | Build) -> Build:
    """The build of a test that is marked with ``cases`` or ``builds``."""
    return warpwatch_parameter.build if isinstance(warpwatch_parameter, Case) else warpwatch_parameter


MISSING = pytest.StashKey[dict[Variant, str]]()  # why a variant cannot be used, as its worker has said


@pytest.fixture
def warpwatch_kernel(warpwatch_build: Build, request: pytest.FixtureRequest) -> Iterator[Kernel]:
    """The compiled kernel of a case or a build; for a benchmark also the build without checks that is timed."""
    build, stash = warpwatch_build, request.config.stash
    worker, target, timing = stash[WORKER], None, None
    if not build.variant.on_host:
        device = _capable_device(build, request)
        target, timing = device.target, device.timing_target
        known = stash.setdefault(MISSING, {})
        if build.variant not in known:
            known[build.variant] = worker.call(call_missing, build)
        if missing := known[build.variant]:
            pytest.skip(missing)
    elif worker.settings.untrusted:
        pytest.skip("--untrusted runs no C++ for the host, in whose process nothing could be believed: leave it out")
    try:
        checked = stash[COMPILATION].image(build, target)
        timed = stash[COMPILATION].image(build, timing) if is_timed(request.node) else checked
    except CompileError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    yield Kernel(worker, build, timed, checked, request.node.stash.get(NOTED, None))
    if build.variant.call:
        judge.note_confinement(worker)


def _capable_device(build: Build, request: pytest.FixtureRequest) -> DeviceInfo:
    """The device of this run; a test of a build that it is too old for is skipped."""
    device: DeviceInfo = request.getfixturevalue("warpwatch_device")
    if problem := device.capability_problem(build.variant):
        with_software = f", or with {spelled(request.config, 'device')}=software"
        softly = with_software if device.is_replaced_by_software(build.variant) else ""
        pytest.skip(f"{problem}{softly}")
    return device


@pytest.fixture
def warpwatch_check(
    warpwatch_kernel: Kernel, warpwatch_parameter: Case | Build, request: pytest.FixtureRequest
) -> Check:
    """A function that runs a case and fails the test unless the result is right."""
    launches, cheap = launches_of(request)
    compilation = request.config.stash[COMPILATION]
    return Check(
        kernel=warpwatch_kernel,
        case=warpwatch_parameter if isinstance(warpwatch_parameter, Case) else None,
        again=command_of(request.node),
        by_hand=_chosen(request.config, "--device", "--schedule-seed"),
        launches=launches,
        cheap=cheap,
        of_cheapest=0 if value_of(request.config, "launches") else DeviceInfo.launches,
        launched=request.config.stash.setdefault(LAUNCHED_BY, {}),
        clauses=functools.partial(request.config.stash[RUN].contracts.once, warpwatch_kernel, compilation),
        properties=request.node.user_properties,
        failures=request.node.stash.setdefault(FAILURES, []),
        other=functools.partial(other_worker, request.config) if value_of(request.config, "deterministic") else None,
        repeated=request.config.stash.setdefault(REPEATED_CASES, set()),
    )


REPEATED_CASES = pytest.StashKey[set[str]]()  # cases that were asked for the same bits
OTHER = pytest.StashKey[Worker]()  # the worker of another process, whose results have to have the same bits


def other_worker(config: pytest.Config) -> Worker:
    """Return a worker in another process than that of this run, which the first call starts."""
    if OTHER not in config.stash:
        config.stash[OTHER] = Worker(config.stash[PROJECT], config.stash[WORKER].settings)
        config.add_cleanup(config.stash[OTHER].stop)
    return config.stash[OTHER]


LAUNCHED_BY = pytest.StashKey[dict[str, str]]()  # cases that were launched several times, and the test that did it


def launches_of(request: pytest.FixtureRequest) -> tuple[int, float]:
    """Return how often a case is launched on the same inputs, and up to which cost: all of them, where it is chosen."""
    if chosen := value_of(request.config, "launches"):
        return chosen, math.inf
    if request.getfixturevalue("warpwatch_build").variant.on_host:
        return SOFTWARE_LAUNCHES, math.inf
    device: DeviceInfo = request.getfixturevalue("warpwatch_device")
    return device.launches, device.cheap_launch_cost


@pytest.fixture
def warpwatch_measure(
    benchmark: BenchmarkFixture,
    warpwatch_kernel: Kernel,
    warpwatch_case: Case,
    warpwatch_comparison: Comparison,
    request: pytest.FixtureRequest,
) -> Measure:
    """A function that checks and times the case of a test, and adds it to the comparison of this run."""
    config, option = request.config, request.config.getoption
    budget = Budget(
        float(option("benchmark_max_time")),
        option("benchmark_min_rounds"),
        option("benchmark_warmup"),
        observers=asked_observers(config),
        serial_rounds=value_of(config, "serial-rounds"),
    )
    return Measure(
        benchmark=benchmark,
        kernel=warpwatch_kernel,
        case=warpwatch_case,
        cold=config.stash[RUN].cold,
        budget=budget,
        comparison=warpwatch_comparison,
        contracts=config.stash[RUN].contracts,
        later=later_cases(request.node, warpwatch_comparison),
    )


@pytest.fixture(scope="session")
def warpwatch_comparison(pytestconfig: pytest.Config) -> Comparison:
    """The comparison that this run makes: with a baseline, with another revision, with itself, or none.

    A process of xdist's makes one where bench/ is named on the command line.
    """
    run = pytestconfig.stash[RUN]
    if is_part(pytestconfig) and not run.measures_part:
        refused = "times are taken under -n only where bench/ is named, so that each process has a GPU of its own"
        pytest.fail(f"{refused}: leave -n out", pytrace=False)
    return run.comparison


@pytest.fixture(scope="session")
def _warpwatch_device_of_pytest(
    warpwatch_device: DeviceInfo, pytestconfig: pytest.Config
) -> Generator[tuple[Device, dict[str, str]]]:
    """The device of this run, opened in pytest's own process until the session ends, and its environment variables."""
    before = dict(os.environ)
    try:
        opened = opening.open_device(pytestconfig.stash[WORKER].settings)
    except (NoDevice, DeviceError, CompileError) as error:
        message = f"{warpwatch_device.name} cannot be opened in pytest's own process: {error}"
        raise pytest.fail.Exception(message, pytrace=False) from None
    own = {name: value for name, value in os.environ.items() if before.get(name) != value}
    for name in own:  # set for a test that uses the device, and for no other: those may start programs of their own
        del os.environ[name]
    os.environ.update(before)
    yield opened, own
    opened.close()


@pytest.fixture
def warpwatch_source_module(warpwatch_build: Build, request: pytest.FixtureRequest) -> Generator[Any]:
    """The build of a test as PyCUDA's SourceModule, with ``get_function`` and ``get_global``, in pytest's own process.

    What the test launches runs there too, with nothing between it and PyCUDA: a kernel that breaks its context breaks
    the tests after it, and one that never ends stops the run. The fixture ``kernel`` has neither of these risks.
    """
    build = warpwatch_build
    if build.variant.on_host or build.variant.call:
        pytest.fail(f"{build.id} is not a CUDA source, so it has no SourceModule", pytrace=False)
    device = _capable_device(build, request)
    opened, variables = request.getfixturevalue("_warpwatch_device_of_pytest")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            module = opened.source_module(request.config.stash[COMPILATION].image(build, device.target).path)
        except (CompileError, DeviceError) as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        yield module


NEXT = pytest.StashKey["pytest.Item | None"]()  # the test after the one that runs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    item.config.stash[NEXT] = nextitem
    return (yield)


def later_cases(item: pytest.Item, comparison: Comparison) -> Iterator[Case]:
    """Yield the cases that will be measured after ``item``, in their order; a process of xdist's knows the next alone.

    Everything is compiled before anything is timed, so that it is known which machine code differs.
    """
    config, items, device = item.config, item.session.items, open_device(item.config)
    following = [config.stash[NEXT]] if is_part(config) else itertools.islice(items, items.index(item) + 1, None)
    for later in following:
        case = parameter_of(later) if later and is_timed(later) else None
        if not isinstance(case, Case) or not isinstance(device, DeviceInfo):
            continue
        if not case.variant.on_host and not case.variant.runs_on(device.capability):
            continue
        target = None if case.variant.on_host else device.timing_target
        try:
            image = config.stash[COMPILATION].image(case.build, target)
        except CompileError:
            continue
        if comparison.measures(case, image):
            yield case


@pytest.fixture
def check(warpwatch_check: Check) -> Check:
    """``check()`` runs the case of a test and fails the test unless the result is right."""
    return warpwatch_check


@pytest.fixture
def measure(warpwatch_measure: Measure) -> Measure:
    """``measure()`` checks and times the case of a test, and adds it to the comparison of this run."""
    return warpwatch_measure


@pytest.fixture
def case(warpwatch_case: Case) -> Case:
    """The case of a test that is marked with ``cases``."""
    return warpwatch_case


@pytest.fixture
def build(warpwatch_build: Build) -> Build:
    """The build of a test that is marked with ``cases`` or ``builds``."""
    return warpwatch_build


@pytest.fixture
def kernel(warpwatch_kernel: Kernel) -> Kernel:
    """The compiled kernel of a case or a build."""
    return warpwatch_kernel


@pytest.fixture
def source_module(warpwatch_source_module: Any) -> Any:
    """The build of a test as PyCUDA's SourceModule, in pytest's own process."""
    return warpwatch_source_module


@pytest.fixture(scope="session")
def device(warpwatch_device: DeviceInfo) -> DeviceInfo:
    """The device; a test that asks for it is skipped where there is none."""
    return warpwatch_device


@pytest.fixture(scope="session")
def project(warpwatch_project: Project) -> Project:
    """The kernels of this repository."""
    return warpwatch_project


@pytest.fixture(scope="session")
def compilation(warpwatch_compilation: Compilation) -> Compilation:
    """The compilation of the builds of this run."""
    return warpwatch_compilation
