"""Tests of the page above the sites of several GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warpwatch.cli.main import main
from warpwatch.report.site.render import SUMMARY, Site, write_overview
from warpwatch.runs.record import BadRun

SITE = Site(gpu="NVIDIA H200", commit="abc", when="2026-11-23T02:20+00:00", nights=9, verdicts={"slower": 2, "same": 8})


def sites(folder: Path, **found: Site) -> Path:
    for name, site in found.items():
        (folder / name).mkdir(parents=True)
        (folder / name / SUMMARY).write_bytes(site.encoded())
        (folder / name / "index.html").write_text("its own")
    return folder


def test_the_page_names_every_gpu_with_its_verdicts_the_rare_ones_too(tmp_path: Path) -> None:
    other = replace(SITE, gpu="NVIDIA H100", verdicts={"same": 9, "failed": 3})
    folder = sites(tmp_path / "site", h200=SITE, h100=other)
    assert [site.folder for site in write_overview(folder)] == ["h100", "h200"]
    page = (folder / "index.html").read_text()
    assert '<a href="h200/index.html">NVIDIA H200</a></th><td>2</td><td>0</td>' in page
    assert "2026-11-23 02:20" in page
    assert '<th scope="col">failed</th><th scope="col">newest run</th>' in page
    assert page.count("<td>3</td>") == 1
    assert (folder / "h200" / "index.html").read_text() == "its own"
    write_overview(folder)  # once more, over its own files


def test_gpus_that_left_no_site_are_told_on_the_page_and_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sites(tmp_path / "site", a=SITE)
    monkeypatch.setattr("sys.argv", ["warpwatch", "sites", str(folder), "--gpus", "3"])
    assert main() == 0
    said = "2 of 3 GPUs left no site: what became of their kernels is not known"
    assert capsys.readouterr().out.startswith(f"{said}\n1 site: open ")
    assert f'<p class="alarm">{said}</p>' in (folder / "index.html").read_text()
    write_overview(folder, 1)
    assert "left no site" not in (folder / "index.html").read_text()
    monkeypatch.setattr("sys.argv", ["warpwatch", "sites", str(folder / "a")])
    assert main() == 2
    assert "holds no folder with a site" in capsys.readouterr().err


def test_a_hostile_name_is_text(tmp_path: Path) -> None:
    folder = sites(tmp_path / "site", a=replace(SITE, gpu='"><script>alert(1)</script>'))
    write_overview(folder)
    assert "<script" not in (folder / "index.html").read_text()


def test_nothing_of_others_is_overwritten(tmp_path: Path) -> None:
    folder = sites(tmp_path / "site", a=SITE)
    (folder / "index.html").write_text("mine")
    with pytest.raises(BadRun, match="is not empty and holds no site"):
        write_overview(folder)
    assert (folder / "index.html").read_text() == "mine"


def test_a_damaged_site_is_a_sentence(tmp_path: Path) -> None:
    (sites(tmp_path, a=SITE) / "a" / SUMMARY).write_text("{")
    with pytest.raises(BadRun, match="does not say what its site shows"):
        write_overview(tmp_path)
