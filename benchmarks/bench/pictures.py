"""The pictures of the parts, in the look of labeldp's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from labeldp import plots


def lines(
    series: Mapping[str, Sequence[Sequence[float]]],
    path: Path,
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    dashed: Sequence[str] = (),
) -> None:
    """One line a name through its (x, y) points, both scales logarithmic; the words of the picture list the ends."""
    axes = plots.new_axes(5.2, 3.3 + 0.11 * len(series))
    for number, (name, points) in enumerate(series.items()):
        x, y = zip(*points, strict=True)
        style = "--" if name in dashed else "-"
        colour = plots.CURVES[number % len(plots.CURVES)]
        axes.plot(x, y, style, color=colour, marker=plots.marker(number), ms=5, label=name)
    axes.set(xlabel=xlabel, ylabel=f"{ylabel} (log scale)", xscale="log", yscale="log")
    plots.heading(axes, title)
    plots.tidy(axes, legend=True)
    plots.save(axes, path, alt=plots.in_words(axes))


def bars(figures: Mapping[str, float], path: Path, *, title: str, xlabel: str, ours: Sequence[str]) -> None:
    """One horizontal bar a name on a logarithmic scale, ours in the first colour."""
    names = list(figures)
    axes = plots.new_axes(5.2, 1.2 + 0.27 * len(names))
    values = [figures[name] for name in names]
    colours = [plots.CURVES[0] if name in ours else plots.CURVES[1] for name in names]
    axes.barh(names, values, color=colours, height=0.7)
    axes.set(xscale="log", xlabel=xlabel)
    axes.invert_yaxis()
    plots.heading(axes, title)
    plots.tidy(axes)
    axes.grid(visible=False, axis="y")
    words = "; ".join(f"{name} {value:,.3g}" for name, value in figures.items())
    plots.save(axes, path, alt=f"{title}, {xlabel}: {words}.")
