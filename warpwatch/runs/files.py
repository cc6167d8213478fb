"""Writes files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name and rename it, so that it is there whole or not at all. Raises OSError."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.absolute().parent, prefix=f".{path.name}-", suffix=".tmp", encoding="utf-8", delete=False
    ) as file:
        made = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            made.chmod(0o644)
            made.replace(path)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
