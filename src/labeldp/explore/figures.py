"""The page's pictures as files, drawn with the library's own plots."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from labeldp import plots
from labeldp.explore.comparison import compared
from labeldp.explore.designed import designed, merged
from labeldp.explore.one_label import reported
from labeldp.explore.outlook import curve
from labeldp.explore.question import RECEIVED, Question
from labeldp.mechanisms.registry import MECHANISMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = ("predicted error", "outputs over the distribution", "one label", "comparison")
"""What can be downloaded. The heat map of the channel is on the page only."""


def figure(name: str, question: Question, *, label: float, names: tuple[str, ...]) -> Axes:
    """Draw one of `FIGURES`.

    Parameters
    ----------
    name : str
        Which one.
    question : Question
        What it shows.
    label : float
        The label of "one label".
    names : tuple of str
        The mechanisms of "comparison".

    Returns
    -------
    matplotlib axes
    """
    if name == "predicted error":
        return _marked(curve(question).plot(), question.epsilon)
    if name == "comparison":
        return _marked(_comparison(question, names), question.epsilon)
    mechanism, prior = designed(question).mechanism, merged(question.labels)
    if name == "one label":
        found = reported(mechanism, label)
        entry = MECHANISMS.get(mechanism.kind if question.mechanism == RECEIVED else question.mechanism)
        colour = plots.CURVES[0] if entry is None else entry.colour
        title = f"what a label of {label:.4g} is reported as"
        axes = plots.new_axes()
        axes.vlines(found.outputs, 0, found.probabilities, color=colour, lw=2.2 if found.outputs.size <= 40 else 1.2)
        axes.plot([], [], color=colour, label="probability of a report")
        axes.axvline(label, color=plots.QUIET, lw=1.2, ls="--", label="the label itself")
        axes.set(xlabel="private label", ylabel="probability", ylim=(0, None))
        plots.heading(axes, title)
        return plots.tidy(axes, legend=True)
    return mechanism.plot(prior)


def as_file(axes: Axes, kind: str) -> bytes:
    """A picture as the bytes of an SVG or PNG file, with its words for people who do not see it."""
    words = plots.in_words(axes)
    if kind == "svg":
        return ('<?xml version="1.0" encoding="utf-8"?>\n' + plots.svg(axes, alt=words)).encode()
    buffer = io.BytesIO()
    drawn = axes.get_figure(root=True)
    assert drawn is not None
    drawn.savefig(buffer, format="png", metadata={"Description": words})
    return buffer.getvalue()


def _comparison(question: Question, names: tuple[str, ...]) -> Axes:
    points, _ = compared(question, names)
    modelled = any(point.model_error is not None for point in points)
    lines: dict[str, list[float]] = {}
    for point in points:
        error = point.model_error if modelled else point.label_error
        if error is not None:
            lines.setdefault(point.mechanism, []).append(error)
    return plots.curves(
        sorted({point.epsilon for point in points}),
        lines,
        colours={name: MECHANISMS[name].colour for name in lines},
        ylabel=f"expected {question.loss} loss",
        title=f"error of {'a model' if modelled else 'a private label'}",
    )


def _marked(axes: Axes, epsilon: float) -> Axes:
    axes.axvline(epsilon, color=plots.QUIET, lw=1.2, ls=":")
    return axes
