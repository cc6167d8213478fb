"""Options and settings of the plugin, whose other parts are loaded where a repository names its kernels.

Wherever Warpwatch is installed pytest imports this module, in repositories without CUDA kernels too. So it imports
little, and there it adds nothing but the option and the setting that name kernels. The names of its other options
begin with ``--warpwatch-``. Each has a short name too, such as ``--device``, unless the repository's own conftest.py,
or another plugin, has an option of that name.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from warpwatch.arguments import (
    SANITIZER_TOOLS,
    one_of,
    positive_integer,
    positive_seconds,
    sanitizer_tools,
    seconds_or_none,
    shapes,
)
from warpwatch.catalogue.leaving import keep_alive
from warpwatch.catalogue.names import suggestion
from warpwatch.catalogue.setting import (
    HOW,
    SETTING,
    TABLE,
    BadProject,
    Setting,
    choose,
    has_table,
    pyproject_of,
    read_table,
)
from warpwatch.plugin import judge

UNTRUSTED = {"--untrusted", "--warpwatch-untrusted"}
KERNELS = "--warpwatch-kernels"
BENCHMARK = "bench/bench_kernels.py"
# Options with which pytest answers a question and runs no test.
QUESTIONS = ("collectonly", "help", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow")
PREFIX = "--warpwatch-"
SHORT = pytest.StashKey[frozenset[str]]()  # the options of ours that have their short names here
PARTS = (
    "start",
    "cases",
    "compile_step",
    "device",
    "xdist.processes",
    "fixtures",
    "locks",
    "xdist.other_hosts",
    "reports",
)
# Some of them are imported before pytest does it, by others; where that was before this module, it is too late.
pytest.register_assert_rewrite(*({f"warpwatch.plugin.{part}" for part in PARTS} - sys.modules.keys()))

_FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "device": one_of("auto", "gpu", "software", "none")
    | {
        "default": "auto",
        "help": "Device that runs the kernels. auto (the default): a GPU where there is one, else the software device, "
        "which needs no GPU. gpu, software: that one, or an error. none: skip the tests that need a device.",
    },
    "schedule-seed": {
        "type": int,
        "metavar": "N",
        "help": "Seed of the order in which the software device runs threads and blocks.",
    },
    "launch-timeout": {
        "type": positive_seconds,
        "default": 10.0,
        "metavar": "SECONDS",
        "help": "Stop a kernel that runs longer, and fail its test (default: 10).",
    },
    "reference-timeout": {
        "type": positive_seconds,
        "default": 300.0,
        "metavar": "SECONDS",
        "help": "Stop a declaration's reference that runs longer on the host, and fail its test (default: 300; on the "
        "smallest shape, before the tests, a tenth of that).",
    },
    "launches": {
        "type": positive_integer,
        "metavar": "N",
        "help": "Launch each tested case so often on the same inputs (default: 30; on the software device 3).",
    },
    "deterministic": _FLAG
    | {
        "help": "Ask of each tested case whether it gives the same bits again: in more launches, in other orders of "
        "threads and blocks, and in another process; and say where bits differ. Where a declaration has "
        "deterministic=True, that fails the test."
    },
    "against": {
        "metavar": "REV",
        "help": "Time each kernel in turns with that of another git revision, and judge which is slower.",
    },
    "toolchain": {
        "metavar": "NVCC",
        "help": "With --against: compile this side by another nvcc, for another architecture or with more flags, such "
        "as 'nvcc=13.2 -arch=sm_90a -use_fast_math' (docs/toolchains.md).",
    },
    "self-check": _FLAG | {"help": "A/A test, then injected slowdowns: false alarms and sensitivity on this GPU."},
    "fail-on": one_of("unsure", "incomparable", "common", "energy", "host", "size", "compile-time")
    | {
        "action": "append",
        "default": [],
        "help": "Exit with 1 also where a case or a limit of a contract is unsure (unsure), where one cannot be "
        "compared or none was compared (incomparable), where all cases became slower together (common), where one "
        "takes more energy (energy) or more of the host's time (host), or where, with --against, machine code or the "
        "time to compile it grew (size, compile-time). Can be given several times.",
    },
    "baseline": {
        "metavar": "WHERE",
        "help": "With --benchmark-compare: take the baselines from this folder or address (s3://, https://, zip:// and "
        "what else fsspec reads), not from the repository.",
    },
    "require-baseline": _FLAG | {"help": "With --benchmark-compare: exit with an error where nothing is compared."},
    "no-confirm": _FLAG
    | {
        "help": "With --benchmark-compare: decide by the baseline's times alone, and measure no pairs with the kernels "
        "of its commit, where those times are of another GPU or day."
    },
    "sanitizer": {
        "type": sanitizer_tools,
        "default": (),
        "metavar": "TOOLS",
        "help": f"Launch what tests launch once more under tools of NVIDIA's compute-sanitizer, such as "
        f"{','.join(SANITIZER_TOOLS)}, and fail a test of whose kernel one finds a fault. It needs a GPU "
        "(docs/sanitizers.md).",
    },
    "large": _FLAG | {"help": "Also test arrays of more than 2^31 elements, which need tens of GB."},
    "sarif": {
        "metavar": "FILE",
        "help": "Write what fails as SARIF for code hosts: faults and wrong results of kernels, errors of compilers, "
        "and all else.",
    },
    "json": {
        "metavar": "FILE",
        "help": "Write what this run found for programs: verdicts, figures, faults with their places and the next step "
        "of each case, as JSON of one schema (docs/agents.md).",
    },
    "record": {
        "metavar": "FILE",
        "help": argparse.SUPPRESS,  # for programs: the record of the run (runs/record.py)
    },
    "gpu-wait": {
        "type": seconds_or_none,
        "default": 3600.0,
        "metavar": "SECONDS",
        "help": "Wait so long for another run that measures on the same GPU (default: 3600; 0: not at all).",
    },
    "energy": _FLAG
    | {"help": "Measure the energy of a launch too, over a second of launches a case; with --against, of both sides."},
    "host": _FLAG
    | {
        "help": "Measure the host's time of a launch too, its time in a CUDA graph, and what a call allocates in each "
        "launch; with --against, the host's time of both sides."
    },
    "data": _FLAG
    | {
        "help": "Time each case also on zeros, one value, sorted, sparse and subnormal values, and say where its time "
        "differs from that on the declared data, which alone is judged."
    },
    "serial-rounds": {
        "type": positive_integer,
        "metavar": "N",
        "help": "Take at most N rounds of a slow serial variant: --benchmark-min-rounds of it would take longer than "
        "--benchmark-max-time (default: as many as --benchmark-min-rounds).",
    },
    "sizes": {
        "type": shapes,
        "default": (),
        "metavar": "SHAPES",
        "help": "Time kernels on these shapes, such as 64x64,128x128, in place of those that are declared.",
    },
    "untrusted": _FLAG
    | {
        "help": "Judge kernels that somebody else wrote: nothing of the repository is imported where results are "
        "judged, and tests of ours replace its own (docs/untrusted.md)."
    },
    "draw-seed": {
        "type": int,
        "metavar": "N",
        "help": "With --untrusted: draw inputs by this seed, as an earlier run did, and not by a new one.",
    },
    "warm-cache": _FLAG | {"help": "Time kernels with a warm L2 cache, not with a cold one."},
}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addini(SETTING, "Package that declares the CUDA kernels of this repository, such as kernels.", default="")
    group = parser.getgroup("warpwatch", "CUDA kernels")
    group.addoption(KERNELS, metavar="PACKAGE", help=f"Package that declares the kernels, in place of {SETTING}.")
    config = pluginmanager.get_plugin("pytestconfig")
    if config is not None and UNTRUSTED & named_options(config) and not judge.is_judge(pluginmanager):
        judge.replace_process(config)
    if config is not None and _names_kernels(config):  # elsewhere there is nothing to choose
        for name, attributes in OPTIONS.items():
            group.addoption(PREFIX + name, **attributes)


def _names_kernels(config: pytest.Config) -> bool:
    """Tell whether settings or command line name a package of kernels, before the command line is parsed."""
    return KERNELS in named_options(config) or _are_named(config)


def _are_named(config: pytest.Config) -> bool:
    given = config.option.__dict__.get("warpwatch_kernels")
    return bool(given or config.getini(SETTING)) or has_table(config.rootpath)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Add the short names that are free, once the repository's own conftest.py files have added theirs."""
    if _names_kernels(early_config):
        # Before a conftest.py imports NumPy, whose idle threads by default spin after each product, for a tenth of a
        # second, on a core that compilers and the worker process need: a third of the processor time of testing matrix
        # products was spent so. Now they sleep.
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
        # Processes of xdist share the cores: with 32 of them on 32 cores, 1,024 threads would compute references.
        processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        if processes > 1:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // processes)))
        _leave_out_values(early_config, args)
        early_config.pluginmanager.import_plugin("warpwatch.plugin.xdist.processes")  # xdist asks first
        keep_alive()
        try:
            result = yield
        except SystemExit as leaving:
            raise pytest.UsageError(f"a conftest.py ends the process, by SystemExit({leaving.code!r})") from None
        early_config.stash[SHORT] = _add_short_names(parser)
        _refuse_misspelt(parser, map(str, args))
        return result
    return (yield)


