"""Noisy sums about public predictions, by group, and the figures that follow from them: errors, gains and differences of models.

For labels y and predictions f of the first model, f' of another, every figure follows from the means of y, y², 2·(f − mean f)·y, |y − f|,
|y − f'| and (y − f')² − (y − f)². Each is a mean of numbers that one label moves by at most a public width, and the last one by
little if the models are alike. They share one noise, whose shape is cut to what a label can do to the first four together
(`Body` in `release/group_sums.py`). Nothing is binned: errors and gains are unbiased, and exact but for the noise. A
part of ε goes into sums of squares, which tell how much the figures vary from sample to sample.

All of this is done on a scale on which the bounds are 0 and 1, so that no square or fourth power leaves the floats.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Priced
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.formatting import ReprMixin, plain
from labeldp.release.grid_labels import SumsBudget, noise_scale
from labeldp.release.group_sums import (
    UNITS,
    Body,
    Changes,
    Codes,
    GroupSums,
    Rows,
    add_noise,
    check_numbers,
    exact_numbers,
)
from labeldp.release.noisy_sums import cube_variance

WIDEST = 0.8
"""An interval that covers more than this share of the possible range is uninformative: its figure is shown as unknown."""
RISK = 0.05
"""The probability that an interval misses the truth."""


def reach_of_sampling(risk: float = RISK) -> float:
    """Return the half-width of an interval in standard deviations of sampling, which is normal for many records."""
    return NormalDist().inv_cdf(1 - risk / 2)


def reach_of_noise(risk: float = RISK) -> float:
    """Return the half-width in standard deviations of Laplace noise. Sums with cube noise need fewer."""
    return math.log(1 / risk) / math.sqrt(2)


SAMPLING, NOISE = reach_of_sampling(), reach_of_noise()


@dataclass(frozen=True, repr=False)
class HeldOutFigure(ReprMixin):
    """One figure about held-out records with its uncertainty.

    Attributes
    ----------
    value : float
        The estimate.
    standard_error : float
        Its standard deviation, by noise and by sampling.
    lower, upper : float
        The ends of its 95 % interval.
    """

    value: float
    standard_error: float
    lower: float
    upper: float

    def __float__(self) -> float:
        return self.value

    def times(self, factor: float) -> HeldOutFigure:
        """Return the same figure in another unit: one current unit is `factor` new units.

        Parameters
        ----------
        factor : float
            A positive number.

        Returns
        -------
        HeldOutFigure
        """
        return HeldOutFigure(*(factor * one for one in (self.value, self.standard_error, self.lower, self.upper)))

    def __str__(self) -> str:
        return f"{plain(self.value)} (95% interval {plain(self.lower)} to {plain(self.upper)})"

    def _facts(self) -> dict[str, str]:
        return {name: plain(getattr(self, name)) for name in ("value", "standard_error", "lower", "upper")}


@dataclass(frozen=True, eq=False)
class Linear:
    """A value that is linear in noisy means with this covariance, with `own` as the variance of its independent noise."""

    value: float
    factors: Floats
    noise: Floats
    own: float = 0.0

    def with_noise(self, variance: float) -> Linear:
        """Return the same figure with additional independent noise."""
        return replace(self, own=self.own + variance)

    def less(self, other: Linear) -> Linear:
        """Return the difference to another value of the same means."""
        return Linear(self.value - other.value, self.factors - other.factors, self.noise, self.own + other.own)

    def covariance(self, other: Linear) -> float:
        """The covariance of the noise of two such values."""
        shared = float(self.factors @ self.noise @ other.factors)
        return max(0.0, shared) + self.own if other is self else shared


@dataclass(frozen=True)
class Spread:
    """Variances over records: of squared errors, of squares about the mean, and of error − ratio·square."""

    error: float
    variance: float
    mixed: float
    ratio: float

    @property
    def covariance(self) -> float:
        """Variances of squared errors and squares about the mean."""
        if not self.ratio:
            return 0.0
        found = (self.error + self.ratio**2 * self.variance - self.mixed) / (2 * self.ratio)
        most = math.sqrt(self.error * self.variance)
        return min(max(found, -most), most)

    @property
    def gain(self) -> float:
        """The variance of square − error."""
        return max(0.0, self.error + self.variance - 2 * self.covariance)


def figure(found: Linear, sampling: float, *, least: float = -math.inf, risk: float = RISK) -> HeldOutFigure:
    """Return a figure with an interval for noise and sampling of these variances."""
    noise = found.covariance(found)
    reach = math.sqrt(reach_of_sampling(risk) ** 2 * sampling + reach_of_noise(risk) ** 2 * noise)
    lower, upper = max(least, found.value - reach), max(least, found.value + reach)
    return HeldOutFigure(min(max(found.value, lower), upper), math.sqrt(sampling + noise), lower, upper)


def ratio_figure(error: Linear, variance: Linear, spread: Spread, records: float) -> HeldOutFigure:
    """Return R² = 1 − error/variance, with Fieller's interval: all ratios for which error − ratio·variance is compatible with zero."""
    a, b = error.value, variance.value
    sampled = {"aa": spread.error / records, "ab": spread.covariance / records, "bb": spread.variance / records}
    noisy = {
        "aa": error.covariance(error),
        "ab": error.covariance(variance),
        "bb": variance.covariance(variance),
    }
    wide = {key: SAMPLING**2 * sampled[key] + NOISE**2 * noisy[key] for key in sampled}
    if b <= 0:
        return HeldOutFigure(math.nan, math.nan, -math.inf, 1.0)
    ratio = a / b
    value = min(1.0, 1 - ratio)  # noise can make an error negative
    both = {key: sampled[key] + noisy[key] for key in sampled}
    deviation = math.sqrt(max(0.0, both["aa"] - 2 * ratio * both["ab"] + ratio**2 * both["bb"])) / b
    low, high = (max(0.0, end) for end in fieller(a, b, wide["aa"], wide["ab"], wide["bb"]))
    return HeldOutFigure(value, deviation, 1 - high, 1 - low)


