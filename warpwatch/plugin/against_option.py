"""Starts early what ``--against`` needs: the process that reads the other revision, and the worker processes.

They take about a second, which passes while pytest starts and collects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.project import Project
from warpwatch.compare.pairs import open_spares, start_spares
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.gpus import sees_gpu
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.worker import Worker
from warpwatch.plugin.device import is_first
from warpwatch.plugin.xdist.several_gpus import number_of_parts
from warpwatch.revision.commit import checkout, find_commit, other_kernels_of, same_files
from warpwatch.revision.declared import BadRevision, Reading
from warpwatch.revision.unpacked import naming_missing_submodules


class OtherRevision:
    """Reads another revision in the background, until ``kernels`` needs it.

    ``commit``, ``tree``: of that revision, and the folder that it is unpacked in. ``same_files``: no file of the
    repository differs from it.
    """

    def __init__(self, revision: str, project: Project) -> None:
        self.revision, self.commit, self.tree, self.same_files = revision, "", Path(), False
        self._reading: Reading | None = None
        self._error: BadRevision | None = None
        try:
            self.commit = find_commit(revision, project.root)
            self.tree = checkout(self.commit, revision, project)
            self._reading = Reading(self.tree, project.module, revision)
            self.same_files = same_files(self.commit, revision, project.root)
        except BadRevision as error:  # told when the kernels are asked for: other mistakes come first
            self._error = error

    @property
    def may_differ(self) -> bool:
        """Tell whether kernels may have to be measured: the revision was found, and a file differs from it."""
        return self._error is None and not self.same_files

    def kernels(self, arch: str) -> dict[str, OtherKernel]:
        """Return every GPU case that the revision times, by its id. ``arch``: of this GPU. Raises BadRevision."""
        if self._reading is None:
            assert self._error
            raise self._error
        with naming_missing_submodules(self.tree):
            document = self._reading.declared(arch)
        return other_kernels_of(document.cases, self.tree, self.revision)

    def stop(self) -> None:
        """End the process that reads, if it still runs."""
        if self._reading:
            self._reading.stop()


def begin(config: pytest.Config, project: Project, worker: Worker, revision: str) -> OtherRevision:
    """Begin to read a revision, and start the worker processes that measure after the first one.

    None is started where no file differs or the revision is not found, because nothing is measured then.
    """
    other = OtherRevision(revision, project)
    config.add_cleanup(other.stop)
    if not is_first(config) and other.may_differ and worker.settings.kind in ("auto", "gpu") and sees_gpu():
        start_spares(worker, number_of_parts(config))
    return other


def open_ahead(
    other: OtherRevision,
    device: Callable[[], DeviceInfo | NoDevice],
    worker: Worker,
    families: Sequence[Family],
    *,
    cold: bool,
) -> None:
    """Have the processes that measure after the first one open the GPU, where a file differs from the revision."""
    found = device() if other.may_differ else None
    if isinstance(found, DeviceInfo) and found.has_gpu_clock:
        open_spares(worker, families, found, cold=cold)
