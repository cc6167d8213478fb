"""Tests of the page above the sites of several GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.stranger import run_command
from warpwatch.report.site.overview import ABOUT, Site, about, write_overview
from warpwatch.runs.record import BadRun

SITE = Site(gpu="NVIDIA H200", commit="abc", when="2026-11-23T02:20+00:00", nights=9, verdicts={"slower": 2, "same": 8})


def sites(folder: Path, **found: Site) -> Path:
    for name, site in found.items():
        (folder / name).mkdir(parents=True)
        (folder / name / ABOUT).write_bytes(about(site))
        (folder / name / "index.html").write_text("its own")
    return folder


def test_the_page_names_every_gpu_with_its_verdicts(tmp_path: Path) -> None:
    folder = sites(tmp_path / "site", h200=SITE, h100=replace(SITE, gpu="NVIDIA H100", verdicts={"same": 3}))
    assert [site.folder for site in write_overview(folder)] == ["h100", "h200"]
    page = (folder / "index.html").read_text()
    assert '<a href="h200/index.html">NVIDIA H200</a></th><td>2</td><td>0</td>' in page
    assert "2026-11-23 02:20" in page
    assert (folder / "h200" / "index.html").read_text() == "its own"
    write_overview(folder)  # once more, over its own files


def test_a_verdict_that_is_rare_has_a_column_too(tmp_path: Path) -> None:
    folder = sites(tmp_path / "site", a=replace(SITE, verdicts={"same": 8, "failed": 3}), b=SITE)
    write_overview(folder)
    page = (folder / "index.html").read_text()
    assert '<th scope="col">failed</th><th scope="col">newest run</th>' in page
    assert page.count("<td>3</td>") == 1


def test_gpus_that_left_no_site_are_told_on_the_page_and_by_the_command(tmp_path: Path) -> None:
    folder = sites(tmp_path / "site", a=SITE)
    done = run_command(tmp_path, "sites", "site", "--gpus", "3")
    assert done.returncode == 0, done.stderr
    said = "2 of 3 GPUs left no site: what became of their kernels is not known"
    assert done.stdout.startswith(f"{said}\n1 site: open ")
    assert f'<p class="alarm">{said}</p>' in (folder / "index.html").read_text()
    assert run_command(tmp_path, "sites", "site", "--gpus", "1").returncode == 0
    assert "left no site" not in (folder / "index.html").read_text()


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


def test_a_folder_without_sites_or_with_a_damaged_one_is_a_sentence(tmp_path: Path) -> None:
    done = run_command(tmp_path, "sites", ".")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "holds no folder with a site" in done.stderr
    (sites(tmp_path, a=SITE) / "a" / ABOUT).write_text("{")
    with pytest.raises(BadRun, match="does not say what its site shows"):
        write_overview(tmp_path)
