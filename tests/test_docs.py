"""README and docs/ are short, linked and true: commands work, outputs are what is printed, tables agree."""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest

from tests.checkout import Bench
from tests.project import ROOT
from tests.stranger import run_command, run_pytest
from warpwatch.cli.main import make_parser

README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "softcuda" / "README.md", *DOCS]
ADDED = "docs/adding-a-kernel.md"
GLOSSARY = ROOT / "docs" / "glossary.md"

pages = pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def slugs(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: Path) -> Iterator[tuple[str, str]]:
    """File and anchor of every link and picture of a page that leads to this repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            file, _, anchor = target.partition("#")
            yield file, anchor


def test_the_readme_is_read_in_a_minute() -> None:
    text = README.read_text()
    assert text.count("\n") <= 130
    assert len(text.split()) <= 900


@pages
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for file, anchor in links(page):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{page.name}: {file}"
        assert not anchor or anchor in slugs(target), f"{page.name}: {file}#{anchor}"


@pages
def test_files_that_are_named_exist(page: Path) -> None:
    folders = "kernels|correctness|bench|warpwatch|softcuda|tests|docs|tools|[.]github"
    for name in re.findall(rf"`((?:{folders})/[\w./-]*)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_every_page_is_linked_by_the_readme_or_a_page_that_this_links_to() -> None:
    near = {(ROOT / file).resolve() for file, _ in links(README)} & set(PAGES)
    further = {(page.parent / file).resolve() for page in near for file, _ in links(page) if file}
    assert near | further >= set(PAGES) - {README}


def test_the_site_of_the_docs_lists_every_page() -> None:
    listed = re.findall(r"^[\w./-]+$", (ROOT / "docs" / "site" / "contents.md").read_text(), re.MULTILINE)
    assert {ROOT / f"{name}.md" for name in listed} >= {*PAGES, ROOT / "CHANGELOG.md"} - {README}


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_a_page_opens_with_what_its_reader_wants(page: Path) -> None:
    title, _, opening = page.read_text().partition("\n\n")
    assert re.fullmatch("# .+", title)
    assert opening.startswith("You ")


# The commands that pages show, and the variants of them that are quick and need no GPU.


def shown(page: Path) -> Iterator[str]:
    """The commands of a page: lines of its sh blocks, and what stands in backticks and begins as a command does."""
    for block in blocks(page, "sh"):
        for line in block.splitlines():
            yield re.sub(r"\s+#.*", "", line)
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)):
        whole = not re.search(r"\.\.\.|<\w", span)  # no place is left for the reader to fill
        if whole and re.match(r"(\w+=\S+ )?(make|pytest|python -m (warpwatch|tools[.](score|nights|unsure))) \S", span):
            yield from span.split(" && ")


COMMANDS = sorted({command for page in PAGES for command in shown(page)})
PYTEST = [command for command in COMMANDS if re.match(r"(\w+=\S+ )?pytest ", command)]
MAKE = [command for command in COMMANDS if command.startswith("make ")]
WARPWATCH = [command for command in COMMANDS if " -m warpwatch " in command]
REPLAYS = [command for command in COMMANDS if re.match(r"python -m tools[.](score|histories|nights|unsure) ", command)]
# Commands of a stranger's repository (docs/your-kernels.md): tests/cli/test_init.py runs them there.
ELSEWHERE = {
    "git clone https://github.com/warpwatch/warpwatch ../warpwatch",
    "python3 -m venv .venv && . .venv/bin/activate",
    "python ../warpwatch/tools/install.py --engine",
    "warpwatch init",
    "pytest",
    'git add -A && git commit -m "Kernels are measured"',
}
QUICK = re.compile(r"python -m warpwatch (list|run matmul-tiled-16x16-33x65x33-float32)\b")

COLLECT = """
import io, json, sys
from contextlib import redirect_stdout
import pytest
said = {}
for command, words in json.load(sys.stdin).items():
    with redirect_stdout(io.StringIO()) as printed:
        status = pytest.main([*words, "--collect-only", "-qq", "--device=none", "-p", "no:cacheprovider"])
    said[command] = int(status), printed.getvalue()[-2000:]
