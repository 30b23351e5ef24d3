"""How good a model is, judged by private labels alone: the noise is known, so it can be taken out of the error.

For a prediction f made without looking at the record's own label, (f − y)² = f² − 2·f·y + y². Numbers t and s for each code
with E[t | y] = y and E[s | y] = y² turn that into f² − 2·f·t + s, an unbiased estimate from one code. Its mean over records
estimates the test error and its spread gives the interval; both t and s follow from the public mechanism.

A mechanism with few outputs has no such numbers for every label: labels with nearly the same output probabilities cannot
be told apart, however many records there are. Then the least-squares numbers are taken for the estimate, and the interval
runs over every joint distribution of predictions and labels that the codes do not contradict (`_range`, a linear program).
It assumes nothing about the labels, the features or the prior. Only labels on a grid of whole numbers are taken to be whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.choice import VISIBLE
from labeldp.decode import code_values
from labeldp.errors import InvalidInput
from labeldp.tradeoff.visibility import visible_factor

_UNSURE = 0.01
_MAIN_SHARE = 0.95
"""The share of the interval's risk for the estimate itself; the rest is for what bounds the labels the codes allow."""
_MOST_DIRECTIONS = 12
_BLOCKS = 8
_MOST_KNOTS = 500

if TYPE_CHECKING:
    from labeldp.mechanisms.finite import FiniteMechanism
    from labeldp.randomizer import PrivateLabels


@dataclass(frozen=True)
class ErrorEstimate:
    """An estimate of the mean squared test error with a confidence interval, from private labels.

    `bias_allowance` is how much further the interval reaches than sampling alone asks for: what is left of it with many
    records is what the mechanism's codes cannot tell.
    """

    mean_squared_error: float
    standard_error: float
    bias_allowance: float
    lower: float
    upper: float
    confidence: float
    records: int

    def __str__(self) -> str:
        return (
            f"mean squared error {self.mean_squared_error:,.4g} "
            f"({self.confidence:.0%} interval {self.lower:,.4g} to {self.upper:,.4g}, {self.records:,} private labels)"
        )


@dataclass(frozen=True)
class Estimate:
    """An estimate of one number with its confidence interval, from private labels."""

    value: float
    standard_error: float
    lower: float
    upper: float


def estimate_error(
    mechanism: FiniteMechanism,
    codes: NDArray[np.uint32],
    predictions: Any,
    *,
    confidence: float = 0.95,
    visible: float = VISIBLE,
) -> ErrorEstimate:
    """The mean squared error of `predictions` against the true labels behind `codes`.

    `visible` is the share of the label that features are taken to explain when the estimate is made as good as can be;
    the interval is valid whatever they explain.

    The predictions must not depend on these records' own codes: hold them out, or see `cross_validated_error`.
    """
    predicted = _checked(codes, predictions, confidence)
    found = _estimate(mechanism, codes, _Target.error(mechanism, predicted), visible, confidence)
    sampling = _quantile(1 - confidence) * found.standard_error
    return ErrorEstimate(
        mean_squared_error=max(0.0, found.value),
        standard_error=found.standard_error,
        bias_allowance=max(0.0, (found.upper - found.lower) / 2 - sampling),
        lower=max(0.0, found.lower),
        upper=max(0.0, found.upper),
        confidence=confidence,
        records=codes.size,
    )


def estimate_mean(mechanism: FiniteMechanism, codes: NDArray[np.uint32], *, confidence: float = 0.95) -> Estimate:
    """The mean of the true labels behind `codes`."""
    ones = _checked(codes, np.ones(codes.shape), confidence)
    zero = _zero(mechanism)
    found = _estimate(mechanism, codes, _Target(np.zeros(codes.size), ones, 0.0, zero), 1.0, confidence)
    figures = np.array([found.value, found.lower, found.upper]) + zero
    if mechanism.domain is not None:
        figures = np.clip(figures, mechanism.domain.lower, mechanism.domain.upper)
    value, lower, upper = figures.tolist()
    return Estimate(value, found.standard_error, lower, upper)


