"""Prints tables of saved runs, or makes a site of them: ``warpwatch report``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import BadArgument, add_runs
from warpwatch.compare.saved_self_check import path_of
from warpwatch.report.entries import Results
from warpwatch.report.family_tables import report
from warpwatch.runs.files import chosen_files
from warpwatch.runs.record import read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, "a saved run, or a folder of them; tables show medians, the site the newest run and its history")
    site, url = (
        "write a site that opens in a browser there",
        "where the runs' files are published, for the site's links",
    )
    beside = "a saved run of another GPU, or a folder of them: where the fastest block is another there"
    parser.add_argument("--beside", type=Path, metavar="RUN", help=beside)
    parser.add_argument("--html", type=Path, metavar="FOLDER", help=site)
    parser.add_argument("--runs-url", default="", metavar="URL", help=url)


def run(project: Project, *, runs: Sequence[Path], beside: Path | None, html: Path | None, runs_url: str) -> int:
    """Print times, growth and gains of each family's kernels in Markdown, or write a site; returns the exit status.

    Raises BadArgument, BadRun, ImportError or OSError.
    """
    if runs_url and not html:
        raise BadArgument("--runs-url is for the site: give --html FOLDER too")
    if beside and html:
        raise BadArgument("--beside is for the tables in the terminal: leave out --html")
    paths = chosen_files(runs)
    if html:
        from warpwatch.report.site.render import make_site  # noqa: PLC0415  # Jinja2 is an extra

        make_site(project, paths, html, runs_url)
        return 0
    results = Results(families=project.families, runs=[read_run(path) for path in paths])
    there = chosen_files([beside]) if beside else []
    other = Results(families=project.families, runs=[read_run(path) for path in there]) if there else None
    print(report(results, path_of(results.today.slug, project.baselines), other))
    return 0
