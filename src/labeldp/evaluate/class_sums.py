"""Noisy sums about public probabilities of classes, by group, and what follows from them: log loss, Brier score, AUC and calibration.

Once probabilities p are public, log loss, Brier score and the gain over answering the mean probabilities are means of numbers that depend on one label
each. So is AUC, but for a ratio: with c the rank of a record's probability among all records, from −½ to ½, and π the rate of the class,
AUC = ½ + mean(c·1[class]) / (π·(1 − π)). These numbers are asked about the middle between what the labels make of them, and share one cube of
noise. A part of ε counts the class in bins of its probability: for two classes a label is in one count or in none (sensitivity 1), for
more it is in one count of its class (sensitivity 2). Another part goes into sums of squares, which tell how much the figures vary
from sample to sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.evaluate.held_out_sums import NOISE, SAMPLING, HeldOutFigure, Linear, ModelError, fieller, figure
from labeldp.release.grid_labels import SumsBudget, noise_scale
from labeldp.release.group_sums import (
    KINDS,
    UNITS,
    Codes,
    GroupSums,
    Rows,
    check_numbers,
    draw_histograms,
    draw_numbers,
)

LEAST = 1e-4
"""Probabilities are moved to at least this, and at most one minus this, because log loss would be unbounded."""
SUM_TO_ONE = 1e-3
"""Probabilities of all classes add up to 1 within this, as 32-bit floats and rounded numbers do."""
BINS = 10
"""The most bins of the probability of a class: its deciles."""
SPREAD_SHARE, BINS_SHARE = Fraction(1, 10), Fraction(3, 10)
"""The shares of ε for sums of squares and for bins."""
GAIN, BRIER, CLASSES = range(3)
"""The places of the questions about the first model; AUC and rate of each class follow, then the differences and AUC of every other model."""
LOSSES, GAINS, BRIERS, APART = range(4)
"""The indices of the sums of squares; the sums for differences follow."""


@dataclass(frozen=True)
class CalibrationBin:
    """The records with nearly the same probability of a class, and how many are of it.

    Attributes
    ----------
    of : str
        The class.
    records : int
        The number of records.
    predicted : float
        Their mean probability.
    share : HeldOutFigure
        The share of them that is of the class.

    Examples
    --------
    >>> from labeldp.evaluate import CalibrationBin
    >>> from labeldp.evaluate.held_out_sums import HeldOutFigure
    >>> CalibrationBin("yes", 1000, 0.12, HeldOutFigure(0.13, 0.01, 0.11, 0.15)).share.value
    0.13
    """

    of: str
    records: int
    predicted: float
    share: HeldOutFigure


@dataclass(frozen=True, repr=False)
class ClassError(ModelError):
    """How good probabilities of classes are, from noisy sums of the true classes. Contains no label.

    Attributes
    ----------
    log_loss : HeldOutFigure
        The mean of −log(probability of the true class).
    gain : HeldOutFigure
        How much larger the log loss of always answering the mean probabilities is.
    brier : HeldOutFigure
        The Brier score: the mean square of 1 − probability; for more than two classes, added up over the classes.
    auc : dict of str to HeldOutFigure
        For each class (of two, the second), the area under the ROC curve: how often a record of the class has a higher probability than another.
    rate : dict of str to HeldOutFigure
        For each class (of two, the second), the share of records that are of it.
    calibration : tuple of CalibrationBin
        For each class (of two, the second), the share of it where its probability is low, higher, and so on.
    records : int
        The number of records.
    epsilon_exact : Fraction
        What all figures cost together.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import Domain, LabelSource, score
    >>> rate = np.random.default_rng(0).random(20_000)
    >>> bought = np.where(np.random.default_rng(1).random(20_000) < rate, "yes", "no")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"visit": range(20_000), "bought": bought}), f"{folder}/labels.parquet")
    ...     pq.write_table(pa.table({"visit": range(20_000), "rate": rate}), f"{folder}/rates.parquet")
    ...     labels = LabelSource(f"{folder}/labels.parquet", "bought", "visit")
    ...     classes = Domain.of_classes(["no", "yes"])
    ...     found = score(labels, f"{folder}/rates.parquet", f"{folder}/score", 1, classes).score.overall["rate"]
    >>> bool(found.gain.lower > 0), bool(found.auc["yes"].lower > 0.8), len(found.calibration)
    (True, True, 10)
    """

    log_loss: HeldOutFigure
    gain: HeldOutFigure
    brier: HeldOutFigure
    auc: dict[str, HeldOutFigure]
    rate: dict[str, HeldOutFigure]
    calibration: tuple[CalibrationBin, ...]
    records: int
    epsilon_exact: Fraction

    @property
    def figures(self) -> dict[str, HeldOutFigure]:
        """All figures but the calibration, by name."""
        found = {"log_loss": self.log_loss, "gain": self.gain, "brier": self.brier}
        found |= {f"auc of {name}" if len(self.auc) > 1 else "auc": one for name, one in self.auc.items()}
        return found | {f"rate of {name}": one for name, one in self.rate.items()}


def checked_rates(rates: Floats, place: str, advice: str) -> tuple[Floats, int]:
    """Return probabilities of shape (models, records, classes) away from 0 and 1, and how many records had to be moved.

    Raise `InvalidInput` if they are not probabilities; `place` and `advice` are words of the error.
    """
    off = (rates < 0) | (rates > 1)
    if off.any() or (abs(rates.sum(axis=2) - 1) > SUM_TO_ONE).any():
        raise InvalidInput(
            f"the predictions {place} are not probabilities: they must lie from 0 to 1, and those of all classes must add up to 1. Nothing was "
            f"charged: {advice}"
        )
    moved = int(np.count_nonzero(((rates < LEAST) | (rates > 1 - LEAST)).any(axis=2)))
    inside = np.clip(rates, LEAST, 1 - LEAST)
    return inside / inside.sum(axis=2, keepdims=True), moved


def modelled(classes: int) -> list[int]:
    """Return the classes that have a rate, an AUC and bins: the second of two, or all."""
    return [1] if classes == 2 else list(range(classes))


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Noisy sums about probabilities and what is public about these, from which all figures follow. Contains no label.

    Attributes
    ----------
    first, spread : GroupSums
        The sums, and the sums of squares.
    bins : tuple of GroupSums
        For each model the numbers of labels of a class in bins of its probability, one class after the other.
    means : array of float64 of shape (groups, models, classes)
        The mean probabilities.
    middles : array of float64 of shape (groups, questions)
        What was subtracted from each number, on average.
    cells : array of float64 of shape (groups, models, cells, 4)
        For each bin its class, the number of records, that of persons to which their weight is equal, and their mean probability. Models with fewer bins have −1 for the class of the rest.
    """

    first: GroupSums
    spread: GroupSums
    bins: tuple[GroupSums, ...]
    means: Floats
    middles: Floats
    cells: Floats

    def __post_init__(self) -> None:
        groups = len(self.first.counts)
        if self.means.ndim != 3 or self.means.shape[2] < 2 or self.first.counts.min() < 2:
            raise _damaged()
        models, classes = self.means.shape[1:]
        shapes = ((self.first, _count(models, classes)), (self.spread, APART + 2 * (models - 1)))
        kind = "hits" if classes == 2 else "histograms"
        fits = all(one.values.shape == (groups, size) and one.kind == "numbers" for one, size in shapes)
        fits &= len(self.bins) == models and all(one.kind == kind and len(one.counts) == groups for one in self.bins)
        fits &= len(self.means) == groups and self.middles.shape == self.first.values.shape
        fits &= self.cells.ndim == 4 and self.cells.shape[:2] == (groups, models) and self.cells.shape[3] == 4
        if not fits or self.means.min() <= 0:
            raise _damaged()
        for one, facts in zip(self.bins, self.cells.transpose(1, 0, 2, 3), strict=True):
            real = facts[:, : one.values.shape[1]]
            known = np.isin(real[..., 0], modelled(classes)).all() and real.min() >= 0
            if real.shape[1] != one.values.shape[1] or not known:
                raise _damaged()

    @classmethod
    def ask(
        cls,
        budget: SumsBudget,
        epsilon: Fraction,
        labels: Floats,
        rates: Floats,
        codes: Codes,
        persons: Codes | None = None,
    ) -> ClassSums:
        """Draw the sums.

        Parameters
        ----------
        budget : SumsBudget
            What pays.
        epsilon : Fraction
            What all sums together may cost.
        labels : array of float64
            The position of each record's class.
        rates : array of float64 of shape (models, records, classes)
            The probabilities.
        codes : array of int64
            The group of each record, from 0. −1 leaves a record out.
        persons : array of int64, optional
            The number of each record's person, if a person is the unit of privacy.
        """
        rows = Rows.of(codes, persons)
        y, p, every = labels[rows.used].astype(np.int64), rates[:, rows.used], np.arange(rows.used.size)
        means = np.stack([[rows.group_means(one) for one in model.T] for model in p]).transpose(2, 0, 1)

        def most(numbers: Floats) -> Floats:
            found = np.zeros(len(means))
            np.maximum.at(found, rows.codes, numbers)
            return found

        numbers, ends, middles = [], [], []
        for at in _questions(p, means, rows):
            middle, reach = (at.max(axis=0) + at.min(axis=0)) / 2, most(np.ptp(at, axis=0) / 2)
            numbers.append(rows.means(at[y, every] - middle))
            ends.append(np.column_stack([-reach, reach]))
            middles.append(rows.group_means(middle))
        rest = 1 - SPREAD_SHARE - BINS_SHARE
        first = draw_numbers(budget, numbers, np.stack(ends, axis=1), rows, epsilon * rest)
        numbers, ends = [], []
        for at in _deviations(p, means, rows.codes):
            numbers.append(np.square(rows.means(at[y, every])))  # of persons, whose rows vary together
            ends.append(np.column_stack([np.zeros(len(means)), most(np.square(at).max(axis=0))]))
        spread = draw_numbers(budget, numbers, np.stack(ends, axis=1), rows, epsilon * SPREAD_SHARE)
        bins, cells = [], []
        for model in p:
            places, edges, facts = _bins(model, rows, len(means))
            own = np.choose(y, places)
            kind = "hits" if model.shape[1] == 2 else "histograms"
            share = epsilon * BINS_SHARE / len(p)
            bins.append(draw_histograms(budget, own, edges, rows, share, kind))
            cells.append(facts)
        size = max(one.shape[1] for one in cells)
        padded = [np.pad(one, ((0, 0), (0, size - one.shape[1]), (0, 0)), constant_values=-1.0) for one in cells]
        return cls(first, spread, tuple(bins), means, np.column_stack(middles), np.stack(padded, axis=1))

    @staticmethod
    def check(models: int, classes: int, records: int, epsilon: Fraction) -> None:
        """Raise `InvalidInput`, before the charge, for sums whose noise might leave 64 bits."""
        check_numbers(_count(models, classes), records, epsilon * (1 - SPREAD_SHARE - BINS_SHARE))
        check_numbers(APART + 2 * (models - 1), records, epsilon * SPREAD_SHARE)
        noise_scale(KINDS["histograms"], epsilon * BINS_SHARE / models)

    @property
    def models(self) -> int:
        """The number of models."""
        return int(self.means.shape[1])

    @property
    def parts(self) -> tuple[GroupSums, ...]:
        """All sums that cost something."""
        return self.first, self.spread, *self.bins

    def group(self, group: int) -> ClassFigures:
        """Return the figures of one group."""
        return ClassFigures(self, group)


