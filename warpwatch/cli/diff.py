"""Shows what changes in the machine code by another revision or toolchain, without a GPU: ``warpwatch diff``."""

from __future__ import annotations

import argparse
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from warpwatch.catalogue.launches import read_capability
from warpwatch.catalogue.names import split_id
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
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
from warpwatch.compare import compile_cost
from warpwatch.compare.code_difference import (
    NO_CODE,
    ONLY_SCHEDULE,
    BuildChange,
    CaseTimes,
    CodeDifference,
    Kernel,
    KernelChange,
    State,
    Timed,
    compare_revision,
    times_in,
)
from warpwatch.devices.compile.compiler import architectures, nvcc
from warpwatch.devices.compile.toolchain import INSTALLED, Toolchain, read_toolchain
from warpwatch.machine_code.disassembler import NoDisassembler, nvdisasm
from warpwatch.report.document import unwritable
from warpwatch.report.numbers import micro, percent
from warpwatch.revision.commit import checkout, same_files
from warpwatch.revision.unpacked import missing_submodules
from warpwatch.runs.files import chosen_files, write_whole
from warpwatch.runs.record import BuildCost, read_run

LISTED = 12  # names in a line of builds that are gone
RECORD_TIMES = "pytest bench --against HEAD --toolchain=... --benchmark-autosave does, on a GPU"
SAME = "="  # in the column of a toolchain whose machine code is that of the first
LABELS = {
    State.IDENTICAL: "identical",
    State.DIFFERENT: "different",
    State.NEW: "new",
    State.GONE: "gone",
    State.FAILED: "not compiled",
    State.TOO_NEW: "for newer GPUs only",
}
SHOWN = (State.DIFFERENT, State.NEW, State.FAILED)
HEADER = (
    "| build | registers | local memory | shared | code | occupancy | instructions | loops | in loops | outside loops |"
)


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
    _add_toolchains(parser)
    parser.add_argument(
        "--fail-on",
        dest="gates",
        type=words,
        default="",
        metavar="LIST",
        help=f"exit with 1 where these got worse: {', '.join((*GATES, *compile_cost.GATES))}, with commas between them",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it as Markdown, for a pull request")
    add_json(parser)


def _add_toolchains(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--toolchain",
        dest="named_toolchains",
        action="append",
        default=[],
        metavar="NVCC",
        help="compile the working tree so as well, and compare with the nvcc that is here, or with REV by it: "
        "'nvcc=13.2 -arch=sm_90a -use_fast_math'; several for a column each",
    )
    parser.add_argument(
        "--times",
        dest="runs",
        action="append",
        type=Path,
        default=[],
        metavar="RUN",
        help="add the times of a saved run, or of a folder of them, that measured the same two machine codes with "
        "pytest bench --against; can be given several times",
    )


def run(
    project: Project,
    *,
    revision: str | None,
    names: Sequence[str],
    keywords: str,
    named_toolchains: Sequence[str],
    runs: Sequence[Path],
    gates: Sequence[str],
    markdown: Path | None,
    json: JsonFile | None = None,
) -> int:
    """Build both sides, print what differs and write the files; returns the exit status.

    Raises BadArgument, BadCase, BadRevision, BadRun, NoCompiler, CompileError or OSError.
    """
    _check_gates(gates)
    matches = selector(keywords)
    if markdown and (why := unwritable(markdown)):
        raise BadArgument(why)
    _check_architectures(names)
    chosen = [read_toolchain(text, _say) for text in dict.fromkeys(named_toolchains)]
    timed = _timed(runs)
    difference = _compare(project, revision, names, matches, gates, chosen, timed)
    print(text_of(difference))
    if markdown:
        write_whole(markdown, markdown_of(difference))
    sentences = [*(str(each) for each in problems(project.families) if matches(each.id)), *difference.failures]
    if runs and difference.builds and not any(change.times for change in difference.builds):
        sentences.append(f"--times: none of the runs measured {_heading(difference)}: {RECORD_TIMES}")
    for sentence in sentences:
        print(f"error: {sentence}", file=sys.stderr)
    if json:
        json.root, json.code, json.messages = project.root, difference, sentences
        json.record = replace(json.record, against=difference.commit)
    return int(bool(sentences) or any(change.broken for change in difference.builds))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _timed(paths: Sequence[Path]) -> Timed:
    """Read the times of saved runs, which are of one model of GPU. Raises BadArgument, BadRun or OSError."""
    runs = [read_run(path) for path in chosen_files(paths)]
    if len(models := {run.slug for run in runs}) > 1:
        raise BadArgument(f"--times: the runs are of {', '.join(sorted(models))}: give those of one GPU")
    return times_in(runs)


def _compare(
    project: Project,
    revision: str | None,
    names: Sequence[str],
    matches: Callable[[str], bool],
    gates: Sequence[str],
    toolchains: Sequence[Toolchain],
    timed: Timed,
) -> CodeDifference:
    """Build both sides and compare them. Raises BadCase, BadRevision, NoCompiler or CompileError."""
    commit = called = named = uncommitted = ""
    tree, disassemble = None, _has_disassembler()
    if revision is not None or not toolchains:
        commit, named = base_of(project, revision)
        called = revision or commit[:12]
        tree = checkout(commit, called, project)
        if lacks := missing_submodules(tree):
            _say(f"{called}: {lacks}")
        uncommitted = "" if same_files("HEAD", "HEAD", project.root) else ", with changes that are not committed"
    compare = functools.partial(compare_revision, timed=timed, disassemble=disassemble, progress=progress)
    changes = compare(project, tree, called, names, matches, toolchains=toolchains)
    costs = _costs(changes)
    return CodeDifference(
        revision=named,
        commit=commit,
        tree=f"the working tree{uncommitted}",
        architectures=tuple(names),
        counts=_counts(changes, names),
        builds=tuple(change for change in changes if change.state != State.IDENTICAL),
        failures=(
            *exceeded(changes, gates),
            *(sentence for each in costs.values() for sentence in compile_cost.failures(each, gates)),
            *unknown(changes, gates),
        ),
        notes=_not_compared(project, matches, named),
        toolchains=tuple(each.title for each in (INSTALLED, *toolchains)) if toolchains else (),
        costs={column: tuple(compile_cost.lines(each)) for column, each in costs.items()},
    )


def _not_compared(project: Project, matches: Callable[[str], bool], named: str) -> tuple[str, ...]:
    """Return a sentence on calls, of which nothing is known before they run."""
    calls = {case.build.id for case in timed_cases(project.families) if case.variant.call and matches(case.build.id)}
    many = f"{len(calls)} call{'s are' if len(calls) > 1 else ' is'} not compared"
    how = f"pytest bench --against {named or 'REV'} on a GPU sees what a call launches"
    return (f"{many}: {how}",) if calls else ()


def _counts(changes: Sequence[BuildChange], names: Sequence[str]) -> dict[str, dict[State, int]]:
    """Count the builds in each state, by architecture and toolchain."""
    counts: dict[str, Counter[State]] = {} if changes else {name: Counter() for name in names}
    for change in changes:
        counts.setdefault(change.column, Counter())[change.state] += 1
    return {**counts}


def _costs(changes: Sequence[BuildChange]) -> dict[str, dict[str, BuildCost]]:
    """Return what builds cost on both sides, by architecture and toolchain: those whose files differ."""
    costs: dict[str, dict[str, BuildCost]] = {}
    for change in changes:
        if change.cost:
            costs.setdefault(change.column, {})[str(change)] = change.cost
    return costs


def _check_gates(gates: Sequence[str]) -> None:
    """Raise BadArgument for a word that --fail-on does not know."""
    for word in gates:
        if word not in (known := (*GATES, *compile_cost.GATES)):
            raise BadArgument(f"--fail-on {word}: it takes {', '.join(known)}, with commas between them")


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
        if gate in GATES and kernel.old and kernel.new and (sentence := GATES[gate](kernel.old, kernel.new))
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
    """Yield a line on all builds for each architecture and toolchain, and on what those cost that differ."""
    for column, counts in difference.counts.items():
        total = sum(counts.values())
        parts = ", ".join(f"{counts[state]} {label}" for state, label in LABELS.items() if counts.get(state))
        yield f"{column}: {total} build{'s' * (total != 1)}: {parts or 'none'}"
        if difference.toolchains and (worse := _worse(difference, column)):
            yield f"{column}: worse: {worse}"
        for line in difference.costs.get(column, ()):
            yield f"{column}: {line}"
        times = [each for change in difference.builds if change.column == column for each in change.times.values()]
        if times:
            verdicts = Counter(str(each.verdict) for each in times)
            yield f"{column}: times: {', '.join(f'{count} {verdict}' for verdict, count in sorted(verdicts.items()))}"


def _worse(difference: CodeDifference, column: str) -> str:
    """Say how many kernels of a column are worse by each gate."""
    kernels = [kernel for each in difference.builds if each.column == column for kernel in each.kernels]
    both = [(kernel.old, kernel.new) for kernel in kernels if kernel.old and kernel.new]
    counts = {name: sum(bool(gate(old, new)) for old, new in both) for name, gate in GATES.items()}
    return ", ".join(f"{name} of {count} kernel{'s' * (count != 1)}" for name, count in counts.items() if count)


def _gone(difference: CodeDifference) -> str:
    """Name the builds that only the revision has."""
    names = [str(change) for change in difference.builds if change.state == State.GONE]
    return f"only in {difference.revision}: {few(names, LISTED)}" if names else ""


def _heading(difference: CodeDifference) -> str:
    """Say what is compared with what."""
    base, *others = difference.toolchains or ("",)
    against = f"{difference.revision} ({difference.commit[:12]})" if difference.revision else ""
    by = f" by {', by '.join(others)}" if others else ""
    return f"{difference.tree}{by}, against {' by '.join(filter(None, (against, base)))}"


def text_of(difference: CodeDifference) -> str:
    """Return a difference for a terminal: where toolchains are compared, with a column each."""
    lines = [_heading(difference), *_summaries(difference)]
    if difference.toolchains:
        lines += _tables(difference)
    else:
        lines += [line for change in difference.builds for line in _block(change)]
    last = [*filter(None, (_gone(difference), *difference.notes))]
    return "\n".join([*lines, *[""] * bool(last), *last])


def _block(change: BuildChange) -> Iterator[str]:
    """Yield the lines on a build of two revisions."""
    if change.state not in SHOWN:
        return
    yield from ("", f"{change}: {LABELS[change.state]}", *(f"  {note}" for note in change.notes))
    for kernel in change.kernels:
        yield from [f"  kernel {kernel.entry}"] if len(change.kernels) > 1 else []
        rows = kernel.figures() if change.state == State.NEW else kernel.differences()
        yield from (f"  {row.name:<34} {row.new if change.state == State.NEW else row.text()}" for row in rows)
    for name, (old, new) in _times({"": change}, ("", "")).items():
        yield f"  {name:<34} {old} -> {new}"


def _by_build(difference: CodeDifference) -> tuple[dict[str, dict[str, BuildChange]], str]:
    """Return the changes of each build by toolchain, after its name and architecture, if anything is said of them.

    Builds that differ in no instruction are left out, of which there are many: they are named in one sentence.
    """
    builds: dict[str, dict[str, BuildChange]] = {}
    for change in difference.builds:
        if change.state in SHOWN:
            builds.setdefault(f"{change.id} ({change.arch})", {})[change.toolchain] = change
    scheduled = [name for name, changes in builds.items() if all(map(_is_scheduled, changes.values()))]
    cut = "; --json has all" if len(scheduled) > LISTED else ""
    sentence = f"{ONLY_SCHEDULE}: {few(scheduled, LISTED)}{cut}" if scheduled else ""
    return {name: changes for name, changes in builds.items() if name not in scheduled}, sentence


def _is_scheduled(change: BuildChange) -> bool:
    """Tell whether a build differs in the scheduling of its instructions alone, and no time of it is known."""
    same = not change.times and not any(kernel.differences() for kernel in change.kernels)
    return same and bool(change.notes) and all(note.endswith(ONLY_SCHEDULE) for note in change.notes)


def _entries(changes: Mapping[str, BuildChange]) -> list[str]:
    return [*dict.fromkeys(kernel.entry for change in changes.values() for kernel in change.kernels)]


def _tables(difference: CodeDifference) -> Iterator[str]:
    """Yield the lines on each build of several toolchains."""
    builds, scheduled = _by_build(difference)
    for name, changes in builds.items():
        yield from ("", *_table(name, changes, difference.toolchains))
        yield from (f"  {toolchain}: {note}" for toolchain, each in changes.items() for note in each.notes)
    if scheduled:
        yield f"\n{scheduled}"


def _table(name: str, changes: Mapping[str, BuildChange], toolchains: Sequence[str]) -> list[str]:
    """Return a heading, and a row for each figure that differs under any toolchain, with a column for each."""
    rows, entries = [[name, *toolchains]], _entries(changes)
    for entry in entries:
        figures = cells_of(entry, changes, toolchains)
        rows += [[f"  kernel {entry}", *("" for _ in toolchains)]] if len(entries) > 1 and figures else []
        rows += [[f"  {figure}", *cells] for figure, cells in figures.items()]
    rows += [[f"  {case}", *cells] for case, cells in _times(changes, toolchains).items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def cells_of(
    entry: str, changes: Mapping[str, BuildChange], toolchains: Sequence[str], *, mix: bool = True
) -> dict[str, list[str]]:
    """Return the figures of a kernel that differ under any toolchain, by name: that of the old side, and of each.

    ``mix``: instructions by kind too. SAME stands for those of a toolchain that makes the code of the old side.
    """
    rows = {
        toolchain: {row.name: row for row in (kernel.differences() if mix else kernel.figures()) if row.differs}
        for toolchain, change in changes.items()
        for kernel in change.kernels
        if kernel.entry == entry
    }
    figures: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for each in rows.values() for name in each):
        old = next(each[name].old for each in rows.values() if name in each)
        known = (rows[each][name].new if name in rows[each] else old for each in rows)
        columns = dict(zip(rows, known, strict=True))
        figures[name] = [cell or "none" for cell in (old, *(columns.get(each, SAME) for each in toolchains[1:]))]
    return figures


def _times(changes: Mapping[str, BuildChange], toolchains: Sequence[str]) -> dict[str, list[str]]:
    """Return the times of a build's cases as ``cells_of`` returns figures, as far as saved runs have them."""
    cells: dict[str, list[str]] = {}
    for case in dict.fromkeys(case for change in changes.values() for case in change.times):
        own = {toolchain: change.times.get(case) for toolchain, change in changes.items()}
        before = next(each.before for each in own.values() if each)
        others = (_time(own[each]) if each in own else SAME for each in toolchains[1:])
        cells[f"time, {split_id(case)[3]}"] = [f"{micro(before)} µs", *others]
    return cells


def _time(times: CaseTimes | None) -> str:
    """Return what a toolchain's cell says of a case: its median, with the change that pairs showed."""
    if not times:
        return "not measured"
    return f"{micro(times.after)} µs, {percent(times.ratio)} {times.verdict}"


def markdown_of(difference: CodeDifference) -> str:
    """Return a difference as Markdown: a table of the kernels that differ, with a column for each toolchain."""
    lines = [f"### Machine code: {_escaped(_heading(difference))}", ""]
    lines += [f"- {line}" for line in _summaries(difference)]
    header, rows = HEADER, [_table_row(change, kernel) for change in difference.builds for kernel in change.kernels]
    builds, notes = list(difference.builds), [_gone(difference), *difference.notes]
    if titles := difference.toolchains:
        header, (changed, scheduled) = f"| build | {' | '.join(map(_escaped, titles))} |", _by_build(difference)
        rows = [row for name, changes in changed.items() for row in _rows(name, changes, titles)]
        builds, notes = [each for changes in changed.values() for each in changes.values()], [*notes, scheduled]
    if rows:
        lines += ["", header, "|---" * (header.count("|") - 1) + "|", *rows]
    notes = [*(f"{change}: {note}" for change in builds for note in change.notes), *filter(None, notes)]
    return "\n".join([*lines, *(["", *(f"- {_escaped(note)}" for note in notes)] if notes else []), ""])


def _rows(name: str, changes: Mapping[str, BuildChange], toolchains: Sequence[str]) -> Iterator[str]:
    """Yield a row for each kernel of a build, whose cells hold the figures that differ under any toolchain."""
    for entry in (entries := _entries(changes)):
        figures = cells_of(entry, changes, toolchains, mix=False)
        figures |= _times(changes, toolchains) if entry == entries[0] else {}
        columns = zip(*figures.values(), strict=True) if figures else (() for _ in toolchains)
        cells = ["<br>".join(f"{f}: {text}" for f, text in zip(figures, each, strict=True)) for each in columns]
        kernel = f"<br>`{entry}`" if len(entries) > 1 else ""
        yield f"| {' | '.join(map(_cell, [f'`{name}`{kernel}', *cells]))} |"


def _table_row(change: BuildChange, kernel: KernelChange) -> str:
    is_new = change.state == State.NEW
    figures = kernel.figures()
    needs, code = ([row.new if is_new else row.text("→") for row in rows] for rows in (figures[:4], figures[-2:]))
    occupancy = "<br>".join(f"{row.name.removeprefix('occupancy, ')}: {row.text('→')}" for row in figures[4:-2])
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
