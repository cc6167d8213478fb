"""The pytest plugin: options, fixtures, and the hooks of pytest and pytest-benchmark.

It works in a repository that names its kernels (``warpwatch_kernels`` in its pytest settings). In others it does
nothing.
"""

import pytest

pytest_plugins = tuple(
    f"{__name__}.{part}"
    for part in ("options", "cases", "compile_step", "device", "fixtures", "machine_lock", "messages")
)
pytest.register_assert_rewrite(*pytest_plugins)  # some of them are imported before pytest does it
