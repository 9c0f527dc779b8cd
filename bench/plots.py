"""`python -m bench.plots`: draw the plots of the documentation from the recorded results, with Matplotlib.

The drawings are readable in light and dark: text and axes take the colour of the reader's theme, lines have colours
that stand out in both. Matplotlib is not part of the development environment: requirements/bench.lock has it.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, Panel, figures

FOLDER: Final = Path(__file__).parent.parent / "docs" / "images" / "bench"
COLOURS: Final = ("#1b8a9c", "#d9822b", "#8a63d2", "#3f9142", "#d1495b", "#7d8597")
INK: Final = "#010203"
"""Stands for the colour of the theme until the drawing is written."""
THEME: Final = "<style>:root{color:#1d2327}@media (prefers-color-scheme:dark){:root{color:#d8dee4}}</style>"
SETTINGS: Final[Any] = {
    "svg.fonttype": "none",  # letters stay letters: smaller, and in the reader's font
    "svg.hashsalt": "evertick",  # the same drawing each time
    "font.family": "sans-serif",
    "font.sans-serif": ["system-ui", "Segoe UI", "Helvetica", "Arial", "sans-serif", "DejaVu Sans"],
    "font.size": 10,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


def draw(figure: Figure) -> str:
    """The SVG of a figure."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    has_bars = figure.panels[0].is_bars
    rows, columns = (1, len(figure.panels)) if has_bars else (len(figure.panels), 1)
    with mpl.rc_context(SETTINGS):
        height = 1.0 + 0.42 * max(len(panel.series) for panel in figure.panels) if has_bars else 2.6 * rows
        drawing, axes = pyplot.subplots(
            rows, columns, figsize=(8.2, max(height, 2.4 if has_bars else 3.4)), squeeze=False, layout="constrained",
            sharex=not has_bars, sharey=has_bars,
        )  # fmt: skip
        drawing.suptitle(figure.title, fontsize=12)
        for panel, place in zip(figure.panels, axes.flat, strict=True):
            (_draw_bars if panel.is_bars else _draw_lines)(panel, place)
        written = io.StringIO()
        drawing.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        pyplot.close(drawing)
    return _themed(written.getvalue(), figure.digest())


def _draw_lines(panel: Panel, axes: Any) -> None:
    for colour, (name, line) in zip(COLOURS * 3, panel.series.items(), strict=False):
        few = len(line) < 20
        style = {"marker": "o", "markersize": 4} if few else {"linewidth": 1.1}
        axes.plot(*zip(*line, strict=True), color=colour, label=name, **style)
    for colour, (name, instants) in zip(COLOURS[3:], (panel.marks or {}).items(), strict=False):
        for place, at in enumerate(instants):
            axes.axvline(at, color=colour, alpha=0.6, linewidth=0.8, label="" if place else name)
    if panel.is_log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel(panel.y_label)
    axes.set_xlabel(panel.x_label)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.xaxis.set_major_formatter("{x:,g}")


def _draw_bars(panel: Panel, axes: Any) -> None:
    names = list(panel.series)
    lengths = [panel.series[name][0][1] for name in names]
    bars = axes.barh(
        names, lengths, color=[COLOURS[0] if name.startswith("Evertick") else COLOURS[5] for name in names]
    )
    axes.bar_label(bars, [f"{length:,.1f}" if length < 100 else f"{length:,.0f}" for length in lengths], padding=3)
    axes.margins(x=0.35)
    if not axes.yaxis_inverted():  # shared by the panels of a figure
        axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xticks([], minor=False)
    axes.set_xticks([], minor=True)
    axes.spines["bottom"].set_visible(False)
    axes.set_xlabel(panel.y_label)


def _themed(svg: str, digest: str) -> str:
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", svg)  # a hundredth of a point is fine enough
    svg = re.sub(r"^\s+", "", svg, flags=re.MULTILINE)
    head, tag, rest = svg.partition("<svg ")
    opened, end, rest = rest.partition(">")
    return f"{head}{tag}{opened}{end}\n<!-- drawn by bench.plots from results {digest} -->\n{THEME}{rest}"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, figure in figures().items():
        path = FOLDER / f"{name}.svg"
        path.write_text(draw(figure))
        sys.stderr.write(f"{path.relative_to(FOLDER.parents[2])} drawn, {path.stat().st_size / 1024:.0f} KiB\n")


if __name__ == "__main__":
    main()
