"""Refuses --energy where no energy can be measured, before anything is."""

from __future__ import annotations

import pytest

from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker
from warpwatch.plugin.options import spelled, value_of
from warpwatch.timing import worker_energy


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
    why = worker.call(worker_energy.objection)
    return f"{word}: {why}" if why else ""
