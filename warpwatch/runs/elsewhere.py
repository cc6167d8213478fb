"""Fetches baselines that do not live in the repository: from a folder, or from an address by fsspec.

fsspec (extra ``remote``) is what pandas and Dask read addresses by: buckets, archives, servers, each by its own
package, kept by all of them. What is fetched is data, and is checked as a file of the repository would be.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from warpwatch.runs.files import LARGEST, PACKED, PLAIN, run_files
from warpwatch.runs.record import BadRun

MOST_FILES = 200  # runs of a baseline
KEPT_SECONDS = 7 * 86400  # how long the copies of a process that was killed stay
EXTRA = "pip install fsspec (extra 'remote'), and the package that it names for this kind of address"


def fetch_baselines(where: str, slug: str, cache: Path) -> Path:
    """Return a folder that holds, in a folder named after the GPU, its runs of the baseline in ``where``.

    ``where``: a folder or an address, which holds the runs or a folder ``slug`` with them. ``cache``: a folder for
    copies. Copies are this process's own, and go with it. Raises BadRun where the baseline cannot be read.
    """
    folder = Path(where)
    try:
        if "://" in where:
            return _copied(cache, slug, _fetched(where, slug))
        if not folder.is_dir():
            raise BadRun(f"{where}: there is no such folder")
        if (folder / slug).is_dir() or not (files := run_files(folder)):
            return folder
        return _copied(cache, slug, ((path.name, path.read_bytes()) for path in files))
    except BadRun:
        raise
    except ImportError as error:
        raise BadRun(f"{where}: {error}; {EXTRA}") from None
    except Exception as error:  # each kind of address has errors of its own
        raise BadRun(f"{where}: cannot be read ({type(error).__name__}: {error})") from None


def _fetched(where: str, slug: str) -> Iterable[tuple[str, bytes]]:
    """Yield name and content of each run. Raises BadRun."""
    import fsspec  # noqa: PLC0415  # an extra

    files, root = fsspec.url_to_fs(where)
    root = root.rstrip("/")
    inside = "/".join(filter(None, (root, slug)))  # the root of an archive is empty
    folder = inside if files.isdir(inside) else root
    if not files.exists(folder) and root:
        raise BadRun(f"{where}: there is nothing at this address")
    entries = [entry for entry in files.ls(folder, detail=True) if entry["type"] == "file"]
    entries = [entry for entry in entries if str(entry["name"]).endswith((PLAIN, PACKED))]
    if len(entries) > MOST_FILES:
        raise BadRun(f"{where}: holds {len(entries):,} runs, and a baseline has at most {MOST_FILES}")
    for entry in entries:
        name = PurePosixPath(str(entry["name"])).name
        if (entry.get("size") or 0) > LARGEST:
            raise BadRun(f"{where}: {name} holds more than {LARGEST:,} bytes, and no run does")
        yield name, files.cat_file(entry["name"])


def _copied(cache: Path, slug: str, contents: Iterable[tuple[str, bytes]]) -> Path:
    """Write files to a new folder of the cache, which is removed when this process ends; a killed one's, later."""
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.iterdir():
        with contextlib.suppress(OSError):  # another process removes it too
            if left.stat().st_mtime < time.time() - KEPT_SECONDS:
                shutil.rmtree(left)
    folder = Path(tempfile.mkdtemp(dir=cache))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / slug).mkdir()
    for name, content in contents:
        (folder / slug / name).write_bytes(content)
    return folder
