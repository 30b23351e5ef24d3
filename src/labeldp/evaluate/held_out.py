"""The test error of a model from noisy sums of held-out labels, with the noise and the sampling in its intervals.

For labels y and public predictions f, every figure follows from three means: of (y − f)², of 2·(f − mean f)·y and of y. Each is a mean
of bounded numbers, one for each record, so that replacing one label moves it by at most a public width, and discrete Laplace noise
makes it private. Nothing is binned: error and gain are unbiased, and exact but for the noise. A fifth of ε goes into four more
sums, of squares, which tell how much the figures vary from sample to sample.

All of this is done on a scale on which the bounds are 0 and 1, so that no square or fourth power leaves the floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from labeldp.arrays import Floats, label_array, offending_rows
from labeldp.budget import Epsilon, float_up
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.evaluate.held_out_figures import HeldOutFigure, Noisy, Spread, figure, ratio_figure
from labeldp.formatting import ReprMixin
from labeldp.release.ledger import Ledger
from labeldp.release.sum_queries import SumQueries

SPREAD_SHARE = Fraction(1, 5)
"""The share of ε for sums of squares, which decide how wide the intervals are but not where they lie."""
MEAN_SHARE = Fraction(3, 20)
"""The share of ε for the labels' mean, which matters only where it differs from the predictions' mean."""
FURTHEST = 1e4
"""Predictions may lie so many times the labels' range outside of the bounds. Further out, nothing but noise would be left."""
LARGEST_RATIO = 4.0
"""Sums of squares for R² are made for an error of at most so many times the variance of the labels."""
ENDS, MIDDLE = np.array([[0.0], [1.0]]), 0.5
"""The bounds of the labels, once they are rescaled, and the middle between them."""


@dataclass(frozen=True, repr=False)
class HeldOutError(ReprMixin):
    """How good a model is on records that it was not trained on, from noisy sums of their labels. Holds no label.

    Attributes
    ----------
    mse : HeldOutFigure
        The mean squared error of the predictions.
    mse_of_mean : HeldOutFigure
        That of always answering the labels' mean: their variance.
    gain : HeldOutFigure
        How much of the error of a constant answer the model removes: 2·cov(label, prediction) − var(prediction). The squares of the
        labels cancel in it, so it is known much better than either error.
    r2 : HeldOutFigure
        The share of the labels' variance that the predictions explain, 1 − mse/mse_of_mean.
    records : int
        The number of held-out records.
    epsilon_exact : Fraction
        What the figures may cost together, and what a ledger was charged.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import held_out_error
    >>> class Line:
    ...     def predict(self, X):
    ...         return 10 * X[:, 0]
    >>> X = np.random.default_rng(0).random((20_000, 1))
    >>> labels = np.clip(10 * X[:, 0] + np.random.default_rng(1).normal(0, 1, 20_000), 0, 10)
    >>> found = held_out_error(Line(), X, labels, epsilon=2, domain=(0, 10))
    >>> bool(found.r2.lower > 0.8)
    True
    """

    mse: HeldOutFigure
    mse_of_mean: HeldOutFigure
    gain: HeldOutFigure
    r2: HeldOutFigure
    records: int
    epsilon_exact: Fraction

    @property
    def epsilon(self) -> float:
        """`epsilon_exact`, rounded up."""
        return float_up(self.epsilon_exact)

    def _facts(self) -> dict[str, str]:
        names = ("mse", "mse_of_mean", "gain", "r2")
        facts = {name: str(getattr(self, name)) for name in names}
        return facts | {"records": f"{self.records:,}", "epsilon": f"{self.epsilon:g}"}


