"""Tests that what does not do its work gets no figure, and that honest kernels which look like it are not accused."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from pathlib import Path

import pytest

from tests.cheats.expected import CHEATS, GAIN, KERNELS, NOT_WRITTEN, ODD_FAMILIES, Cheat
from tests.cheats.project import (
    HONEST,
    RIGHT,
    TIME,
    Outcome,
    honest_cases,
    outcome_of,
    own_work,
    run,
    run_alone,
    write_project,
)
from tests.stranger import run_pytest, start_pytest
from tools.cheats import describe
from warpwatch.devices.info import DeviceInfo

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
MORE_ROUNDS = "--benchmark-min-rounds=30"  # of untrusted runs, which prove results of samples chosen by chance
SOFTWARE = ("--device=software", "--benchmark-min-rounds=20", "--benchmark-max-time=0.000001")
# One of each kind, which `make test` runs.
QUICK = frozenset(
    {
        "window-first_launches",
        "window-until_there",
        "window-by_value",
        "window-until_believed",
        "window-in_shared",
        "window-timed_shape",
        "mean-not_a_number",
        "turned-replayed",
    }
)
QUICK_HONEST = frozenset({"added_floats-sum_of_floats-128", "total-last_of_epoch-128", "listed-listed_by_warps-128"})
AT_ONCE, AT_ONCE_APART = 16, 5  # cases timed in one run, which a busy machine ends in time too
TRIES = 3  # where a busy host's times decide nothing
TOO_BUSY = "the host is too busy to time"
FOUND_BY_TIMES = frozenset({"window-by_value", "window-by_values", "window-last_result"})  # and by nothing else
LATER = frozenset({"leaves_a_child", "at_exit", "writes_conftest"})  # a run is looked at when it has ended, or the next
TIME_DECIDES = frozenset({"after_a_while"})
FOUND_BY_TESTS = frozenset(
    {
        "first_launch",
        "first_launches",
        "counted_in_managed",
        "every_other",
        "by_address",
        "last_result",
        "behind_the_end",
        "in_shared",
        "in_scratch",
        "when_checked",
        "until_there",
        "some_rows",
        "fewer_terms",
        "zeros",
        "copy_of_input",
        "spoils_input",
        "by_the_clock",
        "not_a_number",
        "constant",
        "zero",
        "in_arguments",
        "forgiven",
    }
)


def parameters(*cheats: Cheat) -> list[object]:
    """Return parameters with their marks."""
    kept: list[object] = []
    for cheat in cheats:
        marks = [] if str(cheat) in QUICK else [pytest.mark.slow]
        kept.append(pytest.param(cheat, marks=marks, id=str(cheat)))
    return kept


def assert_gains_nothing(cheat: Cheat, outcomes: Mapping[str, Outcome], on_gpu: bool, judged_apart: bool) -> None:
    """Assert that a cheat is refused for what it does or, where that may be, that its figure is that of the work.

    ``judged_apart``: no two samples have the same inputs, so that keeping results gains nothing.
    """
    gained, words = describe(cheat, outcomes, on_gpu, judged_apart)
    assert not gained, f"{cheat}: {words}"
    outcome = outcome_of(cheat, outcomes, on_gpu)
    if outcome.figure is None and (outcome.message or not judged_apart):  # apart a call may have no time: skipped
        assert any(words in outcome.message for words in cheat.says), outcome.message


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("cheats"))


Outcomes = Callable[[Collection[str]], dict[str, Outcome]]


@pytest.fixture(scope="module", params=[(), pytest.param(("--untrusted",), marks=pytest.mark.slow)], ids="".join)
def outcomes(request: pytest.FixtureRequest, folder: Path) -> Outcomes:
    """Give outcomes of cases, which are timed with others that this session's tests of the module ask about."""
    apart = "--untrusted" in request.param
    items = [item for item in request.session.items if item.path == request.path]
    chosen = [item.callspec.params for item in items if hasattr(item, "callspec")]
    cheats = [given["benched"] for given in chosen if "benched" in given]
    cases = [cheat.chosen(False) for cheat in cheats if apart or not cheat.untrusted]
    cases += honest_cases((given["honest"] for given in chosen if "honest" in given), False)
    cases = [*dict.fromkeys(cases)]
    most = AT_ONCE_APART if apart else AT_ONCE
    runs = [tuple(cases[i : i + most]) for i in range(0, len(cases), most)]
    options = (*request.param, MORE_ROUNDS) if apart else request.param

    @functools.cache
    def outcomes_of(together: tuple[str, ...]) -> dict[str, Outcome]:
        work = {own_work(cheat, False) for cheat in cheats if cheat.chosen(False) in together}
        return run(run_pytest, folder, TIME, {*together, *work}, *SOFTWARE, *options)

    return lambda cases: dict(chain.from_iterable(outcomes_of(r).items() for r in runs if not {*r}.isdisjoint(cases)))


def decided(cheat: Cheat, found: dict[str, Outcome], folder: Path, apart: bool) -> dict[str, Outcome]:
    """Return outcomes of a cheat and of its honest work, timed again where those of a busy host decide nothing.

    ``found``: of a first run. What the times miss has the figure of its whole work then.
    """
    cases = (cheat.chosen(False), own_work(cheat, False))
    for _ in range(TRIES - 1):
        outcome, work = outcome_of(cheat, found, False), found[cases[1]].least
        missed = str(cheat) in FOUND_BY_TIMES and outcome.figure and work and outcome.figure >= GAIN * work
        if not (TOO_BUSY in outcome.message or missed or (outcome.figure and not work)):
            break
        found = run(run_pytest, folder, TIME, cases, *SOFTWARE, *(("--untrusted", MORE_ROUNDS) if apart else ()))
    return found


