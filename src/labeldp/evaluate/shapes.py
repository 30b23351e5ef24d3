"""Distributions that a user can name in a few words, on the grid of the labels: `log-normal:mean=80,sd=90`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.formatting import plain_number
from labeldp.priors import Prior

CELLS = 1001
"""The number of cells of a shape on a domain without a grid."""
FRAME_CELLS = 100_001
"""The number of cells on which a shape on a finer grid is computed."""


@dataclass(frozen=True)
class Shape:
    """A family of distributions: its parameters, and P(label ≤ x) as a function of x and of these."""

    name: str
    parameters: tuple[str, ...]
    share_below: Callable[..., Floats]
    positive_mean: bool = False

    @property
    def example(self) -> str:
        """The shape in the user's notation."""
        return self.name + (":" if self.parameters else "") + ",".join(f"{name}=…" for name in self.parameters)


def shaped_prior(text: str, domain: Domain | tuple[float, float]) -> Prior:
    """Return the distribution that a text describes, on the grid of the labels.

    Labels beyond the bounds are moved to them, as `privatize` does. Mean and standard deviation are from before that step.

    Parameters
    ----------
    text : str
        "uniform", "normal:mean=,sd=", "log-normal:mean=,sd=", "gamma:mean=,sd=", "exponential:mean=" or "poisson:mean=".
    domain : Domain or (lower, upper)
        The public bounds of the labels.

    Returns
    -------
    Prior

    Examples
    --------
    >>> from labeldp.evaluate.shapes import shaped_prior
    >>> shaped_prior("log-normal:mean=80,sd=90", (0, 400))
    Prior(values=1,001, range=0 to 400, mean=77.75, sd=75.04, cost=public)
    >>> shaped_prior("lognormal:mean=80", (0, 400))
    Traceback (most recent call last):
    labeldp.errors.InvalidInput: unknown shape 'lognormal'. Did you mean 'log-normal:mean=…,sd=…'? Known: uniform, normal:mean=…,sd=…, log-normal:mean=…,sd=…, gamma:mean=…,sd=…, exponential:mean=…, poisson:mean=….
    """
    if not isinstance(text, str):
        raise InvalidInput(f"a shape is given as text, such as 'log-normal:mean=80,sd=90', got {described(text)}")
    shape, numbers = _read(text)
    frame = Domain.of(domain)
    if frame.cells is None:
        frame = frame.with_cells(CELLS)
    elif frame.count > FRAME_CELLS:
        frame = Domain(frame.lower, frame.upper, FRAME_CELLS)
    grid = frame.grid
    edges = (grid[:-1] + grid[1:]) / 2
    below = shape.share_below(edges, *numbers)
    return Prior(grid, np.maximum(np.diff(below, prepend=0.0, append=1.0), 0.0))


def _read(text: str) -> tuple[Shape, list[float]]:
    """Return the shape that a text names, and its parameters in order."""
    name, _, rest = text.strip().partition(":")
    shape = SHAPES.get(name.strip().lower())
    if shape is None:
        close = get_close_matches(name.strip().lower(), SHAPES, n=1, cutoff=0.5)
        hint = f" Did you mean {SHAPES[close[0]].example!r}?" if close else ""
        known = ", ".join(each.example for each in SHAPES.values())
        raise InvalidInput(f"unknown shape {described(name)}.{hint} Known: {known}.")
    given: dict[str, float] = {}
    for part in rest.split(",") if rest.strip() else ():
        key, equals, number = (piece.strip() for piece in part.partition("="))
        if not equals or key not in shape.parameters or key in given:
            raise InvalidInput(f"the shape {shape.name} is written {shape.example}, got {described(text)}")
        given[key] = plain_number(number, f"{key} of the shape {shape.name}")
    if set(given) != set(shape.parameters):
        raise InvalidInput(f"the shape {shape.name} is written {shape.example}, got {described(text)}")
    if given.get("sd", 1.0) <= 0:
        raise InvalidInput(f"sd of the shape {shape.name} must be greater than 0, got {given['sd']:g}")
    if shape.positive_mean and given["mean"] <= 0:
        raise InvalidInput(f"mean of the shape {shape.name} must be greater than 0, got {given['mean']:g}")
    return shape, [given[key] for key in shape.parameters]


def _uniform(edges: Floats) -> Floats:
    below: Floats = np.arange(1, edges.size + 1) / (edges.size + 1)
    return below


def _normal(edges: Floats, mean: float, sd: float) -> Floats:
    from scipy.special import ndtr

    below: Floats = ndtr((edges - mean) / sd)
    return below


def _log_normal(edges: Floats, mean: float, sd: float) -> Floats:
    width = math.sqrt(math.log1p((sd / mean) ** 2))
    middle = math.log(mean) - width**2 / 2
    below = np.zeros_like(edges)
    above = edges > 0
    below[above] = _normal(np.log(edges[above]), middle, width)
    return below


def _gamma(edges: Floats, mean: float, sd: float) -> Floats:
    from scipy.special import gammainc

    below: Floats = gammainc((mean / sd) ** 2, np.maximum(edges, 0.0) * (mean / sd**2))
    return below


def _exponential(edges: Floats, mean: float) -> Floats:
    below: Floats = -np.expm1(-np.maximum(edges, 0.0) / mean)
    return below


def _poisson(edges: Floats, mean: float) -> Floats:
    from scipy.special import pdtr

    below = np.zeros_like(edges)
    below[edges >= 0] = pdtr(np.floor(edges[edges >= 0]), mean)
    return below


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("uniform", (), _uniform),
        Shape("normal", ("mean", "sd"), _normal),
        Shape("log-normal", ("mean", "sd"), _log_normal, positive_mean=True),
        Shape("gamma", ("mean", "sd"), _gamma, positive_mean=True),
        Shape("exponential", ("mean",), _exponential, positive_mean=True),
        Shape("poisson", ("mean",), _poisson, positive_mean=True),
    )
}
"""The shapes by name."""
