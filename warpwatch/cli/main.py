"""The command ``warpwatch``, also ``python -m warpwatch``: kernels by hand, saved runs and baselines."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

import argcomplete

from warpwatch import __version__
from warpwatch.arguments import positive_integer, positive_seconds
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import BadProject, Project, find_project, find_setting
from warpwatch.catalogue.validation import require
from warpwatch.cli.changes import add_changes
from warpwatch.cli.parsers import add, add_device, case_ids
from warpwatch.cli.pull_requests import add_pull_requests
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.machine import DeviceError
from warpwatch.runs.files import chosen_files
from warpwatch.runs.record import BadRun

EXTRAS = {
    "matplotlib": "pictures",
    "jinja2": "report",
    "watchfiles": "watch",
}  # of pyproject.toml, by the package that a command lacks
SANITIZER_SECONDS = 300.0  # a launch under a sanitizer is slow

# Modules of single subcommands are imported when they are called: `warpwatch list` need not wait for SciPy.


def _list(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.one_case import list_cases  # noqa: PLC0415

    return list_cases(project, options.k)


def _run(project: Project, options: argparse.Namespace) -> int:
    if options.all == bool(options.case):
        raise BadCase("give the id of one case, or --all; `warpwatch list` shows the ids")
    if options.all:
        from warpwatch.cli.every_case import run_every_case  # noqa: PLC0415

        limit = options.launch_timeout or SANITIZER_SECONDS
        settings = Settings(kind=options.device, launch_timeout=limit, schedule_seed=options.schedule_seed)
        return run_every_case(project, options.k, settings)
    from warpwatch.cli.one_case import again, run_case  # noqa: PLC0415

    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    require(project.families, options.case)
    case = find_case(project.families, options.case)
    limit = options.launch_timeout or 10.0
    settings = Settings(kind=options.device, launch_timeout=limit, schedule_seed=options.schedule_seed)
    try:
        shown, launches = options.print, options.launches
        return 0 if run_case(case, seed=seed, print_arrays=shown, settings=settings, launches=launches) else 1
    except DeviceError as error:
        repeat = again(case, seed, settings, options.launches)
        raise DeviceError(f"{error}\n  again     {repeat}", error.lost) from None


def _promote(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.saved_runs import promote  # noqa: PLC0415

    return promote(project, chosen_files(options.runs), allowed=options.allow, dry_run=options.dry_run)


def _update(project: Project, options: argparse.Namespace) -> int:
    if not options.pull_request:
        raise BadRun("say where it goes: --pull-request; `warpwatch baseline record` changes the files here alone")
    from warpwatch.cli.update_baseline import update  # noqa: PLC0415

    return update(project, count=options.n, keywords=options.k, allowed=options.allow, base=options.base)


def _record(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.record_baseline import record  # noqa: PLC0415

    return record(project, count=options.n, keywords=options.k, allowed=options.allow)


def _migrate(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.migrate_runs import migrate  # noqa: PLC0415

    return migrate(project, options.runs, options.commit)


def _history(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.saved_runs import write_new  # noqa: PLC0415
    from warpwatch.compare.history import show  # noqa: PLC0415

    folder = options.runs or project.saved_runs
    if options.new:
        return write_new(folder, options.new)
    return show(folder, options.case)


def _sites(project: Project | None, options: argparse.Namespace) -> int:
    from warpwatch.cli.sites import make_overview  # noqa: PLC0415

    return make_overview(options.folder, options.gpus)


def _thin(project: Project | None, options: argparse.Namespace) -> int:
    from warpwatch.cli.thin_runs import thin_folder  # noqa: PLC0415

    return thin_folder(options.folder, options.keep)


def _watch(project: Project | None, options: argparse.Namespace) -> int:
    from warpwatch.cli.watch import watch  # noqa: PLC0415

    # The declarations are not loaded here: they are read again at each save, and may be wrong meanwhile.
    return watch(find_setting(Path.cwd()), keywords=options.k, device=options.device, once=options.once)


def _report(project: Project, options: argparse.Namespace) -> int:
    if options.html:
        from warpwatch.cli.report_site import make_site  # noqa: PLC0415

        return make_site(project, chosen_files(options.runs), options.html, options.runs_url)
    if options.runs_url:
        raise BadRun("--runs-url is for the site: give --html FOLDER too")
    from warpwatch.cli.saved_runs import report  # noqa: PLC0415

    return report(project, chosen_files(options.runs))


def _ladder(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.saved_runs import show_ladders  # noqa: PLC0415

    return show_ladders(project, chosen_files(options.runs))


def _picture(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.saved_runs import draw  # noqa: PLC0415

    return draw(project, chosen_files(options.runs), options.to)


def _score(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.saved_runs import score_rules  # noqa: PLC0415

    return score_rules(chosen_files(options.runs), options.trials)


def _self_check(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.saved_runs import merge_self_check  # noqa: PLC0415

    return merge_self_check(project, options.parts)


def _timer(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.read_timer import read_timer  # noqa: PLC0415

    return read_timer()


def _init(project: Project | None, options: argparse.Namespace) -> int:
    from warpwatch.cli.init import write_example  # noqa: PLC0415

    return write_example(options.folder, dry_run=options.dry_run)


def seed_of(text: str) -> int:
    """Read a seed of NumPy's generators from the command line. Raises ValueError."""
    seed = int(text)
    if seed < 0:
        raise ValueError
    return seed