def _leave_out_values(config: pytest.Config, args: list[str]) -> None:
    """Keep pytest from looking for conftest.py files in ``software``, where ``--device software`` was given."""
    values = {after for before, after in itertools.pairwise(map(str, args)) if before.removeprefix("--") in OPTIONS}
    folder, known = config.invocation_params.dir, config.known_args_namespace
    known.file_or_dir = [word for word in known.file_or_dir if word not in values or (folder / word).exists()]


def _refuse_misspelt(parser: pytest.Parser, words: Iterable[str]) -> None:
    """Raise UsageError for a word that is nearly the name of an option of ours, which pytest would not say."""
    from warpwatch.plugin.pytest_benchmark_bridge import option_names  # noqa: PLC0415

    known = option_names(parser)
    for name in (word.partition("=")[0] for word in itertools.takewhile(lambda word: word != "--", words)):
        answer = suggestion(name, [f"--{own}" for own in OPTIONS]) if name.startswith("--") else ""
        if name not in known and answer.startswith("did"):
            raise pytest.UsageError(f"{name} is not an option; {answer}")


def _add_short_names(parser: pytest.Parser) -> frozenset[str]:
    from warpwatch.plugin.pytest_benchmark_bridge import option_names  # noqa: PLC0415  # where there are kernels

    taken = option_names(parser)
    shown = [name for name, attributes in OPTIONS.items() if attributes["help"] != argparse.SUPPRESS]
    free = [name for name in shown if f"--{name}" not in taken]  # those for programs have no short name
    for name in free:
        same = {**OPTIONS[name], "help": f"Same as {PREFIX}{name}."}
        parser.getgroup("warpwatch").addoption(f"--{name}", dest=f"warpwatch_{name.replace('-', '_')}", **same)
    return frozenset(free)