def estimate_gain(
    mechanism: FiniteMechanism, codes: NDArray[np.uint32], predictions: Any, *, confidence: float = 0.95
) -> Estimate:
    """How much lower the error of `predictions` is than the error of always answering their mean; below zero if higher.

    The squares of the labels drop out of this difference, so it is known much better than either error.
    """
    zero = _zero(mechanism)
    predicted = _checked(codes, predictions, confidence) - zero
    center = predicted.mean()
    target = _Target(center**2 - predicted**2, 2 * (predicted - center), 0.0, zero)
    return _estimate(mechanism, codes, target, 1.0, confidence)


def _checked(codes: NDArray[np.uint32], predictions: Any, confidence: float) -> Floats:
    predicted = np.asarray(predictions, np.float64)
    if predicted.shape != codes.shape or predicted.size < 2:
        raise InvalidInput(f"one prediction per code and two or more are needed: {predicted.shape}, {codes.shape}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence!r}")
    return predicted


def cross_validated_error(
    estimator: Any, X: Any, private: PrivateLabels, *, decoder: str = "bins", folds: int = 5, confidence: float = 0.95
) -> ErrorEstimate:
    """The test error of `estimator` trained on the private labels: every record is predicted by a model without it.

    Costs `folds` fits and no privacy. It speaks of models trained on (folds − 1)/folds of the records.
    """
    from sklearn.model_selection import KFold, cross_val_predict

    values = code_values(private.mechanism, decoder)[private.codes]
    # A fixed shuffle: which record falls into which fold must not depend on the order of labels.
    cv = KFold(folds, shuffle=True, random_state=0)
    predictions = cross_val_predict(estimator, X, values, cv=cv)
    return estimate_error(private.mechanism, private.codes, predictions, confidence=confidence)


def noise_corrected_scorer(mechanism: FiniteMechanism, decoder: str = "bins") -> Callable[[Any, Any, Any], float]:
    """A scikit-learn scorer for models trained on `code_values(mechanism, decoder)`: minus the corrected squared error.

    Use it as `scoring=` in `cross_val_score` or `GridSearchCV` on private values. The values stand for codes, so `y`
    must hold exactly those numbers.
    """
    values = code_values(mechanism, decoder)
    order = np.argsort(values, kind="stable")

    def score(estimator: Any, X: Any, y: Any) -> float:
        target = np.asarray(y, np.float64)
        place = np.minimum(np.searchsorted(values[order], target), values.size - 1)
        codes = order[place].astype(np.uint32)
        if not np.array_equal(values[codes], target):
            raise InvalidInput(
                "the labels to score against are not this mechanism's values: pass code_values(...)[codes]"
            )
        predicted = np.asarray(estimator.predict(X), np.float64)
        squared = _Target.error(mechanism, predicted)
        moments = moment_values(mechanism, codes.size, zero=squared.zero)
        return -max(0.0, float(squared.values(moments, codes).mean()))

    return score


@dataclass(frozen=True, eq=False)
class MomentValues:
    """For each code a number that estimates the label and one that estimates its square."""

    label: Floats
    square: Floats


def moment_values(
    mechanism: FiniteMechanism, records: int, visible: float = VISIBLE, zero: float = 0.0
) -> MomentValues:
    """Values whose means are y and y²; where the mechanism has none, the best ones to average over `records` codes.

    With `zero`, they are those of y − zero.
    """
    prior = mechanism.prior
    if prior is None:
        raise InvalidInput("a noise-corrected error needs the mechanism's prior, and this mechanism carries none")
    labels = prior.values - zero
    # A private prior may miss labels that are there: every one counts a little.
    masses = (1 - _UNSURE) * prior.masses + _UNSURE / labels.size
    channel = mechanism.matrix(prior.values)
    unit = max(float(np.abs(labels).max()), 1e-300)
    if mechanism.kind == "unbiased":
        return MomentValues(
            mechanism.outputs - zero, _decoded(channel, (labels / unit) ** 2, masses, visible=1, ridge=0) * unit**2
        )
    label = _decoded(channel, labels / unit, masses, visible, 1 / records) * unit
    return MomentValues(label, _decoded(channel, (labels / unit) ** 2, masses, visible, 1 / records) * unit**2)