def fieller(a: float, b: float, aa: float, ab: float, bb: float) -> tuple[float, float]:
    """Return the smallest and largest ratio r for which a − r·b may be zero, given squared half-widths; infinite if b may be zero."""
    lead = b**2 - bb
    if lead <= 0:
        return -math.inf, math.inf
    middle = a * b - ab
    root = math.sqrt(max(0.0, middle**2 - lead * (a**2 - aa)))
    return (middle - root) / lead, (middle + root) / lead


SPREAD_SHARE = Fraction(1, 10)
"""The share of ε for sums of squares, which decide how wide the intervals are but not where they lie."""
LARGEST_RATIO = 4.0
"""Sums of squares for R² are made for an error of at most this many times the variance of the labels."""
ENDS, MIDDLE = np.array([[0.0], [1.0]]), 0.5
"""The bounds of the labels, once they are rescaled, and the middle between them."""
MEAN, SQUARE, CROSS, ABSOLUTE = range(4)
"""The indices of the questions. Then |y − f'| follows for every model, and then the differences of errors from the first model's."""
COMBINATIONS = np.array(
    [
        [1, 0, -2, -1],
        [1, 0, 2, 1],
        [0, 1, -2, -1],
        [0, 0, 2, -1],
        [2, 1, 0, -1],
        [2, -1, 0, 1],
        [0, 1, 0, 2],
        [0, 0, 2, 1],
        [0, 1, 1, -2],
        [2, 0, 2, 1],
        [2, 0, -2, -1],
        [1, 1, -2, -1],
        [1, -1, 2, 1],
    ],
    np.int64,
)
"""Combinations of the first four questions, each divided by its width, that a label moves by less than the questions one by one.

They were chosen one after the other from all with factors up to 2, for the least noise of the figures on seven data sets. The list is
closed under reflection, y to 1 − y.
"""
DOUBT = 0.5
"""How many standard deviations of its noise are added to a variance over records.

In simulations with noise of any size compared with the variance, intervals then cover at least 95 %; without it, as few as 84 %."""
TYPICAL = 200
"""How many predictions are looked at to foresee the noise."""
ERRORS, SQUARES, MIXED = range(3)
"""The indices of the sums of squares; the sums for differences follow."""


