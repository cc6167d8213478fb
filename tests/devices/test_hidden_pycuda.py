"""Tests what is said where a folder of the repository hides the PyCUDA that is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
OPEN = """
import sys
sys.path[:0] = [{first!r}, {checkout!r}]
from warpwatch.devices.gpu import DeviceError
from warpwatch.devices.opening import Settings, open_device
sys.modules["pycuda.driver"] = None  # what a source tree lacks
try:
    open_device(Settings(kind="software"))
except DeviceError as error:
    print(error)
"""


@pytest.mark.parametrize("hides", [True, False])
def test_the_folder_is_named_and_what_helps(tmp_path: Path, hides: bool) -> None:
    (tmp_path / "pycuda").mkdir()
    if hides:
        (tmp_path / "pycuda" / "__init__.py").touch()
    code = OPEN.format(first=str(tmp_path), checkout=str(CHECKOUT))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.startswith("PyCUDA cannot be imported (")
    named = f"{tmp_path}/pycuda hides the installed one: `python -m warpwatch init {tmp_path}/FOLDER`"
    assert (named in ran.stdout) == hides
    assert ("`python -m warpwatch setup` installs it" in ran.stdout) != hides
