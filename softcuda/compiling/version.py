"""Version of the compiler: its release, the g++ that it calls, and a digest of everything that an image depends on.

A file of its own, because each process asks, and most never compile: what compiles takes longer to be imported.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "0.1"


def text(checks: bool) -> str:
    """Return the lines of ``--version``. They differ with checks, because images are kept by them."""
    gxx = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout.split("\n", 1)[0]
    contents = b"".join(path.read_bytes() for path in sources())
    build = f"{hashlib.sha256(contents).hexdigest()[:16]}{'-checks' if checks else ''}"
    return f"nvcc: stand-in of softcuda, release {VERSION}, with {gxx}\nBuild {build}"


def asks_for_checks() -> bool:
    """Return whether every kernel is compiled with checks, also without ``--checks``."""
    return os.environ.get("SOFTCUDA_CHECKS", "") not in ("", "0")


def sources() -> list[Path]:
    """Return what an image depends on beside its own source: the compiler's modules and the headers."""
    return [*sorted(HERE.glob("*.py")), *sorted(filter(Path.is_file, (HERE.parent / "include").rglob("*")))]
