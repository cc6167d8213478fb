"""Pictures of a family's cases, by Matplotlib (extra ``pictures``), whose pictures many people know how to change."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpwatch.report.entries import Entry, Results
from warpwatch.report.family_tables import fastest, gains_over_serial, growths, of_widest_shape
from warpwatch.report.numbers import significant

SIZE = (9.0, 4.8)  # inches
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "warpwatch",
    "pdf.fonttype": 42,
    "font.size": 9,
    "text.parse_math": False,
}
MARKERS = "osD^vP*X<>phdH8"
FEW = 300  # times the least value, up to which an axis has numbers between powers of ten
SIZES = "size, from little work to much"  # of an axis
NO_DATE: Mapping[str, Mapping[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
Lines = Mapping[str, Mapping[str, float]]  # by name, a value for each place along x


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Picture: lines over places along x. ``key``: its name in files; ``caption``: what it shows.

    ``above``: lines that are no case's, such as a roof, which are drawn in black. ``names``: of all lines of all
    pictures of these cases, so that each looks the same in all. ``is_log``: values are shown by their logarithms.
    """

    key: str
    title: str
    caption: str
    x: str
    y: str
    places: Sequence[str]
    lines: Lines
    above: Lines
    names: Sequence[str]
    is_log: bool = True

    def drawn(self, results: Results, kinds: Sequence[str] = ("svg", "pdf")) -> dict[str, bytes]:
        """Draw it in each kind of file, with what its results were measured on."""
        import matplotlib as mpl  # noqa: PLC0415  # takes a second
        from matplotlib.figure import Figure  # noqa: PLC0415

        with mpl.rc_context(STYLE):
            figure = Figure(SIZE, layout="constrained")
            axes: Any = figure.subplots()
            for name, (colour, marker) in _marks(self.names).items():
                if name in self.lines:
                    self._draw(axes, name, self.lines[name], color=colour, marker=marker, markersize=5, linewidth=1.1)
            styles = itertools.cycle(("--", ":", "-."))
            for (name, line), style in zip(self.above.items(), styles, strict=False):
                self._draw(axes, name, line, color="black", linestyle=style, linewidth=1.2)
            title = "\n".join(filter(None, [self.title, results.today.gpu.note]))
            axes.set(xlabel=self.x, ylabel=self.y, title=title, xlim=(-0.3, len(self.places) - 0.7))
            if self.is_log:
                _scale(axes)
            else:
                axes.set_ylim(bottom=0)
            axes.set_xticks(range(len(self.places)), list(self.places), rotation=30, ha="right", rotation_mode="anchor")
            axes.grid(alpha=0.3, linewidth=0.5)
            figure.legend(loc="outside right upper", frameon=False)
            figure.supxlabel(results.described, fontsize=7, color="#444444")
            return {kind: _written(figure, kind) for kind in kinds}

    def _draw(self, axes: Any, name: str, line: Mapping[str, float], **look: Any) -> None:
        points = [(x, line[place]) for x, place in enumerate(self.places) if place in line]
        axes.plot(*zip(*points, strict=True), label=name, **look)


def _written(figure: Any, kind: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=NO_DATE[kind])
    return file.getvalue()


