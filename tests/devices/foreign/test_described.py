"""Tests that declarations arrive as data: the same cases and numbers as where they are imported, and nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.project import PROJECT, ROOT
from warpwatch.catalogue import declaration
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.catalogue.setting import BadProject, Setting
from warpwatch.catalogue.validation import problems
from warpwatch.devices.foreign import shared_arrays
from warpwatch.devices.foreign.described import DescribedProject, load_described
from warpwatch.devices.references import expected
from warpwatch.revision.declared import own_identity
from warpwatch.runs.identity import difference

HEAD = "import os, sys\nimport numpy as np\nimport warpwatch as ww\n"
FAMILY = """
def family(name="own", **more):
    usual = dict(
        sizes=("n",), dtypes=("float32",), arrays=lambda n: {"x": ww.In(n), "y": ww.Out(n)}, reference=lambda x: x,
        tests=((5,), (33,)), variants=(ww.kernel("copy", configurations=((32,),), source="copy.cu", x=0, y=None),),
    )
    return ww.Family(name, **usual | more)
"""


@pytest.fixture(autouse=True)
def _families() -> Iterator[None]:
    """Give other tests the families of this process back."""
    known = dict(declaration._families)
    yield
    declaration._families.update(known)


@pytest.fixture(scope="module")
def described() -> Iterator[DescribedProject]:
    """Give this repository's declarations as data."""
    known = dict(declaration._families)
    project = load_described(Setting(root=ROOT, module="kernels"))
    declaration._families.update(known)
    yield project
    project.stop()


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Any]:
    """Give a function that loads what a module declares."""
    projects: list[DescribedProject] = []

    def load(code: str, seconds: float = 20.0) -> DescribedProject:
        (tmp_path / "copy.cu").touch()
        (tmp_path / "declared_here.py").write_text(HEAD + FAMILY + textwrap.dedent(code))
        projects.append(load_described(Setting(root=tmp_path, module="declared_here"), seconds))
        return projects[-1]

    yield load
    for project in projects:
        project.stop()


def test_every_case_of_this_repository_is_the_same(described: DescribedProject) -> None:
    for cases in (tested_cases, timed_cases):
        ours, theirs = cases(PROJECT.families), cases(described.families)
        assert [case.id for case in theirs] == [case.id for case in ours]
        for mine, other in zip(ours, theirs, strict=True):
            assert (other.arrays, other.work, other.launch_cost) == (mine.arrays, mine.work, mine.launch_cost)
            assert [(step.entry, step.launch) for step in other.steps] == [(s.entry, s.launch) for s in mine.steps]
            assert (other.reference_case, other.fallback) == (mine.reference_case, mine.fallback)
            assert other.build.all_macros == mine.build.all_macros
            assert other.build.source == mine.build.source
    assert problems(described.families) == ()


SOME = (
    "matmul-struct_naive-8x8-17x33x65-float32",
    "matmul-tiled-16x16-17x33x65-int32",
    "separable-naive-32-17x33x4-float32",
    "conv2d-constant_filter-16x16-33x17x3-float64",
    "copy-naive-256-1000-float32",
)


@pytest.mark.parametrize("exact", [False, True])
def test_inputs_and_right_results_are_the_same(described: DescribedProject, exact: bool) -> None:
    least: dict[str, Case] = {}
    for case in tested_cases(PROJECT.families):
        least.setdefault(f"{case.family.name}-{case.dtype}", case)
    for mine in least.values():
        other = find_case(described.families, mine.id)
        inputs, theirs = ((exact_inputs if exact else random_inputs)(case, 3) for case in (mine, other))
        assert inputs.keys() == theirs.keys()
        assert all(theirs[name].tobytes() == array.tobytes() for name, array in inputs.items())
        right, foreign = expected(mine, inputs), expected(other, theirs)
        assert right.keys() == foreign.keys()
        for name, value in right.items():
            assert np.array_equal(value.reference, foreign[name].reference)
            assert value.reference.dtype == foreign[name].reference.dtype
            assert np.array_equal(np.asarray(value.bound), np.asarray(foreign[name].bound))


def test_launches_and_identities_are_the_same(described: DescribedProject) -> None:
    least = {case.build: case for case in reversed(tested_cases(PROJECT.families)) if not case.variant.on_host}
    for mine in least.values():
        other = find_case(described.families, mine.id)
        assert not difference(own_identity(mine), own_identity(other)).changed
        if not mine.variant.call:
            at = {array.name: 4096 * (i + 1) for i, array in enumerate(mine.arrays)}
            for a, b in zip(mine.steps, other.steps, strict=True):
                assert list(map(repr, mine.arguments(a, at))) == list(map(repr, other.arguments(b, at)))


def test_own_inputs_are_drawn_by_the_same_random_numbers(loaded: Any) -> None:
    project = loaded("OWN = family(draw=lambda rng, n: {'x': rng.random(n, np.float32)})")
    case = tested_cases(project.families)[0]
    rng = np.random.default_rng(np.random.SeedSequence([7, 5]))
    assert np.array_equal(random_inputs(case, 7)["x"], rng.random(5, np.float32))


