"""The site's folder, which is the site's own: nothing of the user's is overwritten."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from warpwatch.runs.files import write_whole
from warpwatch.runs.record import BadRun

LISTING = ".warpwatch-site.json"  # names the files of the site, so that the next one knows them


class SiteFolder:
    """Folder that is new, empty, or holds a site that is to be replaced.

    Raises BadRun where it is another's. ``beside``: folders in it that are sites themselves.
    """

    def __init__(self, folder: Path, beside: Collection[str] = ()) -> None:
        self.folder = folder
        self.before = _files_before(folder, beside)

    def write(self, files: Mapping[str, bytes]) -> int:
        """Write files by their paths, remove those of the site before, and return the number of bytes.

        Raises BadRun where one would overwrite what no site wrote, and OSError.
        """
        foreign = [name for name in files if name not in self.before and (self.folder / name).exists()]
        if foreign:
            what = "is not the site's and would be overwritten: give another folder to --html"
            raise BadRun(f"{self.folder / foreign[0]} {what}")
        self.folder.mkdir(parents=True, exist_ok=True)
        # The list comes first: what is cut off can then be written anew.
        write_whole(self.folder / LISTING, json.dumps(sorted({*self.before, *files})))
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name in self.before - files.keys():
            (self.folder / name).unlink(missing_ok=True)
        write_whole(self.folder / LISTING, json.dumps(sorted(files)))
        return sum(map(len, files.values()))


def _files_before(folder: Path, beside: Collection[str]) -> set[str]:
    """Read which files the site before wrote."""
    if folder.exists() and not folder.is_dir():
        raise BadRun(f"{folder} is a file: give a folder to --html")
    if not folder.exists() or all(path.name in beside for path in folder.iterdir()):
        return set()
    listing = folder / LISTING
    if not listing.is_file():
        raise BadRun(f"{folder} is not empty and holds no site of warpwatch: give a new or an empty folder to --html")
    with contextlib.suppress(ValueError):
        names = msgspec.json.decode(listing.read_bytes(), type=list[str])
        if not any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
            return set(names)
    raise BadRun(f"{listing}: is damaged, so it is not known what the site's files are: give another folder")
