"""Draw plots as SVG. Runs in an environment of its own that has matplotlib.

PYTHON bench/draw.py FOLDER FILE.json...
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from plotting import Plot, load

_OURS = "Holdfast"
_OUR_COLOUR = "#0b6e4f"
_OTHERS = ("#c1440e", "#3d5a80", "#8d6a9f", "#7f7f7f", "#b08900", "#5c946e")
_INK = "#2b2b2b"
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 11,
    "svg.fonttype": "path",
    "figure.facecolor": "white",
    "svg.hashsalt": "holdfast",
    "axes.edgecolor": "#b8b8b8",
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_SIZE = (8, 4.5)
#: Labels closer than this share of the height are moved apart.
_APART = 0.065
_BESIDE = 0.2
_MOST_TICKS = 8


def draw(plot: Plot, folder: Path) -> Path:
    figure, axes = plt.subplots(figsize=_SIZE)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    colours = iter(_OTHERS * 2)
    ends = []
    for label, points in plot.lines.items():
        ours = label.startswith(_OURS)
        dashed = ours and label != _OURS
        colour = _OUR_COLOUR if ours else next(colours)
        xs, ys = zip(*points, strict=True)
        axes.plot(
            xs,
            ys,
            color=colour,
            linewidth=2.6 if ours else 1.7,
            linestyle="--" if dashed else "-",
            marker="o" if len(points) < 15 else None,
            markersize=4.5,
            zorder=3 if ours else 2,
        )
        ends.append((xs[-1], ys[-1], label, colour))
    _frame(axes, plot)
    figure.canvas.draw()  # until then nobody knows where the ends are
    _label(axes, ends)
    path = folder / f"{plot.name}.svg"
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return path


def _frame(axes: Axes, plot: Plot) -> None:
    axes.set_title(plot.title, loc="left", fontweight="bold", pad=14)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for axis, log in ((axes.xaxis, plot.log_x), (axes.yaxis, plot.log_y)):
        axis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))
        if log:
            axis.set_minor_formatter(mpl.ticker.NullFormatter())
    places = sorted({x for points in plot.lines.values() for x, _ in points})
    if len(places) <= _MOST_TICKS:
        axes.set_xticks(places)
    if not plot.log_y:
        axes.set_ylim(bottom=0)
    axes.set_facecolor("white")


def _label(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Each line has its name at its end, so that nobody has to look up colours."""
    placed: list[tuple[float, float]] = []
    to_axes = axes.transData + axes.transAxes.inverted()
    for x, y, label, colour in sorted(ends, key=lambda end: end[1]):
        across, height = to_axes.transform((x, y))
        beside = [other for there, other in placed if abs(there - across) < _BESIDE]
        height = max([height, *(other + _APART for other in beside)])
        placed.append((across, height))
        axes.annotate(
            label,
            (across + 0.015, height),
            xycoords="axes fraction",
            va="center",
            color=colour,
            fontweight="bold" if label.startswith(_OURS) else "normal",
            annotation_clip=False,
        )


def main(folder: str, *files: str) -> None:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):
        for file in files:
            for plot in load(Path(file)):
                print(draw(plot, target))


if __name__ == "__main__":
    main(*sys.argv[1:])
