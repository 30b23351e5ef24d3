"""Figures and axes that a notebook shows as a picture where a cell ends with them. They are outside of pyplot's list of figures."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp.plots.words import in_words, root_figure

INCH = 100
"""The width of an inch on a page in pixels. Pictures have more of them, for sharp screens."""


class _Shown:
    def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
        return _picture(self)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return super().__repr__().replace("<Shown", "<", 1)


class ShownAxes(_Shown, Axes):
    """Axes that show the figure that they are part of."""


class ShownFigure(_Shown, Figure):
    """A figure that shows itself."""


def _picture(drawn: Axes | Figure) -> tuple[bytes, dict[str, Any]]:
    """Return the picture, with its size on a page and in words for people who do not see it."""
    figure, written = root_figure(drawn), io.BytesIO()
    figure.savefig(written, format="png")
    width, height = (round(INCH * inches) for inches in figure.get_size_inches())
    return written.getvalue(), {"width": width, "height": height} | _alt(drawn)


def _alt(drawn: Axes | Figure) -> dict[str, str]:
    """Return the alternative text; nothing for a plot with elements that `in_words` does not know."""
    try:
        return {"alt": in_words(drawn)}
    except (KeyError, ValueError):
        return {}
