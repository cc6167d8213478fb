"""The report of a family as files: tables in Markdown, LaTeX and CSV, and pictures as PDF and SVG, with captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from warpwatch.report.entries import Results
from warpwatch.report.family_tables import Table, tables_of, tex
from warpwatch.report.pictures import Picture, pictures_of
from warpwatch.runs.files import write_whole

TEX_HEAD = r"""% Needs \usepackage{booktabs,graphicx} where a part of it is copied elsewhere.
\documentclass{article}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs,graphicx}
\begin{document}
"""
Part = tuple[str, Table | Picture]  # the element type, and what is of it


def files_of(results: Results, family: str, progress: Callable[[int, int], object]) -> dict[str, bytes]:
    """Return the files by their names. ``progress``: is told how many of all pictures are drawn.

    Raises ImportError where Matplotlib is missing.
    """
    pictures = [(d, each) for d in results.by_type(family) for each in pictures_of(results, family, d)]
    tables = [(dtype, each) for dtype, cases in results.by_type(family).items() for each in tables_of(cases)]
    gpu, files = results.today.gpu, dict[str, bytes]()
    for done, (dtype, picture) in enumerate(pictures, 1):
        for kind, content in picture.drawn(results).items():
            files[f"{picture.key}-{dtype}.{kind}"] = content
        progress(done, len(pictures))
    device = f"{gpu.name}: {gpu.note}" if gpu.note else gpu.name
    for dtype, table in tables:
        files[f"{table.key}-{dtype}.csv"] = table.as_csv(device).encode()
    parts: list[Part] = [*tables, *pictures]
    files["study.md"] = "\n\n".join(_markdown(results, family, parts)).encode() + b"\n"
    files["study.tex"] = "\n\n".join(_latex(results, family, parts)).encode() + b"\n"
    return files


def write(files: dict[str, bytes], folder: Path) -> None:
    """Write the files into a folder, each whole or not at all. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)


def _variants(results: Results, family: str) -> dict[str, str]:
    """Return what the declaration says of each variant that was timed."""
    return {e.variant: e.case.variant.note for cases in results.by_type(family).values() for e in cases if e.case}


def _markdown(results: Results, family: str, parts: list[Part]) -> Iterator[str]:
    yield f"# {family}"
    if note := results.today.gpu.note:
        yield f"**{results.today.gpu.name}: {note}.**"
    yield results.described
    yield "\n".join(f"- {name}: {note}" for name, note in _variants(results, family).items() if note)
    for number, (dtype, part) in enumerate(parts, 1):
        if isinstance(part, Table):
            yield f"**{number}. {part.title}, {dtype}.** {_note(results)}{part.note}"
            yield part.markdown()
        else:
            yield f"![{part.title}]({part.key}-{dtype}.svg)"
            yield f"**{number}. {part.title}.** {_note(results)}{part.caption}"


def _latex(results: Results, family: str, parts: list[Part]) -> Iterator[str]:
    yield TEX_HEAD + rf"\section*{{{tex(family)}}}"
    if note := results.today.gpu.note:
        yield rf"\textbf{{{tex(f'{results.today.gpu.name}: {note}')}.}}"
    yield tex(results.described)
    notes = [rf"\item[{tex(name)}] {tex(note)}" for name, note in _variants(results, family).items() if note]
    if notes:
        yield "\n".join([r"\begin{description}", *notes, r"\end{description}"])
    for dtype, part in parts:
        label = f"{family}-{part.key}-{dtype}"
        if isinstance(part, Table):
            yield part.latex(f"tab:{label}", f"{part.title}, {dtype}. {_note(results)}{part.note}")
        else:
            caption = tex(f"{part.title}. {_note(results)}{part.caption}")
            picture = rf"\includegraphics[width=\linewidth]{{{part.key}-{dtype}.pdf}}"
            lines = [
                r"\begin{figure}[htbp]",
                r"\centering",
                picture,
                rf"\caption{{{caption}}}",
                rf"\label{{fig:{label}}}",
            ]
            yield "\n".join([*lines, r"\end{figure}"])
    yield r"\end{document}"


def _note(results: Results) -> str:
    """Say on which device it was measured, and what its times mean, in front of each caption."""
    gpu = results.today.gpu
    return f"{gpu.name}, {gpu.note}. " if gpu.note else f"{gpu.name}. " if gpu.name else ""