def _damaged() -> InvalidInput:
    return InvalidInput("the sums of a score of classes do not answer its questions")


def _count(models: int, classes: int) -> int:
    """The number of questions."""
    return CLASSES + 2 * len(modelled(classes)) + (models - 1) * (2 + len(modelled(classes)))


def _questions(p: Floats, means: Floats, rows: Rows) -> Iterator[Floats]:
    """Yield for each question the numbers that each class (row) would make of each record."""
    classes = p.shape[2]
    yield np.log(p[0] / means[rows.codes, 0]).T
    first = _brier(p[0])
    yield first
    ranked = [_indicator(k, classes) * _ranks(p[0][:, k], rows) for k in modelled(classes)]
    yield from ranked
    for k in modelled(classes):
        yield np.broadcast_to(_indicator(k, classes), first.shape)
    for model in p[1:]:
        yield np.log(p[0] / model).T
        yield _brier(model) - first
        for k in modelled(classes):
            yield _indicator(k, classes) * _ranks(model[:, k], rows)


def _deviations(p: Floats, means: Floats, codes: Codes) -> Iterator[Floats]:
    """Yield the numbers whose squares are asked for."""
    yield -np.log(p[0]).T
    yield np.log(p[0] / means[codes, 0]).T
    yield _brier(p[0])
    for model in p[1:]:
        yield np.log(p[0] / model).T
        yield _brier(model) - _brier(p[0])


