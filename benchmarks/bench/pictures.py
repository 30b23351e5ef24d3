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
    epsilons: bool = False,
) -> None:
    """One line a name through its (x, y) points, both scales logarithmic; the words of the picture list the ends."""
    axes = plots.new_axes(5.2, 3.3 + 0.11 * len(series))
    for number, (name, points) in enumerate(series.items()):
        x, y = zip(*points, strict=True)
        style = "--" if name in dashed else "-"
        colour = (*plots.CURVES, plots.QUIET)[number % (len(plots.CURVES) + 1)]
        axes.plot(x, y, style, color=colour, marker=plots.marker(number), ms=5, label=name)
    axes.set(xlabel=xlabel, ylabel=f"{ylabel} (log scale)", xscale="log", yscale="log")
    if epsilons:
        plots.epsilon_axis(axes, [x for points in series.values() for x, _ in points])
        plots.plain_log_ticks(axes)
    plots.heading(axes, title)
    plots.tidy(axes, legend=True)
    plots.save(axes, path, alt=plots.in_words(axes))


def dots(
    groups: Mapping[str, Mapping[str, float]],
    path: Path,
    *,
    title: str,
    xlabel: str,
    ours: str,
    claim: float | None = None,
) -> None:
    """One dot a name, groups below each other; names that start with `ours` in the first colour.

    The scale is logarithmic, unless there is a claim to compare with: that is a line from top to bottom.
    """
    rows = [(group, name, value) for group, members in groups.items() for name, value in members.items()]
    axes = plots.new_axes(5.2, 1.2 + 0.23 * (len(rows) + len(groups)))
    place, ticks, names, words = 0, [], [], []
    for group, members in groups.items():
        ticks, names = [*ticks, place], [*names, f"{group}:"]
        words.append(f"{group}: " + ", ".join(f"{name} {value:,.3g}" for name, value in members.items()))
        place += 1
        for name, value in members.items():
            mine = name.startswith(ours)
            colour, shape = (plots.CURVES[0], "o") if mine else (plots.CURVES[1], "D")
            axes.plot([value], [place], marker=shape, ls="none", color=colour, ms=6)
            ticks, names = [*ticks, place], [*names, name]
            place += 1
    axes.set(xscale="log" if claim is None else "linear", xlabel=xlabel)
    if claim is not None:
        axes.axvline(claim, color=plots.QUIET, ls="--", lw=1.5)
    axes.set_yticks(ticks, names)
    axes.set_ylim(place - 0.3, -0.7)
    plots.tidy(axes)
    for tick, name in zip(axes.get_yticklabels(), names, strict=True):
        tick.set(fontsize=9, fontweight="bold" if name.endswith(":") else "normal")
    axes.get_figure().suptitle(title, fontsize=11)
    plots.save(axes, path, alt=f"{title}, {xlabel}. {'; '.join(words)}.")