seed_of.__name__ = "seed (0 or more)"  # argparse prints this name in its messages


def count_of(text: str) -> int:
    """Read a number that is at least 1 from the command line. Raises ValueError."""
    count = int(text)
    if count < 1:
        raise ValueError
    return count


count_of.__name__ = "number (1 or more)"


def _add_init(commands: Any) -> None:
    beginning = add(commands, "init", _init, "write a small example into a repository: a kernel, its tests, a workflow")
    beginning.add_argument("folder", nargs="?", type=Path, default=Path(), help="the repository (this folder)")
    beginning.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    beginning.set_defaults(loads_project=False)


def _add_kernels(commands: Any) -> None:
    listing = add(commands, "list", _list, "list the cases that the benchmark times, and those that it leaves out")
    listing.add_argument("-k", default="", metavar="EXPR", help="only cases that match, as pytest -k")
    running = add(commands, "run", _run, "run one case on random data, of any shape, or every kernel once with --all")
    case = running.add_argument("case", nargs="?", default="", help="such as matmul-tiled-16x16-512x256x512-float64")
    case.completer = case_ids
    running.add_argument(
        "--all", action="store_true", help="every tested case once, for a tool such as compute-sanitizer"
    )
    running.add_argument("-k", default="", metavar="EXPR", help="with --all: only cases that match, as pytest -k")
    add_device(running)
    running.add_argument(
        "--schedule-seed", type=int, metavar="N", help="seed of the software device's order of threads"
    )
    running.add_argument("--print", action="store_true", help="print operands and result, as NumPy shortens them")
    running.add_argument("--seed", type=seed_of, default=None, help="seed of the random operands (drawn and printed)")
    running.add_argument(
        "--launches", type=positive_integer, metavar="N", help="on the same inputs (30; on the software device 3)"
    )
    running.add_argument(
        "--launch-timeout",
        type=positive_seconds,
        metavar="SECONDS",
        help="limit of a kernel (10; --all: 300)",
    )
    add(commands, "timer", _timer, "show the times of an empty kernel and of a small copy")


def _add_watch(commands: Any) -> None:
    watching = add(commands, "watch", _watch, "check each kernel whose files are saved: right, and slower than HEAD?")
    watching.add_argument("-k", default="", metavar="EXPR", help="only kernels with a case that matches, as pytest -k")
    add_device(watching)
    watching.add_argument("--once", action="store_true", help="check what differs from HEAD, and end with 0 or 1")
    watching.set_defaults(loads_project=False)