class ModelError(Priced, ReprMixin):
    """The test error of a model, from noisy sums: a number of figures."""

    records: int

    @property
    @abstractmethod
    def figures(self) -> dict[str, HeldOutFigure]:
        """All figures by name."""

    def _facts(self) -> dict[str, str]:
        facts = {name: str(one) for name, one in self.figures.items()}
        return facts | {"records": f"{self.records:,}", "epsilon": f"{self.epsilon:g}"}


FIGURES = ("mse", "mse_of_mean", "gain", "r2", "mae", "bias")


@dataclass(frozen=True, repr=False)
class HeldOutError(ModelError):
    """The test error of a model on held-out records, from noisy sums of their labels. It contains no labels.

    Attributes
    ----------
    mse : HeldOutFigure
        The mean squared error of the predictions.
    mse_of_mean : HeldOutFigure
        The mean squared error of always predicting the labels' mean: their variance.
    gain : HeldOutFigure
        The reduction of the error compared with always predicting the labels' mean: mse_of_mean − mse. It is positive
        if R² is positive, and its interval excludes zero if the interval of R² does. The squares of the labels cancel,
        so it is more precise than either error.
    r2 : HeldOutFigure
        The share of the labels' variance that the predictions explain, 1 − mse/mse_of_mean.
    mae : HeldOutFigure
        The mean absolute error of the predictions.
    bias : HeldOutFigure
        The average excess of predictions: the mean of prediction − label.
    records : int
        The number of held-out records.
    epsilon_exact : Fraction
        The total budget of the figures, and the charge to the ledger.

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
    mae: HeldOutFigure
    bias: HeldOutFigure
    records: int
    epsilon_exact: Fraction

    @property
    def figures(self) -> dict[str, HeldOutFigure]:
        """All figures by name."""
        return {name: getattr(self, name) for name in FIGURES}


@dataclass(frozen=True, eq=False)
class HeldOutSums:
    """Noisy sums about predictions and what is public about these, from which all figures follow. Contains no label.

    Attributes
    ----------
    first, spread : GroupSums
        The sums, and the sums of squares.
    means : array of float64 of shape (groups, models)
        The mean prediction.
    predicted : array of float64
        The variance of the first model's predictions in each group.
    """

    first: GroupSums
    spread: GroupSums
    means: Floats
    predicted: Floats

    def __post_init__(self) -> None:
        groups = len(self.first.counts)
        fits = self.means.shape[:1] == self.predicted.shape == (groups,) and self.means.ndim == 2
        if not fits or self.first.counts.min() < 2:
            raise InvalidInput("the predictions' means of a score are damaged")
        for part, size in ((self.first, 2 + 2 * self.models), (self.spread, MIXED + self.models)):
            if part.kind != "numbers" or part.values.shape != (groups, size):
                raise InvalidInput("the sums of a score do not answer its questions")

    @classmethod
    def ask(
        cls,
        budget: SumsBudget,
        epsilon: Fraction,
        labels: Floats | SummedLabels,
        predictions: Floats,
        codes: Codes,
        persons: Codes | None = None,
    ) -> HeldOutSums:
        """Draw the sums for labels from 0 to 1 and predictions on their scale.

        Parameters
        ----------
        budget : SumsBudget
            What pays.
        epsilon : Fraction
            What all sums together may cost.
        labels : array of float64 or SummedLabels
            The labels, or what sums them elsewhere.
        predictions : array of float64 of shape (models, records)
            The predictions.
        codes : array of int64
            The group of each record, from 0. −1 leaves a record out.
        persons : array of int64, optional
            The number of each record's person, if a person is the unit of privacy.
        """
        rows = Rows.of(codes, persons)
        f = predictions[:, rows.used]
        means = np.column_stack([rows.group_means(one) for one in f])
        first = _Questions.of(f, rows, means)
        exact = _exact(labels, first, f, rows)
        drawn = add_noise(budget, exact, first.ends, rows, epsilon * (1 - SPREAD_SHARE), first.body)
        predicted = rows.group_means(np.square(first.centred(f, rows.codes)))
        found = [GroupFigures(drawn, None, means, predicted, group) for group in range(len(means))]
        squares = _Squares.of(f, rows, np.array([(each.ratio(0), each.label_mean) for each in found]))
        exact = _exact(labels, squares, f, rows)
        return cls(drawn, add_noise(budget, exact, squares.ends, rows, epsilon * SPREAD_SHARE), means, predicted)

    @staticmethod
    def check(models: int, records: int, epsilon: Fraction) -> None:
        """Raise `InvalidInput`, before the charge, for sums whose noise might leave 64 bits."""
        check_numbers(2 + 2 * models, records, epsilon * (1 - SPREAD_SHARE))
        check_numbers(MIXED + models, records, epsilon * SPREAD_SHARE)

    @staticmethod
    def reach(predictions: Floats, epsilon: Fraction, records: int, variance: float = 0.0) -> float:
        """Return how far the interval of the mean squared error of one model will reach, on the scale from 0 to 1.

        Parameters
        ----------
        predictions : array of float64
            The predictions on that scale, or some of them.
        epsilon : Fraction
            What the sums will cost.
        records : int
            The number of records.
        variance : float, default 0
            That of the squared errors, for the sampling of records. Without it the interval reaches for the noise alone.
        """
        first, rest = (noise_scale(UNITS, epsilon * share) for share in (1 - SPREAD_SHARE, SPREAD_SHARE))
        off, some = float(predictions.mean()) - MIDDLE, np.quantile(predictions, np.linspace(0, 1, TYPICAL))
        rows = Rows.of(np.zeros(TYPICAL, np.int64))
        asked = _Questions.of(some[None], rows, np.array([[off + MIDDLE]]))
        body, (low, high) = asked.body, asked.ends[0].T
        assert body is not None, "made by `of`"
        line = _error_line(ABSOLUTE + 1, off) * (high - low) / (UNITS * records)
        noise = float(line @ body.covariance(0, ABSOLUTE + 1, first) @ line)
        direct = float(np.square(ENDS - some).max()) ** 2
        of_squares = DOUBT * math.sqrt(cube_variance(MIXED + 1, rest)) * direct / (UNITS * records)
        sampling = min(variance + of_squares, direct) / records
        return math.sqrt(reach_of_noise() ** 2 * noise + reach_of_sampling() ** 2 * sampling)

    @property
    def models(self) -> int:
        """The number of models."""
        return int(self.means.shape[1])

    @property
    def parts(self) -> tuple[GroupSums, ...]:
        """All sums that cost something."""
        return self.first, self.spread

    def group(self, group: int) -> GroupFigures:
        """Return the figures of one group."""
        return GroupFigures(self.first, self.spread, self.means, self.predicted, group)


@dataclass(frozen=True, eq=False)
class GroupFigures:
    """The figures of one group, on the scale of labels from 0 to 1. Without `spread` they have no intervals."""

    first: GroupSums
    spread: GroupSums | None
    public_means: Floats
    predicted: Floats
    place: int

    @cached_property
    def records(self) -> int:
        """The number of records."""
        return int(self.first.counts[self.place])

    @cached_property
    def _size(self) -> float:
        """The number of records, or of persons with their weight in this group: of what varies independently."""
        return float(self.first.sizes[self.place])

    @cached_property
    def _means(self) -> tuple[Floats, Floats]:
        """The means and the covariance of their noise."""
        return self.first.means[self.place], self.first.means_covariance(self.place)

    @cached_property
    def label_mean(self) -> float:
        """The labels' mean."""
        return float(np.clip(self._means[0][MEAN] + MIDDLE, 0, 1))

    def _prediction(self, model: int) -> float:
        return float(self.public_means[self.place, model])

    def _linear(self, factors: dict[int, float], constant: float = 0.0) -> Linear:
        values, noise = self._means
        row = np.zeros(values.size)
        for question, factor in factors.items():
            row[question] += factor
        return Linear(float(row @ values + constant), row, noise)

    def _apart(self, model: int) -> dict[int, float]:
        """The mean of (y − f')² − (y − f)² for another model than the first, and nothing for that."""
        models = self.public_means.shape[1]
        return {ABSOLUTE + models + model - 1: 1.0} if model else {}

    def _error(self, model: int) -> Linear:
        off = self._prediction(0) - MIDDLE
        factors = dict(enumerate(_error_line(ABSOLUTE + 1, off).tolist())) | self._apart(model)
        return self._linear(factors, float(self.predicted[self.place]) + off**2)

    @cached_property
    def _variance(self) -> Linear:
        """The mean of (y − ½)² less the square of that of y − ½.

        The noise makes that square too large by its variance v. About the line it has a variance of 5·v² at the most, as for Laplace noise,
        whose fourth moment is 6·v².
        """
        more, (values, noise) = self.records / (self.records - 1), self._means
        mean, v = values[MEAN], noise[MEAN, MEAN]
        line = self._linear({SQUARE: more, MEAN: -2 * more * mean}, more * (mean**2 + v))
        return line.with_noise(5 * (more * v) ** 2)

    def ratio(self, model: int) -> float:
        """The error over the variance of the labels, within what sums of squares are made for."""
        variance = self._variance.value
        return float(np.clip(self._error(model).value / variance, 0, LARGEST_RATIO)) if variance > 0 else 1.0

    def _deviation(self, place: int, mean: float) -> float:
        """The standard deviation over records or persons: too large rather than too small by the noise, and never impossible."""
        assert self.spread is not None, "only the first sums are asked for without it"
        square, noise = self.spread.means[self.place, place], self.spread.means_variance[self.place, place]
        most = self.spread.ends[self.place, place, 1]
        return math.sqrt(float(np.clip(square - mean * mean, 0, most)) + DOUBT * math.sqrt(noise))

    def _apart_deviation(self, model: int) -> float:
        found = self._linear(self._apart(model)).value
        return self._deviation(MIXED + model, found) if model else 0.0

    def _spread(self, model: int) -> Spread:
        """The variances over records. For other models they follow from the first model and the differences, by the triangle inequality."""
        error, variance = self._error(0), self._variance
        apart, ratio = self._apart_deviation(model), self.ratio(model)
        squares = self._deviation(SQUARES, variance.value)
        return Spread(
            error=(self._deviation(ERRORS, error.value) + apart) ** 2,
            variance=squares**2,
            mixed=(self._deviation(MIXED, 0.0) + apart + abs(ratio - self.ratio(0)) * squares) ** 2,
            ratio=ratio,
        )

    def error(self, model: int, domain: Domain, epsilon: Fraction) -> HeldOutError:
        """Return all figures of one model, in the unit of the labels."""
        width = domain.upper - domain.lower
        spread, n, square = self._spread(model), self._size, width**2
        error, variance = self._error(model), self._variance
        absolute = self._linear({ABSOLUTE + model: 1.0})
        bias = self._linear({MEAN: -1.0}, self._prediction(model) - MIDDLE)
        most = max(0.0, error.value) + math.sqrt(
            error.covariance(error)
        )  # of the mean of (y − f)², from which the variances follow

        def varied(found: Linear) -> float:
            least = max(0.0, abs(found.value) - math.sqrt(found.covariance(found)))
            return max(0.0, most - least**2) / n

        return HeldOutError(
            mse=figure(error, spread.error / n, least=0.0).times(square),
            r2=ratio_figure(error, variance, spread, n),
            gain=figure(variance.less(error), spread.gain / n).times(square),
            mae=figure(absolute, varied(absolute), least=0.0).times(width),
            bias=figure(bias, varied(bias)).times(width),
            mse_of_mean=figure(variance, spread.variance / n, least=0.0).times(square),
            records=self.records,
            epsilon_exact=epsilon,
        )

    def difference(self, model: int, other: int, width: float, risk: float) -> HeldOutFigure:
        """Return how much larger the squared error of one model is than that of another."""
        factors = self._apart(model) | dict.fromkeys(self._apart(other), -1.0)
        deviation = self._apart_deviation(model) + self._apart_deviation(other)
        return figure(self._linear(factors), deviation**2 / self._size, risk=risk).times(width**2)