print(json.dumps(said))
"""


def own_environment() -> dict[str, str]:
    """The environment without what xdist tells its processes: those that are started here are none of them."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}


def run(command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program in the repository."""
    return subprocess.run(
        command, cwd=ROOT, env=own_environment(), input=given, capture_output=True, text=True, check=False
    )


def words_of(command: str) -> list[str]:
    """The words of a shown command as a shell makes them, without variables that it sets."""
    words = [re.sub("^(main|REV)$", "HEAD", word) for word in shlex.split(command)]
    return words[1:] if "=" in words[0] else words


def test_every_command_is_one_that_this_test_knows() -> None:
    assert len(PYTEST) >= 10
    assert len(WARPWATCH) >= 8
    assert sorted({*PYTEST, *MAKE, *WARPWATCH, *REPLAYS, *(ELSEWHERE & {*COMMANDS})}) == COMMANDS


@pytest.mark.slow
def test_every_pytest_command_selects_tests() -> None:
    """All in one process, as it is the imports that take time; but for those that replace it."""
    wanted = {shlex.join(words): words[1:] for words in map(words_of, PYTEST)}
    for command in [command for command in wanted if "--untrusted" in command]:
        words = [*wanted.pop(command), "--collect-only", "-qq", "--device=none", "-p", "no:cacheprovider"]
        done = run([sys.executable, "-m", "pytest", *words])
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    done = run([sys.executable, "-c", COLLECT], json.dumps(wanted))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said.keys() == wanted.keys()
    for command, (status, printed) in said.items():
        assert status == 0, f"{command}: {printed}"


@pytest.mark.parametrize("command", MAKE)
def test_every_make_command_has_its_target(command: str) -> None:
    done = run(["make", "-n", *shlex.split(command)[1:]])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", WARPWATCH)
def test_every_warpwatch_command_is_understood(command: str) -> None:
    """Options and arguments; that the files are there, but for those of a GPU that the reader is to name."""
    words = shlex.split(command)
    words = words[words.index("warpwatch") + 1 :]
    if all(re.fullmatch("[a-z-]+", word) for word in words):  # a subcommand that is named and not shown in use
        words.append("--help")
        with pytest.raises(SystemExit, match=r"^0$"):
            make_parser().parse_args(words)
        return
    patterns = [word for word in words if "*" in word and "<" not in word]
    assert all(glob(str(ROOT / pattern)) for pattern in patterns)
    make_parser().parse_args(words)


def test_what_replays_recordings_is_given_runs_that_are_there() -> None:
    assert REPLAYS
    for command in REPLAYS:
        _, _, tool, *words = shlex.split(command)
        runs = importlib.import_module(tool).make_parser().parse_args(words).runs
        assert all(glob(str(ROOT / run)) for run in runs)


@pytest.mark.once
@pytest.mark.parametrize("command", [command for command in WARPWATCH if QUICK.match(command)])
def test_quick_commands_run(command: str) -> None:
    words = [sys.executable, *shlex.split(command)[1:]]
    words += ["--device", "software"] if words[3] == "run" and "--device" not in words else []
    done = run(words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^result +right$" if words[3] == "run" else r"^transpose-naive-32x32-", done.stdout, re.MULTILINE)


# What pages show is what is printed.

TILED, NO_GPU = "kernels/matmul/tiled.cu", ROOT / "docs" / "no-gpu.md"
SECOND_BARRIER = ("    __syncthreads();\n    }\n    if (row < m", "    }\n    if (row < m")
LAST_ROW = ("if (row < m && col < k)", "if (row < m - 1 && col < k)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "case", "first", "shown_by"),
    [
        (LAST_ROW, "matmul-tiled-16x16-129x97x63-float32", "matmul-tiled-16x16-129x97x63-float32 is wrong", (README,)),
        (SECOND_BARRIER, "matmul-tiled-16x16-17x33x65-float32", "softcuda: race in matmul_tiled", (NO_GPU,)),
    ],
    ids=["wrong", "racy"],
)
def test_a_changed_kernel_is_said_to_be_what_pages_show(
    tmp_path: Path, edit: tuple[str, str], case: str, first: str, shown_by: tuple[Path, ...]
) -> None:
    bench = Bench(tmp_path)
    kernel = tmp_path / TILED
    assert kernel.read_text().count(edit[0]) == 1
    kernel.write_text(kernel.read_text().replace(*edit))
    done = bench.run_in(tmp_path, sys.executable, *f"-m pytest correctness -qx --device=software -k {case}".split())
    assert done.returncode == 1, done.stdout + done.stderr
    for page in shown_by:
        (block,) = (block for block in blocks(page, "text") if block.startswith(first))
        assert block in done.stdout


OWN = ROOT / "docs" / "your-kernels.md"
EARLY_END = ("        y[row + i] = ", "        if (i < n - 1) y[row + i] = ")
NO_BARRIER = ("        __syncthreads();  // the values of the step before are there\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "first"),
    [(EARLY_END, "softmax-block_per_row"), (NO_BARRIER, "softcuda: uninitialised memory")],
    ids=["wrong", "racy"],
)
def test_a_change_in_a_repository_is_reported_as_the_page_shows(
    tmp_path: Path, edit: tuple[str, str], first: str
) -> None:
    """Make the same mistakes as the page, on the same lines."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert run_command(tmp_path, "init").returncode == 0
    kernel = tmp_path / "perf" / "block_per_row.cu"
    assert kernel.read_text().count(edit[0]) == 1
    kernel.write_text(kernel.read_text().replace(*edit))
    done = run_pytest(tmp_path, "-qx", "--device=software", "-k", "128-17x33")
    assert done.returncode == 1, done.stdout + done.stderr
    (block,) = (block for block in blocks(OWN, "text") if block.startswith(first))
    assert block.partition("  again")[0] in done.stdout  # that line names the device here


def test_the_readmes_slower_case_is_written_as_it_is_printed() -> None:
    (line,) = (block.rstrip("\n") for block in blocks(README, "text") if "slower" in block)
    number = r"[\d.]+"
    assert re.fullmatch(
        rf"[\w-]+: slower: median {number} -> {number} µs, \+{number} % "
        rf"\(95 %: \+{number} to \+{number}\), floor {number} %, \d processes",
        line,
    )


def rows(page: Path, title: str) -> dict[str, list[str]]:
    """The table of a page whose first column has that title: the other columns of each row, by the first."""
    lines = page.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"| {title} |"))
    found = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        found[name.replace("*", "")] = cells
    return found