def _indicator(k: int, classes: int) -> Floats:
    return np.eye(classes)[:, [k]]


def _brier(p: Floats) -> Floats:
    return np.asarray((np.square(p).sum(axis=1) - 2 * p.T + 1) / (2 if p.shape[1] == 2 else 1))


def _ranks(p: Floats, rows: Rows) -> Floats:
    """The weighted rank of each record within its group, from −½ to ½. Equal probabilities have equal ranks."""
    found, shares = np.empty(p.size), rows.shares
    order = np.argsort(rows.codes, kind="stable")
    for part in np.split(order, np.cumsum(np.bincount(rows.codes))[:-1]):
        _, place = np.unique(p[part], return_inverse=True)
        own = np.bincount(place, shares[part]) / shares[part].sum()
        found[part] = (np.cumsum(own) - own / 2)[place] - 0.5
    return found


def _bins(p: Floats, rows: Rows, groups: int) -> tuple[list[NDArray[np.int64]], Floats, Floats]:
    """For each class the bin that a record of it is counted in (−1 for none), the ends of all bins, and what is public about them."""
    places, edges, facts = [np.full(len(p), -1, np.int64) for _ in p.T], [], []
    offset = 0
    for k in modelled(p.shape[1]):
        own = np.ascontiguousarray(p[:, k])
        cuts = np.unique(np.quantile(own, np.arange(1, BINS) / BINS, method="inverted_cdf"))
        cuts = cuts[cuts < own.max()]
        bins = np.searchsorted(cuts, own)
        size = cuts.size + 1
        ends = np.array([[own[bins == one].min(), own[bins == one].max()] for one in range(size)])
        flat = rows.codes * size + bins
        records, sizes, total = (
            np.bincount(flat, one, minlength=groups * size) for one in (None, rows.shares, rows.shares * own)
        )
        mean = np.divide(total, sizes, out=np.zeros(total.size), where=sizes > 0)
        facts.append(np.column_stack([np.full(total.size, k), records, sizes, mean]).reshape(groups, size, 4))
        edges.append(ends)
        places[k] = bins + offset
        offset += size
    return places, np.concatenate(edges), np.concatenate(facts, axis=1)


