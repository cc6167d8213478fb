"""Fetches baselines that do not live in the repository: from a folder, or from an address by fsspec.

fsspec (extra ``remote``) is what pandas and Dask read addresses by: buckets, archives, servers, each by its own
package, kept by all of them. What is fetched is data, and is checked as a file of the repository would be.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from warpwatch.runs.files import PACKED, PLAIN, run_files
from warpwatch.runs.saved import LARGEST, BadRun

MOST_FILES = 200  # runs of a baseline
EXTRA = "pip install fsspec (extra 'remote'), and the package that it names for this kind of address"


def fetch_baselines(where: str, slug: str, cache: Path) -> Path:
    """Return a folder that holds, in a folder named after the GPU, its runs of the baseline in ``where``.

    ``where``: a folder or an address, which holds the runs or a folder ``slug`` with them. ``cache``: a folder for
    copies. Raises BadRun where it cannot be read.
    """
    if "://" not in where:
        return _local(Path(where), where, slug, cache)
    try:
        found = list(_listed(where, slug))
        return _kept(cache, where, slug, ((name, files.cat_file(path)) for files, path, name in found))
    except BadRun:
        raise
    except ImportError as error:
        raise BadRun(f"{where}: {error}; {EXTRA}") from None
    except Exception as error:  # each kind of address has errors of its own
        raise BadRun(f"{where}: cannot be read ({type(error).__name__}: {error})") from None


def _local(folder: Path, where: str, slug: str, cache: Path) -> Path:
    if not folder.is_dir():
        raise BadRun(f"{where}: there is no such folder")
    if (folder / slug).is_dir() or not run_files(folder):
        return folder
    return _kept(cache, str(folder.resolve()), slug, ((path.name, path.read_bytes()) for path in run_files(folder)))


def _listed(where: str, slug: str) -> Iterable[tuple[Any, str, str]]:
    """Yield file system, path and name of each run. Raises BadRun."""
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
        yield files, entry["name"], name


def _kept(cache: Path, where: str, slug: str, contents: Iterable[tuple[str, bytes]]) -> Path:
    """Write files to a folder of the cache in place of those of an earlier call; all of them, or none."""
    folder = cache / hashlib.sha256(where.encode()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as new:
        (Path(new) / slug).mkdir()
        for name, content in contents:
            (Path(new) / slug / name).write_bytes(content)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(new, folder)
    return folder
