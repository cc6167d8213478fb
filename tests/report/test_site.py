"""Tests the site of saved runs without a browser: what its pages say, that links lead somewhere, that HTML is whole."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.project import PROJECT, ROOT
from tests.report.site_runs import Night, case_ids, identity_of, repeat, save
from warpwatch.catalogue.project import Project
from warpwatch.report.site.content import Content
from warpwatch.report.site.render import make_site, render, write_overview
from warpwatch.runs.record import BadRun

NAMES = case_ids(60)
SLOWER, FASTER, UNSURE, GONE, STEPPED, AGAIN = NAMES[3:9]
NEW = "matmul-newest-16x16-128x128x128-float32"
NIGHTS = 14
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


def of_case(name: str) -> str:
    return f"c/{name}.html"


class Page(HTMLParser):
    """Reads a page: its links, ids and text, and tags that are not closed or ids that are given twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.faults: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := given.get(name)) is not None]
        self.ids += [value for name in ("id",) if (value := given.get(name))]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()} closes another tag")

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "script":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a baseline of five runs and fourteen nights; in the last one much is to be told."""
    root = tmp_path_factory.mktemp("project")
    names = [name for name in NAMES if name != NEW]
    for day in range(5):
        save(root / "bench/baselines/a-gpu", names, Night(day=day, samples=20))
    runs = root / ".benchmarks/a-gpu"
    for day in range(10, 10 + NIGHTS - 1):
        save(runs, names, Night(day=day, factors={STEPPED: 1.2 if day > 16 else 1}))
    changed: dict[str, dict[str, Any]] = {
        name: {"identity": identity_of("another")} for name in (SLOWER, FASTER, UNSURE)
    }
    changed[SLOWER]["explanation"] = "likely cause: more barriers: 2 -> 4 in the code"
    renamed = {NEW: {"image_hash": f"hash of {GONE}", "identity": identity_of(f"hash of {GONE}")}}
    beside = {"joules": 0.01234, "host_seconds": 3.3e-6, "host_iqr": 0.2e-6, "graph_seconds": 1.5e-6}
    last = Night(
        day=10 + NIGHTS,  # a night is missing before it
        factors={STEPPED: 1.2, SLOWER: 1.3, FASTER: 0.7, UNSURE: 1.3},
        facts={**changed, **renamed, AGAIN: {"throttle": [["power cap"], []], "overhead": 1.5e-6} | beside},
        processes={SLOWER: 5, FASTER: 5},
        samples=20,
        without=[GONE],
        about={"failed": ["transpose-naive-32x32-512x512-float32"]},
    )
    save(runs, [*names, NEW], last)
    return replace(PROJECT, root=root)


def saved(project: Project) -> list[Path]:
    return sorted(project.saved_runs.glob("a-gpu/*.json"))


@pytest.fixture(scope="module")
def site(project: Project) -> Path:
    folder = project.root / "site"
    make_site(project, saved(project), folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {str(path.relative_to(site)): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def test_every_case_and_every_family_has_its_page(pages: Mapping[str, Page]) -> None:
    assert {of_case(name) for name in [*NAMES, NEW]} <= pages.keys()
    assert {"index.html", "cases.html", "families.html", "machine.html", "nights.html", "f/matmul.html"} <= pages.keys()
    linked = {link for link in pages["cases.html"].links if link.startswith("c/")}
    assert linked == {name for name in pages if name.startswith("c/")}


def test_pages_are_whole_html(pages: Mapping[str, Page]) -> None:
    for name, page in pages.items():
        assert not page.faults, f"{name}: {page.faults[:3]}"
        assert len(page.ids) == len(set(page.ids)), name


def targets(name: str, page: Page) -> Iterator[tuple[str, str]]:
    """Yield path and fragment of what a page links to, from the site's root."""
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme != "data":
            assert not parts.scheme, f"{name} needs a network: {link}"
            path = (Path(name).parent / unquote(parts.path)).as_posix() if parts.path else name
            yield path, parts.fragment


