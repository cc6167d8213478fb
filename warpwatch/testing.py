"""Public names for test files: what fixtures give to tests, and what tests build on.

``import pytest`` is enough for a test that asks for ``check`` or ``measure``; these names are for its annotations, and
for tests of other kinds. Declarations of kernels need ``import warpwatch`` alone.

Fixtures and their types
    check : Check
        Runs a case of the test and fails the test unless the result is right.
    measure : Measure
        Checks and times the case of a test.
    case : Case
        Case of a test that is marked ``@pytest.mark.cases(...)``: a build and a shape.
    build : Build
        Build of a test that is marked with ``cases`` or ``builds``: a variant, a block and a dtype.
    kernel : Kernel
        Compiled kernel of a case or a build.
    device : DeviceInfo
        Device of the run; a test that asks for it is skipped where there is none.
    project : Project
        Kernels of the repository.
    compilation : Compilation
        Compilation of the builds of the run.

Corner cases of a build
    `aligned`, `beyond_32_bits`, `branch_changes`, `ends`, `ragged`, `several_blocks`; `least_builds` lists the builds
    that are tested on them

Layout of arrays and blocks
    `Placement`

Compilers
    `Target`, `architectures`, `compile_build`, `nvcc`, `NoCompiler`

Other processes
    `Worker` runs functions, such as `describe_device`, `problem_of_the_last_block` and `problems_of_large_arrays`, in
    a process that has opened the device that its `Settings` name.

Options and tests
    `spelled` and `value_of` return the name and the value of an option, `parameter_of` the case of a test.
"""

from warpwatch.catalogue.arrays import Shape
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.corners import (
    aligned,
    beyond_32_bits,
    branch_changes,
    ends,
    least_builds,
    ragged,
    several_blocks,
)
from warpwatch.catalogue.launches import Capability
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import builds
from warpwatch.devices.compile.background import Compilation
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import NoCompiler, Target, architectures, nvcc
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.large import problem_of_the_last_block
from warpwatch.devices.large import problems as problems_of_large_arrays
from warpwatch.devices.opening import Settings
from warpwatch.devices.placement import Placement
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.plugin.cases import parameter_of
from warpwatch.plugin.fixtures import Check, Measure
from warpwatch.plugin.options import spelled, value_of

__all__ = [
    "Build",
    "Capability",
    "Case",
    "Check",
    "Compilation",
    "DeviceInfo",
    "Kernel",
    "Measure",
    "NoCompiler",
    "Placement",
    "Project",
    "Settings",
    "Shape",
    "Target",
    "Worker",
    "aligned",
    "architectures",
    "beyond_32_bits",
    "branch_changes",
    "builds",
    "compile_build",
    "describe_device",
    "ends",
    "least_builds",
    "nvcc",
    "parameter_of",
    "problem_of_the_last_block",
    "problems_of_large_arrays",
    "ragged",
    "several_blocks",
    "spelled",
    "value_of",
]
