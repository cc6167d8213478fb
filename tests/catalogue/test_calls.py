"""Tests of what is known of the packages that calls need."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpwatch.catalogue.calls import Call, PythonPackage


def install(folder: Path, name: str, version: str, url: str = "") -> None:
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if url:
        (about / "direct_url.json").write_text(url)


def test_the_version_of_a_call_is_that_of_all_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "first_package", "1.0")
    install(tmp_path, "second_package", "2.1")
    needs = [PythonPackage(name) for name in ("first_package", "second_package", "no_package")]
    assert Call(prepare=lambda: print, needs=tuple(needs[:2])).version() == "1.0 2.1"
    assert Call(prepare=lambda: print, needs=tuple(needs)).version() == ""
    assert Call(prepare=lambda: print).version() == ""


@pytest.mark.parametrize("about", ['"editable": true', ""])
def test_a_package_that_was_installed_from_a_folder_has_no_version(
    about: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "own_package", "1.0", '{"url": "file:///own", "dir_info": {' + about + "}}")
    install(tmp_path, "other_package", "1.0", '{"url": "https://host/other.whl", "archive_info": {}}')
    assert (PythonPackage("own_package").version(), PythonPackage("other_package").version()) == ("", "1.0")