@dataclass(frozen=True, eq=False)
class ClassFigures:
    """The figures of one group."""

    sums: ClassSums
    place: int

    @cached_property
    def records(self) -> int:
        """The number of records."""
        return int(self.sums.first.counts[self.place])

    @cached_property
    def _size(self) -> float:
        """The number of records, or of persons with their weight in this group: of what varies independently."""
        return float(self.sums.first.sizes[self.place])

    @cached_property
    def _classes(self) -> list[int]:
        return modelled(self.sums.means.shape[2])

    def _linear(self, factors: dict[int, float], constant: float = 0.0) -> Linear:
        first = self.sums.first
        values = first.means[self.place] + self.sums.middles[self.place]
        row = np.zeros(values.size)
        for question, factor in factors.items():
            row[question] += factor
        return Linear(float(row @ values + constant), row, np.diag(first.means_variance[self.place]))

    def _other(self, model: int) -> int:
        """The place of the first question about another model than the first."""
        return CLASSES + 2 * len(self._classes) + (model - 1) * (2 + len(self._classes))

    def _rate(self, number: int) -> int:
        return CLASSES + len(self._classes) + number

    def _apart(self, which: int, model: int, sign: float = 1.0) -> dict[int, float]:
        """How much larger the log loss (or `which` = 1, the Brier score) of another model than the first is; nothing for that."""
        return {self._other(model) + which: sign} if model else {}

    def _constant(self, model: int) -> tuple[dict[int, float], float]:
        """The log loss of always answering the mean probabilities, as factors of the rates and a constant."""
        logs = np.log(self.sums.means[self.place, model])
        if logs.size == 2:
            return {self._rate(0): float(logs[0] - logs[1])}, -float(logs[0])
        return {self._rate(number): -float(log) for number, log in enumerate(logs)}, 0.0

    def _log_loss(self, model: int) -> Linear:
        factors, constant = self._constant(0)
        return self._linear(factors | {GAIN: -1.0} | self._apart(0, model), constant)

    def _gain(self, model: int) -> Linear:
        (first, constant), (other, moved) = self._constant(0), self._constant(model)
        factors = {rate: other[rate] - factor for rate, factor in first.items()}
        return self._linear(factors | {GAIN: 1.0} | self._apart(0, model, -1.0), moved - constant)

    def _deviation(self, place: int, mean: float) -> float:
        """The standard deviation over records or persons: too large rather than too small by the noise, and never impossible."""
        spread = self.sums.spread
        square, noise = spread.means[self.place, place], spread.means_variance[self.place, place]
        return math.sqrt(float(np.clip(square - mean * mean, 0, spread.ends[self.place, place, 1])) + math.sqrt(noise))

    def _apart_deviation(self, which: int, model: int) -> float:
        mean = self._linear(self._apart(which, model)).value
        return self._deviation(APART + 2 * (model - 1) + which, mean) if model else 0.0

    def error(self, model: int, domain: Domain, epsilon: Fraction) -> ClassError:
        """Return all figures of one model."""
        names = domain.classes or ()
        apart = self._apart_deviation(0, model)
        loss, gain = self._log_loss(model), self._gain(model)
        brier = self._linear({BRIER: 1.0} | self._apart(1, model))
        moved = np.ptp(np.log(self.sums.means[self.place, model] / self.sums.means[self.place, 0])) / 2
        deviations = (
            self._deviation(LOSSES, self._log_loss(0).value) + apart,
            self._deviation(GAINS, self._gain(0).value) + apart + float(moved),
            self._deviation(BRIERS, self._linear({BRIER: 1.0}).value) + self._apart_deviation(1, model),
        )
        lost, gained, squared = (one**2 / self._size for one in deviations)
        return ClassError(
            log_loss=figure(loss, lost, least=0.0),
            gain=figure(gain, gained),
            brier=figure(brier, squared, least=0.0),
            auc={names[k]: self._auc(model, number) for number, k in enumerate(self._classes)},
            rate={names[k]: self._rate_figure(number) for number, k in enumerate(self._classes)},
            calibration=tuple(self._calibration(model, names)),
            records=self.records,
            epsilon_exact=epsilon,
        )

    def difference(self, model: int, other: int, width: float, risk: float) -> HeldOutFigure:  # noqa: ARG002 - as for numbers
        """Return how much larger the log loss of one model is than that of another."""
        factors = self._apart(0, model) | self._apart(0, other, -1.0)
        deviation = self._apart_deviation(0, model) + self._apart_deviation(0, other)
        return figure(self._linear(factors), deviation**2 / self._size, risk=risk)

    def _rate_figure(self, number: int) -> HeldOutFigure:
        return share_figure(self._linear({self._rate(number): 1.0}), self._size)

    def _auc(self, model: int, number: int) -> HeldOutFigure:
        rate = self._linear({self._rate(number): 1.0})
        question = CLASSES + number if not model else self._other(model) + 2 + number
        ranked, noise = self._linear({question: 1.0}), rate.covariance(rate)
        spread = rate.value * (1 - rate.value) + noise  # the square of a noisy rate is too large by its variance
        if spread <= 0:
            return HeldOutFigure(math.nan, math.nan, 0.0, 1.0)
        value = float(np.clip(0.5 + ranked.value / spread, 0, 1))
        sampling = self._auc_variance(model, self._classes[number], value, rate.value)
        noisy = (1 - 2 * rate.value) ** 2 * noise + 5 * noise**2
        wide = NOISE**2 * ranked.covariance(ranked) + SAMPLING**2 * sampling * spread**2
        low, high = fieller(ranked.value, spread, wide, 0.0, NOISE**2 * noisy)
        error = math.sqrt(sampling + (ranked.covariance(ranked) + (value - 0.5) ** 2 * noisy) / spread**2)
        lower, upper = max(0.0, 0.5 + low), min(1.0, 0.5 + high)
        return HeldOutFigure(min(max(value, lower), upper), error, lower, max(lower, upper))

    def _auc_variance(self, model: int, of: int, area: float, rate: float) -> float:
        """The variance by sampling after DeLong, from the bins, and at most that of any scores with this area.

        What a person moves is the mean of what the rows move, so that the variance over rows is at least that over persons.
        """
        rows = [one for one in self._bin_rows(model) if one[0] == of]
        sizes, counts = np.array([one[2] for one in rows]), np.array([one[4] for one in rows])
        hits = np.clip(counts, 0, sizes)
        most, least = max(area * (1 - area), 1e-9), 1 / self.records
        positive = min(max(rate, least), 1 - least)
        parts = []
        for mine, others, turned in ((hits, sizes - hits, False), (sizes - hits, hits, True)):
            if not mine.sum() or not others.sum():
                parts.append(most)
                continue
            weight, share = mine / mine.sum(), others / others.sum()
            below = np.cumsum(share) - share / 2
            below = 1 - below if turned else below
            parts.append(min(most, float(weight @ (np.square(below - weight @ below) + np.square(share) / 12))))
        return (parts[0] / positive + parts[1] / (1 - positive)) / self._size

    def _bin_rows(self, model: int) -> Iterator[tuple[int, int, float, float, float]]:
        """The class, the number of records, that of persons to which they are equal, their mean probability, and the noisy size of the class, of each bin."""
        values = self.sums.bins[model].values[self.place] / UNITS
        for (of, records, size, mean), value in zip(
            self.sums.cells[self.place, model].tolist(), values.tolist(), strict=False
        ):
            yield int(of), int(records), size, mean, value

    def _calibration(self, model: int, names: Sequence[str]) -> Iterator[CalibrationBin]:
        noise = self.sums.bins[model].variance / UNITS**2
        for of, records, size, mean, value in self._bin_rows(model):
            if size > 0:
                found = Linear(value / size, np.ones(1), np.array([[noise / (size * size)]]))
                yield CalibrationBin(names[of], records, mean, share_figure(found, size))


def share_figure(found: Linear, size: float) -> HeldOutFigure:
    """Return the share of a class. Its sampling variance is that of a share slightly nearer to one half."""
    share = (np.clip(found.value, 0, 1) * size + 2) / (size + 4)
    one = figure(found, float(share * (1 - share)) / size, least=0.0)
    lower, upper = min(1.0, one.lower), min(1.0, one.upper)
    return HeldOutFigure(min(one.value, upper), one.standard_error, lower, upper)