def _marks(names: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Return a colour and a marker for each name, none of them twice."""
    import matplotlib as mpl  # noqa: PLC0415

    tab20, tab20b = (mpl.colormaps[name](range(20)) for name in ("tab20", "tab20b"))
    strong, pale = tab20[::2], tab20[1::2]
    colours: list[Any] = [*strong, *pale, *tab20b]
    if len(names) > len(colours):
        colours = [mpl.colormaps["turbo"](i / len(names)) for i in range(len(names))]
    markers = [*MARKERS, *((sides, star, 0) for sides in range(7, 7 + len(names)) for star in (1, 2))]
    return dict(zip(names, zip(colours, markers, strict=False), strict=False))


def _scale(axes: Any) -> None:
    """Show y by logarithms, with numbers that are read at a glance: at 1, 2 and 5 where there are few powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < FEW * low else (1,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: significant(value, 1)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def pictures_of(results: Results, family: str, dtype: str) -> list[Picture]:
    """Return the pictures of a family's cases of an element type: of those that have anything to show."""
    cases = results.by_type(family)[dtype]
    made = [shares(cases), over_size(results, cases), by_block(cases), growth(cases), gain(cases)]
    return [picture for picture in made if picture.lines and len(picture.places) > 1]


def _by_work(cases: Iterable[Entry]) -> list[str]:
    """Return the shapes from little work to much."""
    return list(dict.fromkeys(e.shape for e in sorted(cases, key=lambda e: (e.operations, e.bytes))))


def _lines(cases: Iterable[Entry], value: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return a line for each variant over shapes, of its fastest block there, as far as there are values by id."""
    lines: dict[str, dict[str, float]] = {}
    for (variant, shape), e in fastest(cases).items():
        if e.id in value:
            lines.setdefault(variant, {})[shape] = value[e.id]
    return lines


def _variants(cases: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(e.variant for e in cases))


def _titled(cases: Sequence[Entry], title: str) -> str:
    return f"{cases[0].family}, {cases[0].dtype}: {title}"


def over_size(results: Results, cases: Sequence[Entry]) -> Picture:
    """Show times over sizes, above the least time that the memory, and the highest rate of the run, allow."""
    peak, roof = results.today.gpu.peak_bytes_per_second, results.roofs.get(cases[0].dtype)
    lines = _lines(cases, {e.id: 1e6 * e.seconds for e in cases})
    least: dict[str, float] = {}
    for e in cases if peak else ():
        least[e.shape] = 1e6 * max(e.bytes / peak, e.operations / roof.rate if roof else 0)
    of_roof = f"The roof is the time for the least bytes at the memory's peak of {peak / 1e9:,.0f} GB/s"
    if roof and cases[0].operations:
        of_roof += f", and for its operations at the rate of {roof.of}, the highest of this run"
    if not peak:
        of_roof = "No roof is drawn, because the peak of this device's memory is not known"
    name = "roof: least possible time"
    return Picture(
        key="time-over-size",
        title=_titled(cases, "time over size"),
        caption=f"Median time of each variant with its fastest block; lower is better. {of_roof}.",
        x=SIZES,
        y="time, µs",
        places=_by_work(cases),
        lines=lines,
        names=_variants(cases),
        above={name: least} if least and all(least.values()) else {},
    )


def by_block(cases: Sequence[Entry]) -> Picture:
    shape, own = of_widest_shape(cases)
    lines: dict[str, dict[str, float]] = {}
    for e in own:
        lines.setdefault(e.variant, {})[e.block] = 1e6 * e.seconds
    several = {name: line for name, line in lines.items() if len(line) > 1}
    return Picture(
        key="time-by-block",
        title=_titled(cases, f"time by block size, {shape}"),
        caption=f"Median time on {shape} by block size, a line for each variant (how it accesses memory); "
        "lower is better. Variants of one block size are left out.",
        x="block size",
        y="time, µs",
        places=list(dict.fromkeys(e.block for e in own if e.variant in several)),
        lines=several,
        names=_variants(cases),
        above={},
    )


def growth(cases: Sequence[Entry]) -> Picture:
    return _of_sizes(
        cases,
        {name: time / work for name, (time, work) in growths(cases).items()},
        key="growth",
        title="growth from size to size, beside that of the work",
        caption="How much more each variant's time grows from its next smaller size than the work does, with the "
        "fastest block. On the line without markers time grows as the work; below it, larger sizes are worth it.",
        y="growth of time over growth of work",
        even="grows as the work",
    )


def gain(cases: Sequence[Entry]) -> Picture:
    return _of_sizes(
        cases,
        gains_over_serial(cases),
        key="gain-over-serial",
        title="gain over serial C++",
        caption="How many times faster each variant is than the serial C++ version on one core of the host, with its "
        "fastest block; higher is better. Below the line without markers it is slower.",
        y="time of serial C++ over time",
        even="serial C++ on one core",
    )


def shares(cases: Sequence[Entry]) -> Picture:
    """Show how far each variant is from its reference, which is the family's own choice."""
    of = ", ".join(dict.fromkeys(e.reference for e in cases if e.reference))
    return _of_sizes(
        cases,
        {e.id: e.share for e in cases if e.share is not None and e.case and e.id != e.case.reference_case},
        key="share",
        title=f"share of the rate of {of}",
        caption=f"Rate of each variant, with its fastest block, over that of {of}; 1 is as fast.",
        y=f"share of {of}",
        even=of,
        is_log=False,
    )


def _of_sizes(cases: Sequence[Entry], values: Mapping[str, float], *, title: str, even: str, **named: Any) -> Picture:
    """Return a picture of values by id over sizes, with a line at 1. ``even``: what that line is called."""
    lines = _lines((e for e in cases if e.id in values), values)
    places = [shape for shape in _by_work(cases) if any(shape in line for line in lines.values())]
    return Picture(
        title=_titled(cases, title),
        x=SIZES,
        places=places,
        lines=lines,
        names=_variants(cases),
        above={even: dict.fromkeys(places, 1.0)},
        **named,
    )