MISTAKES = [
    ("sizes='n'", "sizes is 'n': give a tuple of names"),
    ("dtypes=['float32']", "dtypes is ['float32']: give a tuple"),
    ("arrays=lambda q: {}", "arrays cannot be used: it asks for 'q'; it can be given"),
    ("arrays=lambda *n: {}", "arrays cannot be used: it takes *n, which has no name"),
    ("arrays=lambda n: 1 / 0", "arrays cannot be used: ZeroDivisionError: division by zero"),
    ("arrays=lambda n: sys.exit(0)", "arrays cannot be used: it would end the process, by SystemExit(0)"),
    ("arrays=lambda n: {'x': object()}", "arrays of 1 has 'x' = <object object>: declare it by In"),
    ("tolerance=object()", "tolerance is <object object>"),
    ("reference=lambda x: x.astype(object)", "reference cannot be used: an array of object does not travel"),
    ("reference=lambda x: os.kill(os.getpid(), 9)", "reference cannot be used: ended the process in which it ran"),
    ("reference=lambda x: x.tolist()", "reference at 5, float32, returns list: give a NumPy array"),
    ("work=lambda n: ww.Work(1, 0)", "work at 1, float32, says bytes = 0"),
]


def test_a_mistake_is_said_as_where_it_is_imported(loaded: Any) -> None:
    families = "".join(f"F{i} = family('own{i}', {declared})\n" for i, (declared, _) in enumerate(MISTAKES))
    found = problems(loaded(f"{families}OTHER = family('other')").families)
    assert [problem.family for problem in found] == [f"own{i}" for i in range(len(MISTAKES))]  # the right one runs
    for problem, (_, sentence) in zip(found, MISTAKES, strict=True):
        assert sentence in str(problem)


def test_what_only_an_untrusted_run_refuses_is_said(loaded: Any) -> None:
    project = loaded(
        """
        SAME = family("same", draw=lambda n: {"x": np.ones(n, np.float32)})
        OFFSETS = family(
            "offsets", draw=lambda n: {"x": np.arange(n, dtype=np.int32)}, reference=lambda x, z: z,
            arrays=lambda n: {"x": ww.In(n, "int32"), "z": ww.In(n), "y": ww.Out(n)},
        )
        DRAWN = family("drawn", draw=lambda n, rng: {"x": rng.random(n, np.float32)})
        kernel = ww.kernel("copy", configurations=((32,),), source="copy.cu", x=0, y=None, flags=("-O2", "-ccbin=."))
        FLAG = family("flag", variants=(kernel,))
        """
    )
    try:
        declaration.draw_by(1)
        found = list(map(str, problems(project.families)))
    finally:
        declaration.draw_by(None)
    assert found == [
        "family same: draw at 33, float32, returns the same x for every seed of `rng`: take the numbers from `rng`",
        "family flag, variant copy: flags has '-ccbin=.': --untrusted takes options that change code, and no others",
    ]


def test_what_does_not_return_is_ended_and_the_next_question_is_answered(loaded: Any) -> None:
    project = loaded("import time\nOWN = family(fits=lambda n: time.sleep(60) if n == 7 else None)", seconds=0.3)
    family = project.families[0]
    with pytest.raises(TypeError, match=r"did not return within 0\.3 s"):
        family.problem_of((7,))
    assert family.problem_of((5,)) is None


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import nowhere", "declared_here.py:11: ModuleNotFoundError: No module named 'nowhere'"),
        ("print('last words')\nos._exit(3)", r"exit status 3.*it printed last: last words"),
        ("FAMILIES = ()", "FAMILIES in .* is empty"),
    ],
)
def test_declarations_that_cannot_be_read_are_said(loaded: Any, code: str, sentence: str) -> None:
    with pytest.raises(BadProject, match=sentence):
        loaded(code)


def test_declarations_that_differ_between_processes_are_said(loaded: Any) -> None:
    project = loaded("OWN = family('own' + os.urandom(4).hex())")
    assert "its declarations differ from one process to the next" in str(*problems(project.families))


def test_nothing_of_the_declarations_runs_in_this_process(loaded: Any, tmp_path: Path) -> None:
    project = loaded(
        """
        import atexit, warpwatch.timing.timer
        warpwatch.timing.timer.GpuTimer = None
        atexit.register(print, "left")
        os.environ["LEFT"] = "behind"
        class Family(ww.Family):
            def __reduce__(self):
                return os.system, ("touch ran",)
        OWN = family(reference=type("R", (), {"__call__": lambda self, x: x, "__reduce__": lambda self: 1 / 0})())
        """
    )
    import os  # noqa: PLC0415

    from warpwatch.timing import timer  # noqa: PLC0415

    assert [str(problem) for problem in problems(project.families)] == []
    assert timer.GpuTimer is not None
    assert "LEFT" not in os.environ
    assert not (tmp_path / "ran").exists()


def test_references_are_asked_in_a_process_of_their_own(loaded: Any) -> None:
    project = loaded(
        """
        left = []
        def draw(rng, n):
            left.append(1)
            return {"x": rng.random(n, np.float32)}
        OWN = family(draw=draw, reference=lambda x: x + len(left))
        """
    )
    case = tested_cases(project.families)[0]
    inputs = random_inputs(case, 0)
    assert np.array_equal(expected(case, inputs)["y"].reference, inputs["x"])


def test_large_inputs_are_mapped_where_references_run(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project = loaded("OWN = family(reference=lambda x: np.append(x * 2, [x.base is not None, x.flags.writeable]))")
    monkeypatch.setattr(shared_arrays, "LEAST_BYTES", 0)
    x = shared_arrays.empty((3,), np.dtype("float64"))
    x[:] = 1.0, 2.0, 3.0
    assert project.families[0].reference(x=x).tolist() == [2.0, 4.0, 6.0, 1.0, 0.0]
    assert project.families[0].reference(x=x.copy()).tolist() == [2.0, 4.0, 6.0, 1.0, 1.0]
