"""The quantities that private labels estimate: a polynomial in a public weight and a hidden label, and numbers for the codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.design.channels import visible_bias_factor
from labeldp.errors import InvalidInput
from labeldp.linear_algebra import svd
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.mechanisms.bias_variance import VISIBLE
from labeldp.priors import Prior

_EVEN_SHARE = 0.01
_LOOKS_ALIKE = 2e-3
"""The total variation distance up to which two labels count as looking alike."""


@dataclass(frozen=True, eq=False)
class MomentValues:
    """For each code, a number that estimates y and one that estimates y², where y is the label less some origin."""

    label: Floats
    square: Floats


def moment_values(
    mechanism: FiniteMechanism,
    records: int,
    visible: float = VISIBLE,
    origin: float = 0.0,
    even_share: float = _EVEN_SHARE,
    *,
    clipped: bool = False,
) -> MomentValues:
    """Return numbers t and s for each code with E[t | y] = y and E[s | y] = y², y being the label less `origin`.

    An unbiased mechanism has such t, its outputs. Where there are none, the numbers are the best to average over this
    many `records`: their squared bias, as far as features that explain the share `visible` of the label can see it,
    plus their variance over `records` is least. The share `even_share` of the prior is replaced by an even one, because a
    private prior may miss labels that occur: a larger value means less bias at labels that the prior considers rare.

    With `clipped`, t estimates the label clipped to the range where labels can be distinguished. Beyond it no number has
    E[t | y] = y for all labels, but t can be nearly unbiased for the clipped label.
    """
    prior = known_prior(mechanism)
    labels = prior.values - origin
    wanted = labels
    masses = (1 - even_share) * prior.masses + even_share / labels.size
    channel = mechanism.matrix(prior.values)
    if clipped:
        first, last = told_apart(channel)
        wanted = np.clip(labels, labels[first], labels[last])
    unit = max(float(np.abs(labels).max()), 1e-300)
    if mechanism.kind == "unbiased":
        label, visible, ridge = mechanism.outputs - origin, 1.0, 0.0
    else:
        ridge = 1 / records
        label = _least_squares_values(channel, wanted / unit, masses, visible, ridge) * unit
    square = _least_squares_values(channel, (labels / unit) ** 2, masses, visible, ridge) * unit**2
    return MomentValues(label, square)


def known_prior(mechanism: FiniteMechanism) -> Prior:
    """Return the mechanism's prior. Raise `InvalidInput` if it is missing."""
    if mechanism.prior is None:
        raise InvalidInput(
            "noise can only be removed with the prior of the mechanism, and this one lacks a prior. Design it from a prior."
        )
    return mechanism.prior


def told_apart(channel: Floats) -> tuple[int, int]:
    """Return the last of the first labels that look alike, and the first of the last ones."""
    distance = [np.abs(channel - channel[end]).sum(axis=1) / 2 > _LOOKS_ALIKE for end in (0, -1)]
    first, last = int(np.argmax(distance[0])) - 1, channel.shape[0] - int(np.argmax(distance[1][::-1]))
    return (first, last) if distance[0].any() and first < last else (0, channel.shape[0] - 1)


def _least_squares_values(channel: Floats, target: Floats, masses: Floats, visible: float, ridge: float) -> Floats:
    """Return values v of least |F·(E[v | y] − target)|² + ridge·Var(v), with E[v] = E[target] under the prior.

    F is `visible_bias_factor`: it keeps the part of a bias that features can see.
    """
    share_root = np.sqrt(masses @ channel)
    center = float(masses @ target)
    # The unknowns are √share·(v − E[v]), share being the probability of each code: Var(v) is then their squared norm.
    both = np.column_stack([channel / share_root - share_root, target - center])
    seen = np.sqrt(masses)[:, None] * both if visible >= 1 else visible_bias_factor(masses, visible) @ both
    left, strength, right = svd(seen[:, :-1])
    kept = strength > 1e-7 * strength[0]
    weight = strength[kept] / (strength[kept] ** 2 + ridge)
    solved = right[kept].T @ (weight * (left[:, kept].T @ seen[:, -1]))
    solved -= share_root * (share_root @ solved)
    return np.asarray(center + solved / share_root)