def test_the_readmes_rules_are_those_of_the_full_table() -> None:
    short, full = rows(README, "rule"), rows(ROOT / "docs" / "trust.md", "rule")
    assert len(short) == 5
    for name, (setting, alarms, large, small) in short.items():
        row = full[name.replace("Warpwatch", "this suite's")]
        assert row[0].startswith(setting)
        assert alarms == row[3]
        assert large == f"{row[8].split()[2]} %"  # of slowdowns by 1, 2, 3, 5 and 10 %
        assert small == f"{row[6].split()[4]} %"


def test_the_answer_to_how_often_is_of_the_full_table() -> None:
    page = ROOT / "docs" / "trust.md"
    short, full = rows(page, "what you compare"), rows(page, "rule")
    settings = {"pairs": ", `--against`", "saved times, same GPU within the hour": "",
                "saved times, a GPU that the committed baseline lacks": ", saved times alone"}  # fmt: skip
    for setting, rule in settings.items():
        ((alarms, large, middle, small),) = (cells for name, cells in short.items() if name.startswith(setting))
        row = full[f"this suite's{rule}"]
        one, _, three, *_ = row[8].split()
        assert alarms.replace(" replayed", "").startswith(row[3])
        assert (large, middle, small) == (f"{one}, {three} %", f"{row[7].split()[2]} %", f"{row[6].split()[4]} %")


