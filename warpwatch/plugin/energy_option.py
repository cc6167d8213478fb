"""Refuses --energy where no energy can be measured, and says afterwards of which kernels none was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.declaration import Family
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker
from warpwatch.plugin.options import spelled, value_of
from warpwatch.plugin.xdist.several_gpus import parameter_in
from warpwatch.timing import observers

ENERGY = observers.BY_OPTION["energy"]


def asked_observers(config: pytest.Config) -> tuple[str, ...]:
    """Return the options of the observers that a run is asked for."""
    return tuple(option for option in observers.BY_OPTION if value_of(config, option))


def objection_to_energy(config: pytest.Config, device: DeviceInfo | NoDevice, worker: Worker) -> str:
    """Say why the options on energy cannot be followed; empty where they can."""
    word = spelled(config, "energy")
    if not value_of(config, "energy"):
        asked = "energy" in value_of(config, "fail-on")
        return f"{spelled(config, 'fail-on')} energy measures none by itself: give {word} too" if asked else ""
    if value_of(config, "self-check"):
        return f"{spelled(config, 'self-check')} measures no energy: leave {word} out"
    if "energy" in value_of(config, "fail-on") and not value_of(config, "against"):
        against = spelled(config, "against")
        given = f"{spelled(config, 'fail-on')} energy"
        return f"energies are compared with those of another revision: give {against} REV, or leave {given} out"
    if isinstance(device, NoDevice):
        return f"{word} needs a GPU: {device}"
    why = worker.call(observers.objection, asked_observers(config))
    return f"{word}: {why}" if why else ""


def nothing_measured(config: pytest.Config, families: Sequence[Family]) -> list[str]:
    """Return the last line of a run that was asked for energies, measured kernels, and has no energy of any."""
    measured, left_out = _count(config, families)
    if measured or not left_out:
        return []
    return [f"NO ENERGY WAS MEASURED ({spelled(config, 'energy')}): {_reasons(left_out)}"]


def left_out_lines(config: pytest.Config, families: Sequence[Family]) -> list[str]:
    """Return a line on the kernels without an energy, where others have one."""
    measured, left_out = _count(config, families)
    if not measured or not left_out:
        return []
    total = measured + left_out.total()
    return [f"energy of {left_out.total()} of {total} kernels was not measured: {_reasons(left_out)}"]


def _count(config: pytest.Config, families: Sequence[Family]) -> tuple[int, Counter[str]]:
    """Return how many timed cases have an energy, and why others have none; neither where no energy was asked for."""
    measured, left_out = 0, Counter[str]()
    if not value_of(config, "energy"):
        return measured, left_out
    for bench in config._benchmarksession.benchmarks:  # type: ignore[attr-defined]
        if any(map(bench.extra_info.get, ENERGY.units)):
            measured += 1
        else:
            left_out[_reason(find_case(families, parameter_in(bench.fullname)), config)] += 1
    return measured, left_out


def _reason(case: Case, config: pytest.Config) -> str:
    if why := ENERGY.leaves_out(case):
        return why
    if case.variant.call and value_of(config, "against"):
        return "it is a call, whose two sides run in processes of their own"
    return "its test failed before"


def _reasons(left_out: Counter[str]) -> str:
    return ", ".join(f"{count} because {why}" for why, count in left_out.most_common())