def _decoded(channel: Floats, target: Floats, masses: Floats, visible: float, ridge: float) -> Floats:
    """Values v of least |F·(E[v | y] − target)|² + ridge·Var(v), with E[v] = E[target] under the prior.

    F is the factor of `visible_part`: it keeps of a bias what features can see.
    """
    share = masses @ channel
    root = np.sqrt(share)
    center = float(masses @ target)
    # In values less their mean, times √share, the variance is a plain norm and the mean a direction, √share itself.
    both = np.column_stack([channel / root - root, target - center])
    seen = np.sqrt(masses)[:, None] * both if visible >= 1 else visible_factor(masses, visible) @ both
    left, strength, right = np.linalg.svd(seen[:, :-1], full_matrices=False)
    kept = strength > 1e-7 * strength[0]
    weight = strength[kept] / (strength[kept] ** 2 + ridge)
    solved = right[kept].T @ (weight * (left[:, kept].T @ seen[:, -1]))
    solved -= root * (root @ solved)
    return np.asarray(center + solved / root)


@dataclass(frozen=True, eq=False)
class _Target:
    """The mean of offset + weight·y + square·y² over records; y is the hidden label less `zero`, the rest is public."""

    offset: Floats
    weight: Floats
    square: float
    zero: float

    @classmethod
    def error(cls, mechanism: FiniteMechanism, predictions: Floats) -> _Target:
        """The squared error of predictions."""
        zero = _zero(mechanism)
        predicted = predictions - zero
        return cls(predicted**2, -2 * predicted, 1.0, zero)

    def values(self, moments: MomentValues, codes: NDArray[np.uint32]) -> Floats:
        """The target of each record with estimates in place of y and y²."""
        return self.offset + self.weight * moments.label[codes] + self.square * moments.square[codes]

    def over_cells(self, weights: Floats, labels: Floats, half: float) -> tuple[Floats, Floats]:
        """Least and greatest weight·y + square·y² for y within `half` of each label: a row for each weight."""
        ends = [weights[:, None] * y + self.square * y**2 for y in (labels - half, labels + half)]
        low = np.minimum(*ends)
        if self.square > 0:
            bottom = np.clip(-weights[:, None] / (2 * self.square), labels - half, labels + half)
            low = np.minimum(low, weights[:, None] * bottom + self.square * bottom**2)
        return low, np.maximum(*ends)


def _estimate(
    mechanism: FiniteMechanism, codes: NDArray[np.uint32], target: _Target, visible: float, confidence: float
) -> Estimate:
    moments = moment_values(mechanism, codes.size, visible, target.zero)
    values = target.values(moments, codes)
    error = float(values.std(ddof=1) / np.sqrt(values.size))
    lower, upper = _range(mechanism, codes, target, moments, 1 - confidence)
    return Estimate(float(np.clip(values.mean(), lower, upper)), error, lower, upper)


def _zero(mechanism: FiniteMechanism) -> float:
    """The lowest label: from there on, the squares of labels far from zero do not cancel."""
    return 0.0 if mechanism.prior is None else float(mechanism.prior.values[0])


def _quantile(risk: float) -> float:
    """How many standard errors the estimate may be off within its share of the risk."""
    return NormalDist().inv_cdf(1 - risk * _MAIN_SHARE / 2)