def _error_line(count: int, off: float) -> Floats:
    """The factors of the means in that of (y − f)².

    With c = f − mean f it is (y − ½)² − 2c·(y − ½) − 2·(mean f − ½)·(y − ½) + (f − ½)², and `off` is mean f − ½.
    """
    line = np.zeros(count)
    line[[SQUARE, CROSS, MEAN]] = 1.0, -1.0, -2 * off
    return line


class SummedLabels(Protocol):
    """Labels from 0 to 1 that are elsewhere, on a cluster."""

    def exact(self, questions: Questions, f: Floats, rows: Rows) -> NDArray[np.int64]:
        """Return the exact sums of questions about these rows and their predictions, with a row for each model."""


class Questions(Protocol):
    """The questions about labels. They contain nothing about single records, so that workers can have them."""

    @property
    def ends(self) -> Floats:
        """The bounds of the numbers that are summed, by group and question."""

    def exact(self, y: Floats, f: Floats, rows: Rows) -> NDArray[np.int64]:
        """Return the exact sums for some of the records."""


def _exact(labels: Floats | SummedLabels, questions: Questions, f: Floats, rows: Rows) -> NDArray[np.int64]:
    if isinstance(labels, np.ndarray):
        return questions.exact(labels[rows.used], f, rows)
    return labels.exact(questions, f, rows)


