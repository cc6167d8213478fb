"""Adds the plugin's options and settings, and loads its other parts in a repository that names its kernels.

Wherever Warpwatch is installed pytest imports this module, in repositories without CUDA kernels too. So it imports
little, and there it adds nothing but the option and the setting that name kernels.
"""

from __future__ import annotations

import os

import pytest

from warpwatch.arguments import positive_seconds
from warpwatch.catalogue.setting import SETTING

KERNELS = "--warpwatch-kernels"
PARTS = ("start", "cases", "compile_step", "device", "fixtures", "machine_lock", "messages")
# Some of them are imported before pytest does it, by others.
pytest.register_assert_rewrite(*(f"warpwatch.plugin.{part}" for part in PARTS))


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addini(SETTING, "Package that declares the CUDA kernels of this repository, such as kernels.", default="")
    group = parser.getgroup("warpwatch", "CUDA kernels")
    group.addoption(KERNELS, metavar="PACKAGE", help=f"Package that declares the kernels, in place of {SETTING}.")
    config = pluginmanager.get_plugin("pytestconfig")
    if config is not None and _names_kernels(config):  # elsewhere the names of options are free for others
        _add_options(group)


def _names_kernels(config: pytest.Config) -> bool:
    """Tell whether settings or command line name a package of kernels, before the command line is parsed."""
    words = (*config.invocation_params.args, *config.getini("addopts"), *os.environ.get("PYTEST_ADDOPTS", "").split())
    given = any(str(word).partition("=")[0] == KERNELS for word in words)
    return given or bool(config.getini(SETTING) or config.option.__dict__.get("warpwatch_kernels"))


def _add_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--device",
        choices=("auto", "gpu", "software", "none"),
        default="auto",
        help="Device that runs the kernels. auto (the default): a GPU where there is one, else the software device, "
        "which needs no GPU. gpu, software: that one, or an error. none: skip the tests that need a device.",
    )
    group.addoption(
        "--schedule-seed",
        type=int,
        metavar="N",
        help="Seed of the order in which the software device runs threads and blocks.",
    )
    group.addoption(
        "--launch-timeout",
        type=positive_seconds,
        default=10.0,
        metavar="SECONDS",
        help="Stop a kernel that runs longer, and fail its test (default: 10).",
    )
    _add_comparisons(group)
    group.addoption(
        "--large", action="store_true", help="Also test arrays of more than 2^31 elements, which need tens of GB."
    )
    group.addoption("--warm-cache", action="store_true", help="Time kernels with a warm L2 cache, not with a cold one.")


def _add_comparisons(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--against",
        metavar="REV",
        help="Time each kernel in turns with that of another git revision, and judge which is slower.",
    )
    group.addoption(
        "--self-check",
        action="store_true",
        help="A/A test, then injected slowdowns: false alarms and sensitivity on this GPU.",
    )
    group.addoption(
        "--fail-on",
        action="append",
        choices=("unsure", "incomparable", "common"),
        default=[],
        help="Exit with 1 also where a case is unsure (unsure), where one cannot be compared or none was compared "
        "(incomparable), or where all cases became slower together (common). Can be given several times.",
    )
    group.addoption(
        "--require-baseline",
        action="store_true",
        help="With --benchmark-compare: exit with an error where nothing is compared.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Let NumPy's idle threads sleep, before a conftest.py imports NumPy.

    By default they spin after each product, for a tenth of a second, on a core that compilers and the worker process
    need: a third of the processor time of testing matrix products was spent so.
    """
    if _names_kernels(early_config):
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the rest of the plugin, if there are kernels."""
    if config.getoption(KERNELS) or config.getini(SETTING):
        for part in PARTS:
            config.pluginmanager.import_plugin(f"warpwatch.plugin.{part}")