def _range(
    mechanism: FiniteMechanism, codes: NDArray[np.uint32], target: _Target, moments: MomentValues, risk: float
) -> tuple[float, float]:
    """The least and the greatest target over all distributions of (weight, label) that the codes do not contradict.

    A distribution is contradicted where the mean of a statistic under it is further from the mean over the records than
    sampling explains. The estimate itself takes most of the risk, the other statistics (`_evidence`) and the offset share
    the rest. All are linear in the weight between two nodes, and so is the target, so it is enough to look at
    distributions on the nodes.
    """
    labels, channel, half, gap = _knots(mechanism)
    place = _Nodes.of(target.weight)
    weights, many, offset = place.nodes, codes.size, target.offset
    evidence = _evidence(codes, place, target.weight, channel, _directions(mechanism, labels, channel, many))
    lesser = risk * (1 - _MAIN_SHARE) / (evidence.mean.size + 1)
    estimates = target.values(moments, codes)
    expected = weights[:, None] * (channel @ moments.label) + target.square * (channel @ moments.square)
    program = _Program(
        rows=np.vstack([evidence.rows, expected.ravel()]),
        middle=np.r_[evidence.mean, estimates.mean() - offset.mean()],
        radius=np.r_[
            _bernstein(evidence.variance, evidence.span, many, lesser),
            _quantile(risk) * estimates.std(ddof=1) / np.sqrt(many),
        ],
        slack=float(_bernstein(offset.var(ddof=1), np.ptp(offset), many, lesser)),
    )
    low, high = target.over_cells(weights, labels - target.zero, half)
    low = low - target.square * gap**2 / 4  # between two knots the square runs below its chord by so much
    center = float(offset.mean())
    return center + program.least(low.ravel()), center - program.least(-high.ravel(), -1.0)


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Statistics of the records: what each is expected to be at (node, label), and what it is."""

    rows: Floats
    mean: Floats
    variance: Floats
    span: Floats


def _evidence(
    codes: NDArray[np.uint32], place: _Nodes, weights: Floats, channel: Floats, directions: Floats
) -> _Evidence:
    """The directions in which codes tell labels apart, alone and times the weight, and where the weights lie."""
    told, nodes = (channel @ directions).T, place.nodes
    alone = np.tile(told, (1, nodes.size))
    found = _code_statistics(codes, np.ones(codes.size), directions)
    if nodes.size == 1:
        return _Evidence(alone, *found)
    times = (told[:, None, :] * place.scaled(nodes)[:, None]).reshape(told.shape[0], -1)
    where = np.repeat(np.eye(nodes.size), channel.shape[0], axis=1)
    others = _code_statistics(codes, place.scaled(weights), directions), place.statistics()
    return _Evidence(
        np.vstack([alone, times, where]), *(np.concatenate(part) for part in zip(found, *others, strict=True))
    )


@dataclass(frozen=True, eq=False)
class _Program:
    """Distributions q ≥ 0 with sum one and |rows·q − middle| ≤ radius; the last row also has a free number |g| ≤ slack.

    g is the offset's own sampling error, which moves the target and the estimate alike.
    """

    rows: Floats
    middle: Floats
    radius: Floats
    slack: float

    def least(self, cost: Floats, sign: float = 1.0) -> float:
        """The least cost·q + sign·g. Statistics that contradict each other are given more room until they do not.

        Without an answer from the solver, what no distribution at all goes below.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        size = cost.size
        unit = max(float(np.abs(cost).max()), self.slack, 1e-300)
        # In units of each statistic's largest value; g in units of the cost.
        scale = np.maximum(np.abs(self.rows).max(axis=1), 1e-300)
        shift = np.zeros((self.rows.shape[0], 1))
        shift[-1] = unit / scale[-1]
        table = np.vstack([np.hstack([self.rows / scale[:, None], shift]), np.r_[np.ones(size), 0.0]])
        bounds = Bounds(np.r_[np.zeros(size), -self.slack / unit], np.r_[np.ones(size), self.slack / unit])
        for room in 1.5 ** np.arange(40):
            low = np.r_[(self.middle - room * self.radius) / scale - 1e-9, 1.0]
            high = np.r_[(self.middle + room * self.radius) / scale + 1e-9, 1.0]
            answer = milp(np.r_[cost / unit, sign], constraints=LinearConstraint(table, low, high), bounds=bounds)
            if answer.status == 0:
                return float(answer.fun) * unit
        return float(cost.min()) - self.slack


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Numbers between which every weight is split, in proportion, so that its mean is kept."""

    nodes: Floats
    below: NDArray[np.intp]
    part: Floats

    @classmethod
    def of(cls, weights: Floats) -> _Nodes:
        nodes = np.unique(np.quantile(weights, np.linspace(0, 1, _BLOCKS + 1)))
        position = np.interp(weights, nodes, np.arange(nodes.size))
        below = np.minimum(position.astype(np.intp), max(nodes.size - 2, 0))
        return cls(nodes, below, position - below)

    def scaled(self, weights: Floats) -> Floats:
        """Weights as numbers from −1 to 1."""
        span = self.nodes[-1] - self.nodes[0]
        return np.asarray(2 * (weights - self.nodes[0]) / (span or 1.0) - 1)

    def statistics(self) -> tuple[Floats, Floats, Floats]:
        """Mean, variance and span of the share of a record at each node."""
        size = self.nodes.size
        moments = []
        for power in (1, 2):
            lower = np.bincount(self.below, (1 - self.part) ** power, size)
            upper = np.bincount(np.minimum(self.below + 1, size - 1), self.part**power, size)
            moments.append((lower + upper) / self.below.size)
        return moments[0], np.maximum(moments[1] - moments[0] ** 2, 0), np.ones(size)


def _code_statistics(codes: NDArray[np.uint32], factor: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and span of factor·values[codes], for each column of `values`; the factor is at most one."""
    size, many = values.shape[0], codes.size
    mean = np.bincount(codes, factor, size) @ values / many
    second = np.bincount(codes, factor**2, size) @ values**2 / many
    return mean, np.maximum(second - mean**2, 0), 2 * np.abs(values).max(axis=0, initial=0)


