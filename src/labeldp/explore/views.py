"""A mechanism for the page: the channel as a table for a heat map, and what one label is reported as."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.formatting import percent, plain
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior

CELLS = 60
"""The most cells on each side of the picture."""


@dataclass(frozen=True, eq=False)
class Channel:
    """P[report j | label in cell i].

    Attributes
    ----------
    label_edges : array
        The borders of the cells of labels.
    reports : array
        The outputs in increasing order, or the middles of cells if there are too many.
    shares : array
        One row per cell of labels; each sums to one, or is zero if the distribution contains no labels there.
    single : bool
        Whether each report is one output.
    """

    label_edges: Floats
    reports: Floats
    shares: Floats
    single: bool


def channel(mechanism: FiniteMechanism, prior: Prior, bounds: tuple[float, float]) -> Channel:
    """Return the channel in at most 60 × 60 cells. Labels within a cell count as often as the distribution has them."""
    lower, upper = min(bounds[0], float(prior.values[0])), max(bounds[1], float(prior.values[-1]))
    label_edges = np.linspace(lower, upper, min(CELLS, max(2, prior.values.size)) + 1)
    rows = _place(label_edges, prior.values)
    outputs = np.sort(mechanism.outputs)
    single = outputs.size <= CELLS
    report_edges = _around(outputs) if single else np.linspace(outputs[0], outputs[-1], CELLS + 1)
    columns = _place(report_edges, mechanism.outputs)
    shares = np.zeros((label_edges.size - 1, report_edges.size - 1))
    weights = mechanism.matrix(prior.values) * prior.masses[:, None]
    np.add.at(shares, (rows[:, None], columns[None, :]), weights)
    totals = shares.sum(axis=1, keepdims=True)
    reports = outputs if single else (report_edges[:-1] + report_edges[1:]) / 2
    return Channel(label_edges, reports, np.divide(shares, totals, out=shares, where=totals > 0), single)


def grouped(outputs: Floats, weights: Floats, most: int) -> tuple[Floats, Floats]:
    """Return outputs in increasing order with their weights; if there are more than `most`, the middles of `most` cells with sums."""
    order = np.argsort(outputs, kind="stable")
    outputs, weights = outputs[order], weights[order]
    if outputs.size <= most:
        return outputs, weights
    edges = np.linspace(outputs[0], outputs[-1], most + 1)
    sums = np.bincount(_place(edges, outputs), weights, most).astype(np.float64)
    return (edges[:-1] + edges[1:]) / 2, sums


def _around(outputs: Floats) -> Floats:
    """Return borders halfway between outputs, and at the same distance beyond the first and last."""
    if outputs.size == 1:
        return np.array([outputs[0] - 0.5, outputs[0] + 0.5])
    middles = (outputs[:-1] + outputs[1:]) / 2
    return np.concatenate([[2 * outputs[0] - middles[0]], middles, [2 * outputs[-1] - middles[-1]]])


def _place(edges: Floats, values: Floats) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2)


@dataclass(frozen=True, eq=False)
class Reported:
    """The distribution of the private version of one label.

    Attributes
    ----------
    label : float
        The true label.
    outputs, probabilities : arrays
        What it can become, in increasing order, and how often.
    mean, deviation : float
        Of the private label.
    """

    label: float
    outputs: Floats
    probabilities: Floats
    mean: float
    deviation: float

    @property
    def likeliest(self) -> int:
        """The place of the output with the largest probability."""
        return int(np.argmax(self.probabilities))

    def sentence(self) -> str:
        """Return a description of what happens to this label."""
        often, value = float(self.probabilities[self.likeliest]), self.outputs[self.likeliest]
        if self.outputs.size == 1:
            return f"Every label is reported as {plain(value)}, so the report reveals nothing about it."
        return (
            f"A label of {plain(self.label)} is reported as one of {self.outputs.size:,} values, most often as {plain(value)} ({percent(often)}). "
            f"Its reports are {plain(self.mean)} on average, with a standard deviation of {plain(self.deviation)}."
        )


def reported(mechanism: FiniteMechanism, label: float) -> Reported:
    """Return the distribution of a mechanism's outputs for one label, from its integer weights."""
    order = np.argsort(mechanism.outputs, kind="stable")
    outputs, row = mechanism.outputs[order], mechanism.matrix([label])[0][order]
    mean = float(row @ outputs)
    return Reported(label, outputs, row, mean, math.sqrt(float(row @ np.square(outputs - mean))))


def apart(first: Reported, second: Reported) -> str:
    """Return a sentence on how well one report distinguishes two labels."""
    ratios = first.probabilities / second.probabilities
    most = max(float(ratios.max()), float(1 / ratios.min()))
    return (
        f"No report is more than {plain(most, 3)} times as likely for a label of {plain(first.label)} as for one of {plain(second.label)}, or "
        "vice versa."
    )