def spelled(config: pytest.Config, name: str) -> str:
    """Return how an option of ours is written in this repository: ``--device``, or ``--warpwatch-device``."""
    return f"--{name}" if name in config.stash.get(SHORT, frozenset()) else PREFIX + name


def named_options(config: pytest.Config, *, with_settings: bool = True) -> set[str]:
    """Return the words that name options, among others, of the command line, the environment and the settings."""
    settings = config.getini("addopts") if with_settings else ()
    words = (*config.invocation_params.args, *settings, *os.environ.get("PYTEST_ADDOPTS", "").split())
    return {str(word).partition("=")[0] for word in words}


def setting_of(config: pytest.Config) -> Setting:
    """Find the project that option, settings or table name. Raises UsageError."""
    try:
        table = read_table(pyproject_of(config.rootpath))
        setting = choose(config.rootpath, config.getoption(KERNELS) or "", config.getini(SETTING), table)
    except BadProject as error:
        raise pytest.UsageError(str(error)) from None
    if setting is None:
        raise pytest.UsageError(f"{TABLE} names no kernels: {HOW}")
    return setting


def asks_only(config: pytest.Config) -> bool:
    """Tell whether pytest answers a question, such as --help, and runs no test."""
    return any(config.getoption(question, False) for question in QUESTIONS)


def names_benchmark(config: pytest.Config, root: Path) -> bool:
    """Tell whether the command line, or testpaths, name bench/ or what lies in it."""
    if value_of(config, "untrusted"):
        return judge.names_benchmark(config)
    file = root / BENCHMARK
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return file.is_file() and any(path.is_relative_to(file.parent.resolve()) for path in paths)


def value_of(config: pytest.Config, name: str) -> Any:
    """Return the value of an option of ours, such as ``device``."""
    return config.getoption(PREFIX + name)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Write the file of --json when the run has ended, in whatever way."""
    name = config.getoption(PREFIX + "json", None)
    if not name:
        return (yield)
    status: object = pytest.ExitCode.INTERNAL_ERROR
    message = ""
    try:
        status = yield
    except BaseException as error:
        usage = isinstance(error, pytest.UsageError)
        status = pytest.ExitCode.USAGE_ERROR if usage else pytest.ExitCode.INTERNAL_ERROR
        message = str(error) if usage else f"{type(error).__name__}: {error}"
        raise
    finally:
        from warpwatch.plugin.json_file import write  # noqa: PLC0415  # where there are kernels

        number = status if isinstance(status, int) else pytest.ExitCode.OK
        written = write(config, config.invocation_params.dir / name, spelled(config, "json"), number, message)
    return status if written or status else pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the rest of the plugin, if there are kernels."""
    if _are_named(config):
        for part in PARTS:
            config.pluginmanager.import_plugin(f"warpwatch.plugin.{part}")