def _bernstein(variance: Any, span: Any, records: int, risk: float) -> Floats:
    """How far a mean of bounded numbers may be from its expectation, by their own variance (Maurer and Pontil 2009)."""
    room = np.log(4 / risk)
    return np.asarray(np.sqrt(2 * variance * room / records) + 7 * span * room / (3 * (records - 1)))


def _directions(mechanism: FiniteMechanism, labels: Floats, channel: Floats, records: int) -> Floats:
    """Numbers for the codes, a column each, in whose means labels differ most: those that so many records can show."""
    prior = mechanism.prior
    masses = np.full(labels.size, 0.5 / labels.size)
    if prior is not None:
        nearest = np.searchsorted((labels[1:] + labels[:-1]) / 2, prior.values)
        masses += np.bincount(nearest, prior.masses / 2, labels.size)
    share = masses @ channel
    root = np.sqrt(np.where(share > 0, share, 1.0))
    _, strength, right = np.linalg.svd(np.sqrt(masses)[:, None] * (channel / root - root), full_matrices=False)
    directions = right.T / root[:, None]
    seen = (np.ptp(channel @ directions, axis=0) > 2 / np.sqrt(records)) & (strength > 1e-9 * strength[0])
    return np.asarray(directions[:, seen][:, :_MOST_DIRECTIONS])


def _knots(mechanism: FiniteMechanism) -> tuple[Floats, Floats, float, float]:
    """Labels between which output probabilities are linear, their rows, half a cell, and the widest gap between labels.

    A label is rounded to the grid, so it may lie half a cell away; on a grid of whole numbers one apart it does not.
    """
    domain, prior = mechanism.domain, mechanism.prior
    grid = domain.grid if domain is not None and domain.cells is not None else None
    if grid is None and prior is not None:
        grid = prior.values
    if grid is None:
        raise InvalidInput("a noise-corrected error needs the mechanism's prior, and this mechanism carries none")
    channel = mechanism.matrix(grid)
    if grid.size <= _MOST_KNOTS:
        kept = np.arange(grid.size)
    else:
        slope = np.diff(channel, axis=0) / np.diff(grid)[:, None]
        bend = np.abs(np.diff(slope, axis=0)).max(axis=1) * np.ptp(grid) > 1e-9
        even = np.linspace(0, grid.size - 1, _MOST_KNOTS).astype(np.intp)
        kept = np.union1d(np.flatnonzero(bend) + 1, even)
    step = 0.0 if domain is None or domain.cells is None else domain.step
    whole = step == 1 and float(domain.lower).is_integer() if domain is not None else True
    gap = float(np.diff(grid[kept]).max(initial=0.0)) if kept.size < grid.size else 0.0
    return grid[kept], channel[kept], 0.0 if whole else step / 2, gap