def held_out_error(
    model: Any,
    X: Any,
    y: Any,
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> HeldOutError:
    """Estimate the test error of any fitted regressor from noisy sums of held-out labels.

    Parameters
    ----------
    model : regressor
        Anything with `predict(X)`: a `LabelDPRegressor` by labels or by sums, or another model.
    X : table or array
        The features of records that the model was not trained on.
    y : array-like
        Their true labels, at least two.
    epsilon : float, str, Decimal or Fraction
        What all figures cost together.
    domain : Domain or (lower, upper)
        The public bounds of the labels, never read off them. Labels outside are moved to the nearer bound.
    ledger : Ledger, optional
        Charge ε to `dataset` in this ledger before anything is drawn.
    dataset : str, optional
        The dataset in `ledger` to charge.

    Returns
    -------
    HeldOutError
        `mse`, `mse_of_mean`, `gain` and `r2`, each with a standard error and a 95 % interval for the population that the records were
        drawn from. With few records and a small ε, an estimate may lie outside of what is possible, since it is unbiased.

    Notes
    -----
    Intervals take the sampling of records as normal. If a few rare labels make up most of an error, the intervals of `mse` and
    `mse_of_mean` are too narrow at a large ε: in simulations at ε = 40, those of three to five rare labels among 2,000 covered 0.92 to
    0.94 instead of 0.95, and those of thirty or more covered 0.95. At ε = 1 the noise dominates, and all covered at least 0.95.

    Raises
    ------
    InvalidInput
        If the model cannot predict, predictions do not match the labels, or labels or settings are refused. Nothing is charged then.
    InsufficientBudget
        If the ledger has less than ε left.

    Privacy
    -------
    ε-DP for replacing one held-out label by another valid one. If these labels are in no other release, this ε is spent on them
    alone: a training label was seen through the model's ε, a held-out label through this one, and no label through both (parallel
    composition). Records that the model was trained on, or whose labels are released elsewhere, pay the sum, and
    the error would be too small. Predictions must not depend on these labels.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import LabelDPRegressor, held_out_error
    >>> X = np.random.default_rng(0).random((12_000, 2))
    >>> y = np.clip(60 * X[:, 0] + np.random.default_rng(1).normal(20, 10, 12_000), 0, 100)
    >>> model = LabelDPRegressor(epsilon=1, domain=(0, 100)).fit(X[:8000], y[:8000])
    >>> found = held_out_error(model, X[8000:], y[8000:], epsilon=1, domain=(0, 100))
    >>> bool(found.gain.lower > 0)  # the model is better than a constant
    True
    """
    predictions = _predictions(model, X)
    bounds = Domain.of(domain)
    labels = bounds.check(y)
    if predictions.size != labels.size:
        raise InvalidInput(
            f"one prediction for each label is needed: the model gave {predictions.size:,} for {labels.size:,} labels"
        )
    width = bounds.upper - bounds.lower
    far = np.abs(predictions - (bounds.lower + bounds.upper) / 2) > FURTHEST * width
    if far.any():
        raise InvalidInput(
            f"predictions lie far outside of the bounds {bounds.lower:g} to {bounds.upper:g}: {offending_rows(far)}. Are they in the unit "
            "of the labels? Clip them if they are meant as they are"
        )
    queries = SumQueries(labels, epsilon, (bounds.lower, bounds.upper), ledger=ledger, dataset=dataset)
    asked = _Asked(queries.epsilon_exact, *((one - bounds.lower) / width for one in (labels, predictions)))
    queries.charge()
    return asked.figures(width**2)


class _Asked:
    """Held-out labels from 0 to 1, which are asked for a few sums within one budget.

    The sums are not of labels but of squares and products with them, so each has a `SumQueries` of its own, with bounds of its own.
    """

    def __init__(self, epsilon: Fraction, labels: Floats, predictions: Floats) -> None:
        self.epsilon, self.labels, self.predictions = epsilon, labels, predictions
        self.records = labels.size
        differ = np.ptp(predictions) > 1e-9
        self.centred = predictions - predictions.mean() if differ else np.zeros(self.records)
        self.remaining = epsilon

    def figures(self, square: float) -> HeldOutError:
        """The figures in the labels' own unit, in which the squared distance of the bounds is `square`."""
        n = self.records
        most_error = float(np.square(ENDS - self.predictions).max())
        most_gain = float(np.abs(self.centred).max())
        shares = _shares(most_error, 2 * most_gain)
        above = self.labels - MIDDLE
        means = Noisy.of(
            self._mean(np.square(self.labels - self.predictions), (0, most_error), shares[0]),
            self._mean(2 * self.centred * above, (-most_gain, most_gain), shares[1]),
            self._mean(above, (-MIDDLE, MIDDLE), MEAN_SHARE),
        )
        more, predicted = n / (n - 1), float(np.mean(np.square(self.centred)))
        error = means.combined([1, 0, 0], 0.0)
        gain = means.combined([0, more, 0], -more * predicted)
        # var y = error + gain − (mean y − mean f)². The square is too large by the variance v of the noise, and has a variance of its own
        # about the line: 5·v², since the fourth moment of Laplace noise is 6·v².
        apart = float(means.means[2] + MIDDLE - self.predictions.mean())
        noise = float(means.noise[2])
        line = means.combined(
            [more, more, -2 * more * apart], more * (2 * apart * means.means[2] - apart**2 + noise - predicted)
        )
        variance = line.with_noise(5 * (more * noise) ** 2)
        spread = self._spread(error.value, variance.value, gain.value, means.means[2] + MIDDLE)
        return HeldOutError(
            mse=figure(error, spread.error / n, least=0.0).times(square),
            mse_of_mean=figure(variance, spread.variance / n, least=0.0).times(square),
            gain=figure(gain, spread.gain / n).times(square),
            r2=ratio_figure(error, variance, spread, n),
            records=n,
            epsilon_exact=self.epsilon,
        )

    def _spread(self, error: float, variance: float, gain: float, mean: float) -> Spread:
        """The variances, over records, of what the figures are means of."""
        ratio = float(np.clip(error / variance, 0, LARGEST_RATIO)) if variance > 0 else 1.0
        mean = float(np.clip(mean, 0, 1))
        f, g = self.predictions, self.centred
        most_error = float(np.square(ENDS - f).max())
        most_square = float(np.square(ENDS - mean).max())
        most_gain = float(np.abs(2 * g * (ENDS - mean) - np.square(g)).max())
        errors, squares = np.square(self.labels - f), np.square(self.labels - mean)
        gains = 2 * g * (self.labels - mean) - np.square(g)
        return Spread(
            error=self._variance(errors, error, most_error),
            variance=self._variance(squares, variance, most_square),
            gain=self._variance(gains, gain, most_gain),
            mixed=self._variance(errors - ratio * squares, 0.0, max(most_error, ratio * most_square)),
            ratio=ratio,
        )

    def _variance(self, numbers: Floats, mean: float, most: float) -> float:
        """The variance of numbers whose sizes are at most `most`: too large rather than too small by the noise, and never impossible."""
        square, noise = self._mean(np.square(numbers), (0, most**2), SPREAD_SHARE / 4)
        return float(np.clip(square - mean**2, 0, most**2)) + math.sqrt(noise)

    def _mean(self, numbers: Floats, ends: tuple[float, float], share: Fraction) -> tuple[float, float]:
        """A noisy mean of numbers that lie between public ends, and the variance of its noise."""
        low, high = ends
        if not low < high:
            return low, 0.0
        asked = self.epsilon * share
        if asked > self.remaining:
            raise LabelDPError(
                "held-out sums would cost more than ε: this is a bug, and nothing more is asked. Please report it"
            )
        self.remaining -= asked
        # Its own limit is all of ε, since it would refuse a small part of a small ε: `remaining` is the limit that holds.
        source = SumQueries(np.clip(numbers, low, high), self.epsilon, (low, high))
        answer = source.over_cells(np.zeros(self.records, np.int8), 1, asked)
        return float(answer.sums[0]) / self.records, answer.sums_variance / self.records**2


def _shares(error: float, gain: float) -> tuple[Fraction, Fraction]:
    """How to divide the rest of ε between two sums of these widths, so that the sum of their variances is least."""
    sizes = np.cbrt(np.square([error, gain]))
    first = Fraction(float(np.clip(sizes[0] / sizes.sum(), 0.05, 0.95))).limit_denominator(100) if gain else Fraction(1)
    rest = 1 - SPREAD_SHARE - MEAN_SHARE
    return rest * first, rest * (1 - first)


def _predictions(model: Any, X: Any) -> Floats:
    if not callable(getattr(model, "predict", None)):
        raise InvalidInput(f"model must be a fitted regressor with predict(X), got {type(model).__name__}")
    return label_array(model.predict(X), "predictions")
