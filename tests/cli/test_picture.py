"""Tests the pictures: every rung has its line, which is told apart from the others, and a name that can be read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from tests.report.test_ladder import CASES, committed
from warpwatch.catalogue.cases import find_case
from warpwatch.cli.picture import pictures
from warpwatch.report.entries import Results, share
from warpwatch.report.pictures import Picture, shares
from warpwatch.report.tables import kernel_times
from warpwatch.runs.record import BadRun, RunRecord


def shares_of(runs: list[RunRecord], family: str, dtype: str) -> Picture:
    return shares(Results(families=FAMILIES, runs=runs).by_type(family)[dtype])


def test_a_rung_has_the_share_of_its_best_block() -> None:
    times, drawn = kernel_times(committed()), shares_of(committed(), "matmul", "float32")
    assert (drawn.places[0], drawn.places[-1]) == ("128x128x128", "4096x4096x4096")
    assert "serial" not in drawn.lines
    assert drawn.above == {"matmul-cublas": dict.fromkeys(drawn.places, 1.0)}
    assert drawn.y == "share of matmul-cublas"
    blocks = [find_case(FAMILIES, f"matmul-tiled-{b}x{b}-4096x4096x4096-float32") for b in (8, 16, 32)]
    best = max(value for case in blocks if (value := share(CASES, case, times)))
    assert drawn.lines["tiled"]["4096x4096x4096"] == best


def looks(svg: str) -> list[tuple[str, str]]:
    """Return colour and marker of each line of an SVG that has markers, in their order."""
    tree, lines = ElementTree.fromstring(svg), []
    for group in tree.iter("{http://www.w3.org/2000/svg}g"):
        uses = group.findall("*/{http://www.w3.org/2000/svg}use")
        if group.get("id", "").startswith("line2d") and uses and "stroke: #0" not in uses[0].get("style", "#0"):
            marker = uses[0].get("{http://www.w3.org/1999/xlink}href", "")
            paths = tree.iter("{http://www.w3.org/2000/svg}path")
            shape = next(path.get("d", "") for path in paths if f"#{path.get('id')}" == marker)
            lines.append((re.sub(r".*stroke: (#\w+).*", r"\1", uses[0].get("style", "")), shape))
    return lines


@pytest.mark.slow
def test_no_colour_and_no_marker_is_there_twice() -> None:
    results = Results(families=FAMILIES, runs=committed()[-1:])
    names = [f"variant{i}" for i in range(45)]
    line = {"8x8": 1.0, "16x16": 2.0}
    drawn = replace(
        shares_of(committed()[-1:], "matmul", "float32"),
        names=names,
        lines=dict.fromkeys(names, line),
        places=[*line],
        above={},
    )
    found = dict.fromkeys(looks(drawn.drawn(results, ["svg"])["svg"].decode()))  # the legend has each again
    assert len(found) == len({colour for colour, _ in found}) == len({marker for _, marker in found}) == len(names)


@pytest.mark.slow
def test_a_gpu_may_have_any_name(tmp_path: Path) -> None:
    """matplotlib would read what lies between two dollars as mathematics."""
    run = committed()[-1]
    run = replace(run, gpu=replace(run.gpu, name="$\\frac $ <&>"))
    one = {name: timed for name, timed in run.cases.items() if name.startswith(("transpose", "copy"))}
    drawn = pictures(PROJECT, [replace(run, cases=one)], tmp_path)
    assert "GPU: $\\frac $" in next(path for path in drawn if path.name == "transpose-float32.svg").read_text()


@pytest.mark.slow
def test_every_family_of_the_readme_is_drawn(tmp_path: Path) -> None:
    made = pictures(PROJECT, committed(), tmp_path)
    kept = {path.name for path in (PROJECT.baselines / "nvidia-h200").glob("*.svg")}
    assert {path.name for path in made} == kept
    for path in made:
        family, dtype = path.stem.split("-")
        drawn, text = shares_of(committed(), family, dtype), path.read_text()
        timed = [CASES[name] for name in committed()[-1].cases if name[: name.index("-")] == family]
        own = [case for case in timed if case.dtype == dtype and case.id != case.reference_case]
        assert {*drawn.lines} == {case.variant.name for case in own if not case.variant.on_host}
        assert drawn.lines
        assert all(f">{words}</text>" in text for words in (*drawn.lines, *drawn.above, drawn.x, drawn.y))


def test_a_run_without_a_case_beside_its_reference_is_refused(tmp_path: Path) -> None:
    run_ = committed()[-1]
    alone = replace(run_, cases={name: t for name, t in run_.cases.items() if name.startswith("hello")})
    with pytest.raises(BadRun, match=r"beside its reference: time both .* or draw times by"):
        pictures(PROJECT, [alone], tmp_path / "none")
    assert not (tmp_path / "none").exists()