@pytest.mark.parametrize("benched", parameters(*(c for c in CHEATS if not c.on_gpu and not c.untrusted)))
def test_what_does_not_do_its_work_gets_no_figure(
    benched: Cheat, outcomes: Outcomes, folder: Path, request: pytest.FixtureRequest
) -> None:
    apart = "--untrusted" in request.node.name
    found = decided(benched, outcomes([benched.chosen(False)]), folder, apart)
    assert_gains_nothing(benched, found, on_gpu=False, judged_apart=apart)


@pytest.mark.parametrize("outcomes", [("--untrusted",)], ids="".join, indirect=True)
@pytest.mark.parametrize("benched", parameters(*(c for c in CHEATS if c.untrusted and c.name not in LATER)))
def test_a_call_that_changes_its_process_gains_nothing(benched: Cheat, outcomes: Outcomes, folder: Path) -> None:
    found = decided(benched, outcomes([benched.chosen(False)]), folder, apart=True)
    assert_gains_nothing(benched, found, on_gpu=False, judged_apart=True)


@pytest.mark.parametrize(
    "honest", [pytest.param(name, marks=[] if name in QUICK_HONEST else [pytest.mark.slow]) for name in HONEST]
)
def test_an_honest_kernel_gets_its_figure(honest: str, outcomes: Outcomes) -> None:
    (case,) = honest_cases([honest], on_gpu=False)
    outcome = outcomes([case])[case]
    assert outcome.message == ""
    assert outcome.figure


@pytest.mark.slow
def test_the_tests_find_most_kernels_and_accuse_no_honest_one(folder: Path) -> None:
    chosen = [*(f"{each}-" for each in KERNELS), *ODD_FAMILIES, *HONEST]
    found = run(run_pytest, folder, RIGHT, chosen, "--device=software")
    by_family = {cheat.family: cheat.name for cheat in KERNELS}  # of a refused family there is no case
    refused = {name.split("-")[1] if "-" in name else by_family[name] for name in found if found[name].message}
    assert refused - TIME_DECIDES == FOUND_BY_TESTS
    assert len([name for name in found if name.startswith((*HONEST,))]) == 2 * len(HONEST)


@pytest.mark.parametrize("alone", parameters(*(c for c in CHEATS if c.name in LATER)))
def test_what_a_call_leaves_for_later_gains_nothing(alone: Cheat, tmp_path_factory: pytest.TempPathFactory) -> None:
    for _ in range(TRIES):
        project = write_project(tmp_path_factory.mktemp("alone"))
        outcomes = run_alone(start_pytest, project, alone, False, *SOFTWARE, MORE_ROUNDS)
        if outcomes[own_work(alone, False)].figure:  # a busy host gives the honest work none
            break
    assert_gains_nothing(alone, outcomes, on_gpu=False, judged_apart=True)
    assert outcomes[own_work(alone, False)].message == ""


@pytest.mark.parametrize("on_gpu", [pytest.param(cheat, id=str(cheat)) for cheat in CHEATS if cheat.on_gpu])
def test_what_only_a_gpu_shows_gains_nothing_there(on_gpu: Cheat, device: DeviceInfo, tmp_path: Path) -> None:
    if not device.has_gpu_clock:
        pytest.skip(f"needs a GPU, since {on_gpu.on_gpu}: run it where there is one, with --device=gpu")
    cases = [on_gpu.chosen(True), own_work(on_gpu, True)]
    outcomes = run(run_pytest, write_project(tmp_path), TIME, cases, "--device=gpu")
    assert_gains_nothing(on_gpu, outcomes, on_gpu=True, judged_apart=False)


def test_there_are_as_many_as_were_asked_for() -> None:
    assert len(KERNELS) >= 24
    assert len(CHEATS) - len(KERNELS) >= 20
    assert len({str(cheat) for cheat in CHEATS}) == len(CHEATS)
    assert len(HONEST) >= 18


@pytest.mark.parametrize(
    ("outcome", "gained", "said"),
    [
        (Outcome(message="", figure=1e-6, least=1e-6), True, "GOT 1.0 µs, 0.10 of the work's"),
        (Outcome(message="", figure=1e-5, least=1e-5), False, "did the work: 10.0 µs, 1.00 of the work's"),
        (
            Outcome(message="Failed:\n2 still hold the poison", figure=None, least=None),
            False,
            "no figure: 2 still hold",
        ),
        (Outcome(message="Failed: odd", figure=None, least=None), False, "no figure: (other words) Failed: odd"),
    ],
)
def test_the_table_says_what_a_cheat_got(outcome: Outcome, gained: bool, said: str) -> None:
    cheat = Cheat("some", (NOT_WRITTEN,), may_work=True)
    work = Outcome(message="", figure=1.1e-5, least=1e-5)
    has_gained, words = describe(cheat, {cheat.case(False): outcome, own_work(cheat, False): work}, on_gpu=False)
    assert has_gained is gained
    assert words.startswith(said)
