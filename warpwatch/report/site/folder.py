"""Writes the site's files into a folder that is the site's own: nothing of the user's is overwritten."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from warpwatch.runs.files import write_whole
from warpwatch.runs.record import BadRun

LISTING = ".warpwatch-site.json"  # names the files of the site, so that the next one knows them


def write_site(folder: Path, files: Mapping[str, bytes], beside: Collection[str] = ()) -> int:
    """Write files by their paths, remove those of the site before, and return the number of bytes.

    ``beside``: folders in it that are sites themselves. Raises BadRun where the folder holds what no site wrote, and
    OSError.
    """
    before = _files_before(folder, beside)
    foreign = [name for name in files if name not in before and (folder / name).exists()]
    if foreign:
        raise BadRun(f"{folder / foreign[0]} is not the site's and would be overwritten: give another folder to --html")
    folder.mkdir(parents=True, exist_ok=True)
    # The list comes first: what is cut off can then be written anew.
    listed = json.dumps(sorted({*before, *files}))
    write_whole(folder / LISTING, listed)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name in before - files.keys():
        (folder / name).unlink(missing_ok=True)
    write_whole(folder / LISTING, json.dumps(sorted(files)))
    return sum(map(len, files.values()))


def refuse_others(folder: Path) -> None:
    """Raise BadRun where a folder holds something, and no site of ours."""
    _files_before(folder)


def _files_before(folder: Path, beside: Collection[str] = ()) -> set[str]:
    """Read which files the site before wrote. Raises BadRun where the folder is another's."""
    if folder.exists() and not folder.is_dir():
        raise BadRun(f"{folder} is a file: give a folder to --html")
    if not folder.exists() or not any(path.name not in beside for path in folder.iterdir()):
        return set()
    listing = folder / LISTING
    if not listing.is_file():
        raise BadRun(f"{folder} is not empty and holds no site of warpwatch: give a new or an empty folder to --html")
    try:
        names = json.loads(listing.read_text())
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and _inside(name) for name in names):
        raise BadRun(f"{listing}: is damaged, so it is not known what the site's files are: give another folder")
    return set(names)


def _inside(name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts
