"""Draws one picture a family: how far each rung is from its reference, shape by shape: ``warpwatch picture``.

It is drawn by matplotlib (extra ``pictures``), because many people know how to change its pictures.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli.options import add_runs
from warpwatch.report.ladder import best, listed, same_work, share
from warpwatch.report.tables import kernel_times
from warpwatch.runs.files import chosen_files, write_whole
from warpwatch.runs.record import RunRecord, read_run

SIZE = (8.0, 4.5)  # inches
LEAST_GAP = 0.045  # between the names of two rungs, as a share of the picture's height
STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "warpwatch", "font.size": 9, "text.parse_math": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    parser.add_argument(
        "--to", dest="folder", type=Path, metavar="FOLDER", help="where the SVG files go (beside the last run)"
    )


def run(project: Project, *, runs: Sequence[Path], folder: Path | None) -> int:
    """Draw a picture for each family; returns the exit status. Raises BadRun, ImportError or OSError."""
    paths = chosen_files(runs)
    print(*pictures([read_run(path) for path in paths], project.families, folder or paths[-1].parent), sep="\n")
    return 0


def pictures(runs: Sequence[RunRecord], families: Sequence[Family], folder: Path) -> list[Path]:
    """Draw the families and element types that have ``ladder_shapes``."""
    chosen = same_work(runs)
    cases, times, paths = {case.id: case for case in timed_cases(families)}, kernel_times(chosen), []
    for family, dtype in dict.fromkeys((family, dtype) for family, dtype, _ in listed(families, "ladder_shapes")):
        reached = shares(cases, family, dtype, times)
        if reached:
            paths.append(folder / f"{family.name}-{dtype}.svg")
            title = f"{family.name}, {dtype}: {chosen[-1].gpu.name or 'no GPU'}, medians of {len(chosen)} runs, L2 cold"
            draw(family, reached, title, paths[-1])
    return paths


def shares(
    cases: Mapping[str, Case], family: Family, dtype: str, times: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return the shares that the rungs reach with their best blocks, by shape, from little work to much."""
    timed = [each for each in cases.values() if each.family is family and each.dtype == dtype and each.id in times]
    timed.sort(key=lambda case: (case.work.operations, case.work.bytes))
    reached: dict[str, dict[str, float]] = {}
    for shape in dict.fromkeys(case.shape for case in timed):
        for case in best([case for case in timed if case.shape == shape], times):
            if (value := share(cases, case, times)) is not None:
                reached.setdefault(case.shape_name, {})[case.variant.name] = value
    return reached


def draw(family: Family, reached: Mapping[str, Mapping[str, float]], title: str, path: Path) -> None:
    """Draw shapes along x, shares along y, and the rungs' names at the ends of their lines; the vendor's is black."""
    import matplotlib as mpl  # noqa: PLC0415  # takes a second
    from matplotlib.figure import Figure  # noqa: PLC0415

    rungs = [v for v in family.variants if any(v.name in shares_ for shares_ in reached.values())]
    top = 1.05 * max(1.0, *(value for shares_ in reached.values() for value in shares_.values()))
    with mpl.rc_context(STYLE):
        figure = Figure(SIZE, layout="constrained")
        axes: Any = figure.subplots()
        ends: dict[str, tuple[int, float, Any]] = {}
        for rung in rungs:
            points = [(x, shares_[rung.name]) for x, shares_ in enumerate(reached.values()) if rung.name in shares_]
            colour = "black" if rung.call else None
            (drawn,) = axes.plot(*zip(*points, strict=True), marker="o", markersize=3, color=colour)
            ends[rung.name] = (*points[-1], drawn.get_color())
        axes.axhline(1.0, color="black", linewidth=0.6, linestyle=":")
        axes.set(xlim=(-0.3, 1.25 * len(reached) - 0.25), ylim=(0, top), ylabel="share of the reference", title=title)
        axes.set_xticks(range(len(reached)), list(reached), rotation=30, ha="right")
        for name, y in spread({name: y for name, (_, y, _) in ends.items()}, LEAST_GAP * top).items():
            x, end, colour = ends[name]
            arrow = {"arrowstyle": "-", "color": colour, "linewidth": 0.4}
            axes.annotate(name, (x, end), (len(reached) - 0.8, y), color=colour, va="center", arrowprops=arrow)
        path.parent.mkdir(parents=True, exist_ok=True)
        svg = io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
        write_whole(path, svg.getvalue())


def spread(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """Move heights upwards where two would lie closer than ``gap``."""
    placed: dict[str, float] = {}
    before = -gap
    for name, height in sorted(heights.items(), key=lambda pair: pair[1]):
        before = placed[name] = max(height, before + gap)
    return placed