def _add_runs(commands: Any) -> None:
    baseline = commands.add_parser("baseline", help="change the baseline that later runs are compared with")
    changing = baseline.add_subparsers(required=True)
    measures = "measure in several processes, and make these runs the baseline of this GPU"
    _add_recording(add(changing, "record", _record, measures))
    updating = _add_recording(add(changing, "update", _update, "record a baseline, and propose it as a pull request"))
    updating.add_argument("--pull-request", action="store_true", help="on GitHub; needs GITHUB_TOKEN")
    updating.add_argument("--base", default="", metavar="BRANCH", help="to be merged into it (the one checked out)")
    promotion = add(changing, "promote", _promote, "make saved runs the baseline of their GPU")
    _add_saved(promotion, "a file in .benchmarks/<gpu>/, or a folder of them")
    promotion.add_argument("--allow", nargs="+", default=[], metavar="WORD", help="failed, partial, dirty, mixed, same")
    promotion.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")
    migration = add(changing, "migrate", _migrate, "add to earlier runs what their cases' work was, from their commits")
    migration.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="runs or folders of them (all baselines)")
    migration.add_argument("--commit", default="", metavar="REV", help="what was measured, where runs do not say so")
    past = add(commands, "history", _history, "show a case's times in saved runs, and where cases changed for good")
    past.add_argument("case", nargs="?", default="", help="a case's id; without one, every step of every case")
    past.add_argument("--runs", type=Path, metavar="FOLDER", help="folder of one GPU's saved runs (.benchmarks)")
    past.add_argument(
        "--new", type=Path, metavar="FILE", help="write what became slower for good by the last run, as an issue's text"
    )
    _add_folders(commands)
    _add_report(commands)
    _add_saved(add(commands, "ladder", _ladder, "print how far each kernel is from its reference, in Markdown"))
    drawing = _add_saved(add(commands, "picture", _picture, "draw how far each kernel is from its reference, as SVG"))
    drawing.add_argument("--to", type=Path, metavar="FOLDER", help="where the SVG files go (beside the last run)")
    scoring = _add_saved(
        add(
            commands,
            "score",
            _score,
            "replay saved runs of unchanged kernels through several tools' rules",
        )
    )
    scoring.add_argument("--trials", type=int, default=30, help="whole runs to play (30)")
    checks = commands.add_parser("self-check", help="join parts of a self-check")
    merging = add(checks.add_subparsers(required=True), "merge", _self_check, "join parts that were made with -k")
    merging.add_argument(
        "parts", nargs="+", type=Path, metavar="PART", help="what `pytest bench --self-check -k` saved"
    )


def _add_recording(parser: Any) -> Any:
    parser.add_argument("-n", type=count_of, default=5, metavar="RUNS", help="processes that measure (5)")
    parser.add_argument("-k", default="", metavar="EXPR", help="only cases that match, as pytest -k")
    parser.add_argument("--allow", nargs="+", default=[], metavar="WORD", help="as for promote")
    return parser


def _add_folders(commands: Any) -> None:
    joining = add(commands, "sites", _sites, "write a page above the sites of several GPUs")
    joining.add_argument("folder", type=Path, metavar="FOLDER", help="its folders hold the sites")
    joining.add_argument("--gpus", type=count_of, default=0, metavar="COUNT", help="how many sites there should be")
    joining.set_defaults(loads_project=False)
    thinning = add(commands, "thin", _thin, "make older saved runs small: their medians and quartiles stay")
    thinning.add_argument("folder", type=Path, metavar="FOLDER", help="one GPU's saved runs")
    thinning.add_argument("--keep", type=count_of, default=7, metavar="RUNS", help="the newest stay whole (7)")
    thinning.set_defaults(loads_project=False)


def _add_report(commands: Any) -> None:
    reporting = add(commands, "report", _report, "print time and rate of each kernel on each shape, or make a site")
    _add_saved(
        reporting, "a saved run, or a folder of them; tables show medians, the site the newest run and its history"
    )
    reporting.add_argument("--html", type=Path, metavar="FOLDER", help="write a site that opens in a browser there")
    reporting.add_argument(
        "--runs-url", default="", metavar="URL", help="where the runs' files are published, for the site's links"
    )


def _add_saved(parser: Any, text: str = "a saved run, or a folder of them; of several, medians are shown") -> Any:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=text)
    return parser


def _cure_of(error: ImportError) -> str:
    """Say what installs a package that a command lacks."""
    package = (error.name or "").partition(".")[0]
    if package in EXTRAS:
        return f"pip install {package} (extra '{EXTRAS[package]}')"
    return "Warpwatch is not installed as a whole: pip install warpwatch"


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="warpwatch", description=__doc__)
    parser.add_argument("--version", action="version", version=f"warpwatch {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_init(commands)
    _add_kernels(commands)
    _add_watch(commands)
    add_changes(commands)
    add_pull_requests(commands)
    _add_runs(commands)
    return parser


def main() -> int:
    """Run the command line; returns 0, 1 where a kernel is wrong or something is refused, 2 for bad input."""
    parser = make_parser()
    argcomplete.autocomplete(parser)
    options = parser.parse_args()
    try:
        project = find_project(Path.cwd()) if options.loads_project else None
        return int(options.run(project, options))
    except BrokenPipeError:  # run_command handles it
        raise
    except ImportError as error:
        print(f"error: {error}; {_cure_of(error)}", file=sys.stderr)
    except (BadProject, BadCase, BadRun, CompileError, DeviceError, NoDevice, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
    return 2