def test_every_link_leads_somewhere(site: Path, pages: Mapping[str, Page]) -> None:
    for name, page in pages.items():
        for path, fragment in targets(name, page):
            assert (site / path).is_file(), f"{name}: {path}"
            there = pages.get(Path(path).as_posix().replace("c/../", "").replace("f/../", ""))
            if fragment and "=" not in fragment and there:
                assert fragment in there.ids, f"{name}: {path}#{fragment}"


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("index.html", [f"perhaps renamed to {NEW}", "transpose-naive-32x32-512x512-float32", "1 of 5 processes"]),
        ("index.html", ["8 serial, and over a second each", "declared now, and not in this run"]),
        (of_case(SLOWER), [f"pytest bench --benchmark-compare -k {SLOWER}", "0025_night.json"]),
        (of_case(SLOWER), ["Likely cause: more barriers: 2 -> 4 in the code."]),
        (of_case(NAMES[12]), ["Its work is the baseline's"]),
        (of_case(AGAIN), ["clock throttled: power cap", "Energy 12.34 mJ a launch, one after the other"]),
        (
            of_case(AGAIN),
            ["Host 3.30 µs a launch, 0.20 µs between its quartiles, 1.50 µs each in a graph of a hundred"],
        ),
        (of_case(GONE), ["renamed or taken away"]),
        (of_case(STEPPED), ["16ab16ab16ab to 17ab17ab17ab , 2026-08-17 to 2026-08-18"]),
        (of_case(STEPPED), ["git log 16ab16ab16ab..17ab17ab17ab"]),
        ("nights.html", ["14 runs, 1 lasting change, 0 of them of kernels.", "2026-08-24", STEPPED]),
        ("machine.html", ["A GPU <&>", "132", "above 100 µs", "Not the kernel's 1.50 µs of each time"]),
        (f"f/{NAMES[30].split('-')[0]}.html", ["Time by variant, block and shape", "Growth from shape to shape"]),
    ],
)
def test_a_page_says(pages: Mapping[str, Page], page: str, texts: list[str]) -> None:
    for text in texts:
        assert text in pages[page].text


def test_the_first_page_lists_the_cases_of_the_verdicts_that_need_a_look(pages: Mapping[str, Page]) -> None:
    text = pages["index.html"].text
    for verdict, name in (("Slower", SLOWER), ("Faster", FASTER), ("Unsure", UNSURE), ("Missing", GONE)):
        assert name in text[text.index(f"{verdict} ", text.index("95 %") if verdict != "Slower" else 0) :]


def test_the_page_of_a_case_has_the_figures_of_its_verdict(pages: Mapping[str, Page]) -> None:
    text = pages[of_case(SLOWER)].text
    number = r"\+?([\d.,]+)"
    interval = rf"{number} % \(95 %: {number} to {number}\)"
    found = re.search(rf"slower median {number} -> {number} µs, {interval}, floor {number} %, 5 processes", text)
    assert found
    before, after, change, low, high, floor = (float(each.replace(",", "")) for each in found.groups())
    assert change == pytest.approx(30, abs=1)
    assert change - 2 < low < change < high < change + 2
    assert after / before == pytest.approx(1 + change / 100, abs=0.001)
    assert 0.5 <= floor < 5
    for absent in ("Its work is the baseline's", "Kernel's own", "Energy"):
        assert absent not in text


def charts(site: Path, page: str) -> list[Any]:
    text = (site / page).read_text()
    return [json.loads(each) for each in re.findall(r'<script type="application/json">(.*?)</script>', text)]


def test_the_page_of_a_case_has_its_history_with_the_change_point(site: Path) -> None:
    (history,) = (chart for chart in charts(site, of_case(STEPPED)) if chart["k"] == "history")
    unit, least = history["u"]
    medians = [(value + least) * unit for value in history["v"]]
    assert len(medians) == NIGHTS
    assert medians[7] / medians[6] == pytest.approx(1.2, abs=0.03)
    assert [level[:2] for level in history["levels"]] == [[0, 6], [7, NIGHTS - 1]]


