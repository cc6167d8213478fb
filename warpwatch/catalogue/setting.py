"""Names the settings by which a repository says where its kernels are declared; costs next to nothing to import.

warpwatch/catalogue/table.py reads them.
"""

from __future__ import annotations

from pathlib import Path

SETTING = "warpwatch_kernels"  # among pytest's settings
TABLE = "[tool.warpwatch]"  # of pyproject.toml


def pyproject_of(folder: Path) -> Path | None:
    """Return the nearest pyproject.toml in a folder or above it."""
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def has_table(folder: Path) -> bool:
    """Tell whether the nearest pyproject.toml has a table of ours, without reading others as TOML."""
    file = pyproject_of(folder)
    try:
        text = file.read_bytes() if file else b""
        if b"warpwatch" not in text:
            return False
        import tomllib  # noqa: PLC0415  # takes milliseconds

        return "warpwatch" in tomllib.loads(text.decode()).get("tool", {})
    except (OSError, ValueError):
        return False  # pytest itself says what is wrong with the file
