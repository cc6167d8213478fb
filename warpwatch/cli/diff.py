"""Shows what changed in the machine code since another revision, without a GPU: ``warpwatch diff``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from warpwatch.catalogue.launches import read_capability
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.validation import problems
from warpwatch.cli.json_file import JsonFile, add_json
from warpwatch.cli.options import (
    ARCH,
    BadArgument,
    add_keywords,
    base_of,
    completed,
    few,
    progress,
    revisions,
    selector,
    words,
)
from warpwatch.compare.code_difference import (
    NO_CODE,
    BuildChange,
    CodeDifference,
    Kernel,
    KernelChange,
    State,
    compare_revision,
)
from warpwatch.devices.compile.compiler import architectures, nvcc
from warpwatch.machine_code.disassembler import NoDisassembler, nvdisasm
from warpwatch.report.document import unwritable
from warpwatch.revision.commit import checkout, same_files
from warpwatch.revision.unpacked import missing_submodules
from warpwatch.runs.files import write_whole

LISTED = 12  # names in a line of builds that are gone
LABELS = {
    State.IDENTICAL: "identical",
    State.DIFFERENT: "different",
    State.NEW: "new",
    State.GONE: "gone",
    State.FAILED: "not compiled",
    State.TOO_NEW: "for newer GPUs only",
}
HEADER = "| build | registers | local memory | shared | occupancy | instructions | loops | in loops | outside loops |"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completed(
        parser.add_argument(
            "revision", nargs="?", metavar="REV", help="a commit, branch or tag (the merge base with the main branch)"
        ),
        revisions,
    )
    parser.add_argument(
        "--arch",
        dest="names",
        type=words,
        default=ARCH,
        metavar="LIST",
        help=f"architectures, such as sm_80,sm_90 ({ARCH})",
    )
    add_keywords(parser, "only builds that match, as pytest -k")
    parser.add_argument(
        "--fail-on",
        dest="gates",
        type=words,
        default="",
        metavar="LIST",
        help="exit with 1 where these got worse: spills, registers, occupancy, with commas between them",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it as Markdown, for a pull request")
    add_json(parser)


def run(
    project: Project,
    *,
    revision: str | None,
    names: Sequence[str],
    keywords: str,
    gates: Sequence[str],
    markdown: Path | None,
    json: JsonFile | None = None,
) -> int:
    """Build both sides, print what differs and write the files; returns the exit status.

    Raises BadArgument, BadCase, BadRevision, NoCompiler, CompileError or OSError.
    """
    _check_gates(gates)
    matches = selector(keywords)
    if markdown and (why := unwritable(markdown)):
        raise BadArgument(why)
    _check_architectures(names)
    difference = _compare(project, revision, names, matches, gates)
    print(text_of(difference))
    if markdown:
        write_whole(markdown, markdown_of(difference))
    sentences = [*(str(each) for each in problems(project.families) if matches(each.id)), *difference.failures]
    for sentence in sentences:
        print(f"error: {sentence}", file=sys.stderr)
    if json:
        json.root, json.code, json.messages = project.root, difference, sentences
        json.record = replace(json.record, against=difference.commit)
    return int(bool(sentences) or any(change.broken for change in difference.builds))


def _compare(
    project: Project,
    revision: str | None,
    names: Sequence[str],
    matches: Callable[[str], bool],
    gates: Sequence[str],
) -> CodeDifference:
    """Build both sides and compare them. Raises BadCase, BadRevision, NoCompiler or CompileError."""
    commit, named = base_of(project, revision)
    called = revision or commit[:12]
    tree = checkout(commit, called, project)
    if lacks := missing_submodules(tree):
        print(f"{called}: {lacks}", file=sys.stderr)
    disassemble = _has_disassembler()
    changes = compare_revision(project, tree, called, names, matches, disassemble=disassemble, progress=progress)
    uncommitted = "" if same_files("HEAD", "HEAD", project.root) else ", with changes that are not committed"
    return CodeDifference(
        revision=named,
        commit=commit,
        tree=f"the working tree{uncommitted}",
        architectures=tuple(names),
        counts={arch: Counter(change.state for change in changes if change.arch == arch) for arch in names},
        builds=tuple(change for change in changes if change.state != State.IDENTICAL),
        failures=(*exceeded(changes, gates), *unknown(changes, gates)),
    )


def _check_gates(gates: Sequence[str]) -> None:
    """Raise BadArgument for a word that --fail-on does not know."""
    for word in gates:
        if word not in GATES:
            raise BadArgument(f"--fail-on {word}: it takes {', '.join(GATES)}, with commas between them")


def _check_architectures(names: Sequence[str]) -> None:
    """Raise BadArgument for an architecture that the installed nvcc does not compile for."""
    if not names:
        raise BadArgument("--arch names no architecture: give some, such as sm_80,sm_90")
    known = architectures()
    for name in names:
        if read_capability(name) not in known:
            listed = ", ".join(capability.arch for capability in known)
            raise BadArgument(f"--arch {name}: nvcc {nvcc().version} knows {listed}")


def _has_disassembler() -> bool:
    """Tell whether nvdisasm is there; where it is not, say what is lacking."""
    try:
        nvdisasm()
    except NoDisassembler as error:
        print(f"instructions are not counted: {error}", file=sys.stderr)
        return False
    return True


# Differences that can be asked to fail


def _spills(old: Kernel, new: Kernel) -> str:
    if new.needs.local_bytes > old.needs.local_bytes:
        return f"local memory of a thread grew from {old.needs.local_bytes:,} to {new.needs.local_bytes:,} bytes"
    for word in ("load", "store") if old.code and new.code else ():
        before, after = old.count(f"local {word}"), new.count(f"local {word}")
        if after > before:
            return f"{word}s of local memory grew from {before:,} to {after:,}"
    return ""


def _registers(old: Kernel, new: Kernel) -> str:
    before, after = old.needs.registers, new.needs.registers
    return f"registers grew from {before} to {after}" if after > before else ""


def _occupancy(old: Kernel, new: Kernel) -> str:
    """Compare at each block size that both sides have; the lowest ones where they have none in common."""
    before = {(e.threads, e.dynamic_bytes): e.occupancy for e in old.occupancies}
    for each in new.occupancies:
        earlier = before.get((each.threads, each.dynamic_bytes))
        if earlier and each.occupancy and each.occupancy.share < earlier.share:
            shares = f"{earlier.share:.2f} to {each.occupancy.share:.2f}"
            return f"occupancy at {each.threads} threads fell from {shares}"
    lowest = old.least_share, new.least_share
    if lowest[0] is not None and lowest[1] is not None and lowest[1] < lowest[0]:
        return f"the lowest occupancy fell from {lowest[0]:.2f} to {lowest[1]:.2f}"
    return ""


GATES: dict[str, Callable[[Kernel, Kernel], str]] = {
    "spills": _spills,
    "registers": _registers,
    "occupancy": _occupancy,
}


WITHOUT_NVDISASM = "loads and stores of local memory are not known without nvdisasm"


def exceeded(changes: Sequence[BuildChange], gates: Sequence[str]) -> list[str]:
    """List what was asked to fail and has happened, a sentence each."""
    return [
        f"{change}: {sentence}"
        for change in changes
        for kernel in change.kernels
        for gate in gates
        if kernel.old and kernel.new and (sentence := GATES[gate](kernel.old, kernel.new))
    ]


def unknown(changes: Sequence[BuildChange], gates: Sequence[str]) -> list[str]:
    """List what could not be compared although it was asked to fail, a sentence each; and that there was no build."""
    if not changes:
        return ["no build was compared: there is none, or -k chose none (`warpwatch list` shows the cases)"]
    if not gates:
        return []
    if not {change.state for change in changes} & {State.IDENTICAL, State.DIFFERENT}:
        return ["no build was compared"]
    sentences = []
    for change in changes:
        pairs = [pair for pair in change.kernels if pair.old and pair.new]
        shares = [pair.new.least_share for pair in pairs if pair.new]
        reasons = [
            ("not compared, because a side does not compile", change.state == State.FAILED),
            (NO_CODE, change.state == State.DIFFERENT and NO_CODE in change.notes),
            (WITHOUT_NVDISASM, "spills" in gates and not all(pair.codes for pair in pairs)),
            (f"occupancy is not known for {change.arch}", "occupancy" in gates and None in shares),
        ]
        sentences += [f"{change}: {reason}" for reason, holds in reasons if holds]
    return sentences


# Text and Markdown


def _summaries(difference: CodeDifference) -> Iterator[str]:
    """Yield a line on all builds for each architecture."""
    for arch, counts in difference.counts.items():
        total = sum(counts.values())
        parts = ", ".join(f"{counts[state]} {label}" for state, label in LABELS.items() if counts.get(state))
        yield f"{arch}: {total} build{'s' * (total != 1)}: {parts or 'none'}"


def _gone(difference: CodeDifference) -> str:
    """Name the builds that only the revision has."""
    names = [str(change) for change in difference.builds if change.state == State.GONE]
    return f"only in {difference.revision}: {few(names, LISTED)}" if names else ""


def text_of(difference: CodeDifference) -> str:
    """Return a difference for a terminal."""
    lines = [f"{difference.tree}, against {difference.revision} ({difference.commit[:12]})", *_summaries(difference)]
    for change in difference.builds:
        if change.state in (State.DIFFERENT, State.NEW, State.FAILED):
            lines += ["", f"{change}: {LABELS[change.state]}", *(f"  {note}" for note in change.notes)]
            for kernel in change.kernels:
                lines += [f"  kernel {kernel.entry}"] if len(change.kernels) > 1 else []
                rows = kernel.figures() if change.state == State.NEW else kernel.differences()
                lines += [f"  {row.name:<34} {row.new if change.state == State.NEW else row.text()}" for row in rows]
    gone = _gone(difference)
    return "\n".join([*lines, *([f"\n{gone}"] if gone else [])])


def markdown_of(difference: CodeDifference) -> str:
    """Return a difference as Markdown, a table of the kernels that differ."""
    against = f"{_escaped(difference.revision)} ({difference.commit[:12]})"
    lines = [f"### Machine code: {_escaped(difference.tree)}, against {against}", ""]
    lines += [f"- {line}" for line in _summaries(difference)]
    rows = [_table_row(change, kernel) for change in difference.builds for kernel in change.kernels]
    if rows:
        lines += ["", HEADER, "|---" * (HEADER.count("|") - 1) + "|", *rows]
    notes = [f"- {change}: {_escaped(note)}" for change in difference.builds for note in change.notes]
    gone = _gone(difference)
    notes += [f"- {_escaped(gone)}"] if gone else []
    return "\n".join([*lines, *(["", *notes] if notes else []), ""])


def _table_row(change: BuildChange, kernel: KernelChange) -> str:
    is_new = change.state == State.NEW
    figures = kernel.figures()
    needs, code = ([row.new if is_new else row.text("→") for row in rows] for rows in (figures[:3], figures[-2:]))
    occupancy = "<br>".join(f"{row.name.removeprefix('occupancy, ')}: {row.text('→')}" for row in figures[3:-2])
    name = f"`{change.id}` ({change.arch})" + (", new" if is_new else "")
    name += f"<br>`{kernel.entry}`" if len(change.kernels) > 1 else ""
    cells = [name, *needs, occupancy, *code]
    for rows in kernel.mix().values():
        cells.append("" if is_new else "<br>".join(f"{row.name}: {row.text('→')}" for row in rows))
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Return a text that stays in its cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _escaped(text: str) -> str:
    """Return a text of which nothing is taken for HTML."""
    return _cell(text).replace("&", "&amp;").replace("<", "&lt;")