def _extremes(at_bounds: Sequence[Floats], codes: Codes, groups: int) -> Floats:
    """The least and the largest value in each group of numbers, given for the labels 0 and 1 or within any of their ends."""
    least, most = (np.full((groups, len(at_bounds)), sign * math.inf) for sign in (1, -1))
    for question, numbers in enumerate(at_bounds):
        np.minimum.at(least[:, question], codes, numbers.min(axis=0))
        np.maximum.at(most[:, question], codes, numbers.max(axis=0))
    return np.stack([least, most], axis=2)


def _apart(label: Floats, f: Floats) -> list[Floats]:
    """The squared errors of other models, minus the first model's."""
    return [np.square(label - one) - np.square(label - f[0]) for one in f[1:]]


@dataclass(frozen=True, eq=False)
class _Questions:
    """The first questions.

    Attributes
    ----------
    means : array of float64
        The mean prediction of the first model in each group.
    ends : array of float64 of shape (groups, questions, 2)
        The bounds of the numbers that are summed.
    body : Body
        The shape of their noise.
    """

    means: Floats
    ends: Floats = field(default_factory=lambda: np.empty(0))
    body: Body | None = None

    @classmethod
    def of(cls, f: Floats, rows: Rows, means: Floats) -> _Questions:
        made = cls(means[:, 0])
        ends = _extremes(made.numbers(ENDS, f, rows.codes), rows.codes, len(means))
        ends[:, [SQUARE, *range(ABSOLUTE, ABSOLUTE + len(f))], 0] = 0.0
        made = replace(made, ends=ends)
        widths = np.zeros((len(means), len(COMBINATIONS)))
        for side, (least, most) in enumerate(made.ranges(f, rows.codes)):
            np.maximum.at(widths[:, side], rows.codes, most - least)
        weights = np.full(len(means), UNITS)
        np.minimum.at(weights, rows.groups, rows.weights)
        return replace(made, body=Body.of(COMBINATIONS, widths, weights))

    def centred(self, f: Floats, codes: Codes) -> Floats:
        found: Floats = f[0] - self.means[codes]
        found[abs(found) < 1e-9] = 0.0
        return found

    def numbers(self, label: Floats, f: Floats, codes: Codes) -> list[Floats]:
        """The numbers of each record for a label."""
        above = label - MIDDLE + 0 * f[0]
        absolute = [abs(label - one) for one in f]
        return [above, np.square(above), 2 * self.centred(f, codes) * above, *absolute, *_apart(label, f)]

    def ranges(self, f: Floats, codes: Codes) -> Iterator[tuple[Floats, Floats]]:
        """Yield for each of `COMBINATIONS` the least and the largest value for any label from 0 to 1, in shares of a weight.

        It is A·(y − ½)² + B·(y − ½) + C·|y − f|. Its extremes lie at the ends, at f, or at the vertices of the two parabolas.
        """
        low, high = (self.ends[:, : ABSOLUTE + 1, end] for end in (0, 1))
        factor = np.where(high > low, 1 / np.where(high > low, high - low, 1.0), 0.0)
        centred = self.centred(f, codes)
        for combination in COMBINATIONS:
            scaled = combination * factor
            mean, square, cross, absolute = scaled[codes].T
            slope = mean + 2 * cross * centred
            twice = np.where(square == 0, 1.0, 2 * square)
            vertices = (MIDDLE - (slope - sign * absolute) / twice for sign in (1, -1))
            found = []
            for y in (0.0, 1.0, *(np.clip(one, 0, 1) for one in (f[0], *vertices))):
                above = y - MIDDLE
                found.append((square * above + slope) * above + absolute * abs(y - f[0]))
            offset = (scaled * low).sum(axis=1)[codes]
            yield np.minimum.reduce(found) - offset, np.maximum.reduce(found) - offset

    def exact(self, y: Floats, f: Floats, rows: Rows) -> NDArray[np.int64]:
        """Return the exact sums."""
        assert self.body is not None, "made by `of`"
        asked, public = ([rows.means(one) for one in self.numbers(label, f, rows.codes)] for label in (y, np.zeros(1)))
        least = np.stack([rows.means(one) for one, _ in self.ranges(f, rows.codes)])
        return exact_numbers(asked, self.ends, rows, Changes(self.body, least, public[: ABSOLUTE + 1]))