def test_the_samples_of_both_sides_are_shown_in_shares(site: Path) -> None:
    (samples,) = (chart for chart in charts(site, of_case(SLOWER)) if chart["k"] == "samples")
    old, new = samples["v"]
    assert len(old) == len(new) <= 24
    assert sum(old) == pytest.approx(100, abs=5)
    assert sum(new) == pytest.approx(100, abs=5)
    assert max(range(len(new)), key=new.__getitem__) > max(range(len(old)), key=old.__getitem__)


def test_what_of_a_time_is_not_the_kernels_is_shown(pages: Mapping[str, Page]) -> None:
    text = pages[of_case(AGAIN)].text
    shown = re.search(r"Median ([\d,.]+) µs of 20 samples Kernel's own ([\d,.]+) µs; events with nothing", text)
    assert shown
    median, own = (float(each.replace(",", "")) for each in shown.groups())
    assert median - own == pytest.approx(1.5, abs=0.11)  # of figures with one decimal


def test_the_calendar_the_baseline_and_the_fastest_are_shown_once_each(site: Path, pages: Mapping[str, Page]) -> None:
    assert pages["nights.html"].text.count("Calendar") == 1
    assert pages["machine.html"].text.count("_night.json") >= 5
    assert 'style="--h:1"' in (site / "f" / f"{NAMES[30].split('-')[0]}.html").read_text()


def test_runs_may_be_published_elsewhere(project: Project, tmp_path: Path) -> None:
    files = render(Content.gather(project, saved(project)[-1:]), tmp_path, "https://example.org/runs/")
    assert b'href="https://example.org/runs/0025_night.json"' in files["index.html"]
    assert b"benchmarks/a-gpu" not in files["index.html"]