@dataclass(frozen=True, eq=False)
class Target:
    """`constant` plus the mean over records of weight_square·w² + weight_linear·w + w·y + label_square·y².

    The weight w is a public number of the record, y is its hidden label less `origin`. For the mean, w is 1; for the
    error and the gain of predictions, w is linear in the prediction.

    Attributes
    ----------
    weights : array
        w of each record.
    origin : float
        The prior's lowest value, or a center, from which labels are measured. Seen from there, the squares of labels far from zero do not cancel.
    weight_bounds : pair of float
        w of predictions at the bounds of the labels: a record outside the sample may have any weight in between.
    weight_square, weight_linear, label_square, constant : float
        The coefficients.
    weight_of_prediction : float
        By how much w rises with the prediction.
    """

    weights: Floats
    origin: float
    weight_bounds: tuple[float, float]
    weight_square: float = 0.0
    weight_linear: float = 0.0
    label_square: float = 0.0
    constant: float = 0.0
    weight_of_prediction: float = 0.0

    @classmethod
    def mean(cls, mechanism: FiniteMechanism, records: int) -> Target:
        """Return the label itself: w = 1."""
        origin = float(known_prior(mechanism).values[0])
        return cls(np.ones(records), origin, (1.0, 1.0), constant=origin)

    @classmethod
    def error(cls, mechanism: FiniteMechanism, predictions: Floats) -> Target:
        """Return the squared error (f − label)² of predictions f: w = −2·(f − origin), and the target is w²/4 + w·y + y².

        The origin is the prior's mean: squares are smallest from there, and so is the noise of their estimate.
        """
        origin = known_prior(mechanism).mean
        high, low = -2 * (np.array(label_bounds(mechanism)) - origin)
        return cls(
            -2 * (predictions - origin),
            origin,
            (low, high),
            weight_square=0.25,
            label_square=1.0,
            weight_of_prediction=-2.0,
        )

    @classmethod
    def gain(cls, mechanism: FiniteMechanism, predictions: Floats, center: float | None = None) -> Target:
        """Return the target (c − label)² − (f − label)²: w = 2·(f − c), and the target is −w²/4 + (origin − c)·w + w·y.

        The center c is the mean prediction unless another one is given.
        """
        origin = float(known_prior(mechanism).values[0])
        center = float(predictions.mean()) if center is None else center
        low, high = 2 * (np.array(label_bounds(mechanism)) - center)
        return cls(
            2 * (predictions - center),
            origin,
            (low, high),
            weight_square=-0.25,
            weight_linear=origin - center,
            weight_of_prediction=2.0,
        )

    @classmethod
    def spread(cls, records: int, center: float) -> Target:
        """Return the target (label − c)²: the origin is the center, w is 0, and the target is y²."""
        return cls(np.zeros(records), center, (0.0, 0.0), label_square=1.0)

    def offset(self, weights: Floats | float) -> Floats:
        """Return the part that does not depend on the label: weight_square·w² + weight_linear·w."""
        return np.asarray(self.weight_square * np.square(weights) + self.weight_linear * weights)

    def values(self, moments: MomentValues, private: PrivateLabels) -> Floats:
        """Return the target of each record, with the estimates of its code in place of y and y²."""
        label, square = moments.label[private.codes], moments.square[private.codes]
        return self.offset(self.weights) + self.weights * label + self.label_square * square

    def value_range(self, labels: Floats, squares: Floats) -> tuple[float, float]:
        """Return the least and the greatest target of any one record whose y and y² are among these pairs.

        Its weight lies between the bounds, or between the weights in the sample where those reach further. Where all
        records have the same weight, it has that one too.
        """
        low, high = float(self.weights.min()), float(self.weights.max())
        if low != high:
            low, high = min(low, self.weight_bounds[0]), max(high, self.weight_bounds[1])
        bend = 2 * self.weight_square
        vertex = np.clip(-(self.weight_linear + labels) / bend, low, high) if bend else low  # of the parabola in w
        values = [self.offset(w) + w * labels + self.label_square * squares for w in (low, high, vertex)]
        return float(np.min(values)), float(np.max(values))

    def label_part_range(self, weights: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the least and the greatest w·y + label_square·y² for y from `low` to `high`: a row for each weight."""
        ends = [weights[:, None] * y + self.label_square * y**2 for y in (low, high)]
        least = np.minimum(*ends)
        if self.label_square > 0:  # the vertex of the parabola in y
            vertex = np.clip(-weights[:, None] / (2 * self.label_square), low, high)
            least = np.minimum(least, weights[:, None] * vertex + self.label_square * vertex**2)
        return least, np.maximum(*ends)


def label_bounds(mechanism: FiniteMechanism) -> tuple[float, float]:
    """Return the domain's bounds; without a domain, the prior's least and greatest values."""
    domain, values = mechanism.domain, known_prior(mechanism).values
    return (float(values[0]), float(values[-1])) if domain is None else (domain.lower, domain.upper)
