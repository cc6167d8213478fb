"""The pytest plugin, in parts that conftest.py names to pytest."""

import pytest

PARTS = tuple(f"{__name__}.{part}" for part in ("cases", "compile_step", "device", "machine_lock"))
pytest.register_assert_rewrite(*PARTS)  # conftest.py imports them before pytest does