def test_what_a_run_holds_is_escaped(project: Project, tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script>'
    names = [*NAMES[:5], evil, "../../../etc/passwd"]
    path = save(tmp_path, names, Night(day=1, gpu={"name": evil}, facts={NAMES[3]: {"fallback": evil}}))
    files = render(Content.gather(project, [path]), tmp_path / "site")
    assert sum(name.startswith("c/") for name in files) >= len(names)
    for name, content in files.items():
        assert re.fullmatch(r"((c|f|assets)/)?[\w-][\w.-]*", name)
        assert b"<script>alert" not in content, name


def test_every_page_of_a_device_made_of_software_says_what_its_times_are(project: Project, tmp_path: Path) -> None:
    names = [*NAMES[:30], *(name for name in case_ids(900) if name.startswith("matmul-serial-host-128"))]
    slow = dict.fromkeys((name for name in names if "-host-" not in name), 1e4)
    path = save(tmp_path, names, Night(day=1, factors=slow, gpu={"slug": "soft", "note": "its times are the host's"}))
    files = render(Content.gather(project, [path]), tmp_path / "site")
    for name, content in files.items():
        assert not name.endswith(".html") or "its times are the host" in Page(content.decode()).text, name
    first = Page(files["index.html"].decode()).text
    assert "Compared with nothing" in first
    assert "Nothing is slower" not in first
    assert "Whether anything is slower is not known" in first
    family = files[f"f/{NAMES[20].split('-')[0]}.html"].decode()
    cells = re.findall(r"<td[^>]*>(?:<a[^>]*>)?([^<]*)(?:</a>)?(?:<small>([^<]*)</small>)?", family)
    figures = [text for texts in cells for text in texts if text]
    assert len(figures) > 20
    assert not {"0", "0×", "0.00", "0.0"} & set(figures)
    (tmp_path / "all" / "soft").mkdir(parents=True)
    (tmp_path / "all" / "soft" / "site.json").write_bytes(files["site.json"])
    assert write_overview(tmp_path / "all")[0].note == "its times are the host's"
    assert "its times are the host" in (tmp_path / "all" / "index.html").read_text()


# Bad input


def test_nothing_of_the_users_is_overwritten(project: Project, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(BadRun, match="is not empty and holds no site of warpwatch"):
        make_site(project, saved(project), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(BadRun, match=r"thesis\.txt is a file"):
        make_site(project, saved(project), tmp_path / "thesis.txt")


def test_a_site_is_written_anew_and_other_files_in_it_stay(project: Project, tmp_path: Path) -> None:
    few = save(tmp_path / "few", NAMES[:6], Night(day=1))
    folder = tmp_path / "site"
    make_site(project, saved(project), folder)
    (folder / "CNAME").write_text("mine")
    make_site(project, [few], folder)
    assert not (folder / of_case(NEW)).exists()
    assert (folder / "CNAME").read_text() == "mine"
    (folder / of_case(NEW)).write_text("mine")
    with pytest.raises(BadRun, match="is not the site's and would be overwritten"):
        make_site(project, saved(project), folder)
    assert (folder / of_case(NEW)).read_text() == "mine"
    (folder / ".warpwatch-site.json").write_text('["../x"]')
    with pytest.raises(BadRun, match="is damaged"):
        make_site(project, [few], folder)


def test_runs_that_have_no_history_in_common_are_told_apart(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights = [
        Night(day=1),
        Night(day=2, gpu={"uuid": "GPU-2"}),
        Night(day=3, gpu={"cache": "warm"}),
        Night(day=4, about={"against": "ab" * 20}),
        Night(day=200),  # half a year later
    ]
    paths = [save(tmp_path, NAMES[:6], night) for night in nights]
    (tmp_path / "0009_night.json").write_text('{"benchmarks": [')
    make_site(project, [*paths, tmp_path / "0009_night.json"], tmp_path / "site")
    said = capsys.readouterr().err
    assert "1 run is of other GPUs of this model" in said
    assert "0004_night.json: was measured with another cache mode" in said
    assert "0005_night.json: was measured side by side with abababababab" in said
    assert "0009_night.json: is not whole JSON" in said
    page = Page((tmp_path / "site" / "nights.html").read_text())
    assert "2 runs, 0 lasting changes, 0 of them of kernels." in page.text
    assert "weeks without a run" in page.text
    other = save(tmp_path / "b", NAMES[:6], Night(day=1, gpu={"slug": "b-gpu"}))
    with pytest.raises(BadRun, match=r"is of b-gpu, and .* of a-gpu: give the runs of one GPU model"):
        make_site(project, [paths[0], other], tmp_path / "site")


def test_a_run_without_samples_or_without_a_date_is_told(project: Project, tmp_path: Path) -> None:
    path = save(tmp_path, NAMES[:6], Night(day=1))
    document = json.loads(path.read_text())
    undated = tmp_path / "undated.json"
    undated.write_text(json.dumps({name: value for name, value in document.items() if name != "datetime"}))
    make_site(project, [undated], tmp_path / "site")
    assert "has no history" in (tmp_path / "site" / "nights.html").read_text()
    for entry in document["benchmarks"]:
        del entry["stats"]["data"]
    path.write_text(json.dumps(document))
    with pytest.raises(BadRun, match="has no samples"):
        make_site(project, [path], tmp_path / "site")


@pytest.mark.slow
def test_a_run_against_another_revision_has_its_site(tmp_path: Path) -> None:
    recorded = ROOT / "bench/recordings/tuning/nvidia-h200/0013_against.json.xz"
    make_site(PROJECT, [recorded], tmp_path / "site")
    page = Page((tmp_path / "site" / "index.html").read_text())
    assert "Measured side by side with" in page.text
    assert "831 same" in page.text


@pytest.mark.slow
def test_a_site_of_a_thousand_cases_and_a_hundred_nights_is_small_and_soon_made(tmp_path: Path) -> None:
    names = case_ids(1000)
    assert len(names) == 1000
    nights = [Night(day=day, samples=1) for day in range(9)]
    runs = [save(tmp_path / "runs", names, night) for night in nights]
    runs += [repeat(runs[day % 9], nights[day % 9], day) for day in range(9, 99)]
    runs.append(save(tmp_path / "runs", names, Night(day=100, samples=100)))
    for day in range(5):
        save(tmp_path / "bench/baselines/a-gpu", names, Night(day=day, samples=100))
    begin = time.process_time()
    make_site(replace(PROJECT, root=tmp_path), runs, tmp_path / "site")
    assert time.process_time() - begin < 60
    assert "100 runs" in (tmp_path / "site" / "nights.html").read_text()
    sizes = [path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert len(sizes) > 1000
    assert sum(sizes) < 5_000_000