def dedented(text: str) -> str:
    return re.sub(r"(?m)^ +", "", text)


def test_the_lines_that_add_a_kernel_are_the_repositorys_own() -> None:
    page, folder = ROOT / ADDED, ROOT / "kernels" / "transpose"
    (entry,) = blocks(page, "python")
    assert dedented(entry).rstrip() in dedented((folder / "__init__.py").read_text())
    (signature,) = blocks(page, "c++")
    assert signature in (folder / "swizzled.cu").read_text()


# The map and the glossary.


def map_entries() -> Iterator[tuple[Path, str]]:
    """Each line of CONTRIBUTING's map: the path that it names, and what is said of it, with lines that go on."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    folders: dict[int, Path] = {-1: ROOT}
    entries: list[tuple[Path, str]] = []
    page = text[text.index("## Where things are") : text.index("## Run what you touched")]
    for line in re.findall(r"^    ( *\S.*)$", page, re.MULTILINE):
        indent = len(line) - len(line.lstrip())
        if indent > 6:  # goes on
            entries[-1] = entries[-1][0], f"{entries[-1][1]} {line.strip()}"
            continue
        name, _, about = line.strip().partition(" ")
        parent = folders[max(depth for depth in folders if depth < indent)]
        folders = {depth: folder for depth, folder in folders.items() if depth < indent} | {indent: parent / name}
        entries.append((parent / name, about))
    yield from entries


def test_the_map_names_what_is_there() -> None:
    entries = list(map_entries())
    for path, about in entries:
        assert path.exists(), path
        folder = path if path.is_dir() else path.parent
        for name in re.findall(r"[\w*]+\.(?:py|toml)\b", about):
            assert list(folder.glob(name)) + list(folder.parent.glob(name)), f"{path}: {name}"
    own = ("cli", "site", "untrusted")  # where a module is called after what it is of
    modules = [path for path in (ROOT / "warpwatch").rglob("[!_]*.py") if path.parent.name not in own]
    pages = "".join((ROOT / page).read_text() for page in ("CONTRIBUTING.md", "docs/design.md"))
    assert not [path for path in modules if not re.search(rf"\b{path.name}", pages)]
    named = {path for path, _ in entries}
    packages = {init.parent for init in (ROOT / "warpwatch").rglob("__init__.py")}
    assert named >= packages
    assert named >= {ROOT / name for name in ("kernels", "correctness", "bench", "softcuda", "tests", "docs", "tools")}


@functools.cache
def written() -> str:
    """All code and all pages but the glossary, in lower case, with blanks for line ends and underscores."""
    folders = ("warpwatch", "kernels", "softcuda", "bench", "correctness", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".cu", ".md"}]
    text = " ".join(path.read_text() for path in [README, *files] if path != GLOSSARY)
    return re.sub(r"[\s_#>-]+", " ", text.lower())


def test_every_term_of_the_glossary_has_a_meaning_and_a_source_and_is_used() -> None:
    terms = [line for line in GLOSSARY.read_text().splitlines() if re.match(r"\| (?!term \|)\w", line)]
    assert len(terms) > 50
    names: list[str] = []
    for line in terms:
        term, meaning, source = (cell.strip() for cell in line.strip("|").split("|"))
        assert meaning
        assert source, f"{term} has no source"
        names += term.split(", ")
    assert len(names) == len(set(names))
    for name in names:
        stem = name.lower().replace("-", " ")
        assert re.search(rf"\b{re.escape(stem)}(e?s|ed)?\b", written()), f"{name} is not used"