@dataclass(frozen=True, eq=False)
class _Squares:
    """The questions about squares, of numbers around the noisy answers to the first questions: the ratio and the labels' mean of each group."""

    noisy: Floats
    ends: Floats

    @classmethod
    def of(cls, f: Floats, rows: Rows, noisy: Floats) -> _Squares:
        made = cls(noisy, np.empty(0))
        at_bounds = made.deviations(ENDS, f, rows.codes)
        at_bounds[MIXED] = np.maximum(at_bounds[ERRORS], noisy[rows.codes, 0] * at_bounds[SQUARES])
        ends = _extremes([np.square(one) for one in at_bounds], rows.codes, len(noisy))
        ends[..., 0] = 0.0
        return replace(made, ends=ends)

    def deviations(self, label: Floats, f: Floats, codes: Codes) -> list[Floats]:
        """The numbers that are squared."""
        ratio, mean = self.noisy[codes].T
        error, square = np.square(label - f[0]), np.square(label - mean)
        return [error, square, error - ratio * square, *_apart(label, f)]

    def exact(self, y: Floats, f: Floats, rows: Rows) -> NDArray[np.int64]:
        """Return the exact sums. The numbers of a person are averaged first, because they vary together."""
        squares = [np.square(rows.means(one)) for one in self.deviations(y, f, rows.codes)]
        return exact_numbers(squares, self.ends, rows)
