"""The predicted test error of a model, from public numbers only: the only such prediction in labeldp.

`advise`, `compare`, `explore`, `privatize --dry-run` and the choice between labels and sums all use it.

A model trained on n values t of the label y predicts E[t | x], with its own error. Three numbers determine its test
error: the variance of t that the features x explain (the signal A), the covariance of E[t | x] and E[y | x] (C), and
the variance V of t around E[t | x]. Measured errors of the default learner follow

    N = 1.2·A·(V / (n·A))^0.42

from 100 to 400,000 records, with noise and without. That is 20 to 30 degrees of freedom on very noisy values and more
than 1,000 on 400,000 good ones. Exponent and factor were fitted to Criteo-like data (docs/guides/choose-epsilon.md has
the check). A learner of noisy values shrinks its predictions by k = A / (A + N), so very noisy values lead to
predicting the mean and not to wild predictions:

    test error = floor + (signal of y − 2·k·C + k²·A) + k²·N        (plus the errors of the mean)

The bracket is bias, which more records do not reduce. The last term is noise, which they do reduce. `auto` designs its
mechanism for a convex simplification of this (`labeldp.mechanisms.auto`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import MIN_EPSILON, Epsilon, exact_epsilon
from labeldp.design.visibility import copula_factor, visible_bias_factor, visible_bias_matrix
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, LabelDPError, described
from labeldp.mechanisms.bias_variance import VISIBLE, BiasVariance, weight_of_variance
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import DESIGN_CELLS, MOST_LABELS, gridded, merged_prior
from labeldp.mechanisms.mechanism import Mechanism
from labeldp.mechanisms.randomized_response import RROnBins
from labeldp.priors import Prior

EXPLAINED = 0.5
"""The share of the labels' variance that features are assumed to explain, unless the user knows better."""
MOST_FOR_PRIOR = Fraction(1, 10)
"""The limit of what `auto` spends on its prior, unless records are few."""

LEAST_GAIN = 0.002
"""The share of the predicted error that one more entry of each person must save."""
FACTOR, POWER = 1.2, 0.42
"""Constants of the curve N."""
STEPS = 30
"""Bisection steps for the correlation of features and labels."""
PREDICTION_LABELS = 101
"""The number of labels that predictions distinguish: they change by a tenth of a percent, and designs take milliseconds."""
ANCHORS = 21
"""The number of anchors of a design that is only used for a prediction and never released."""
DESIGNS = 512
"""The number of cached designs."""

SUMS_FACTOR, SUMS_POWER = 0.0011, 0.75
"""The error that the noise of sums adds, in squares of the clipped range: 0.0011·(10,000 / (n·ε))^0.75, fitted to measured errors."""
SUMS_ASTRAY = 1300
"""Where n·ε is small, noise also misleads the clip, the mean and the choice of columns: 1,300/(n·ε)² in squares of the range."""
LIKELY_EXCESS, LIKELY_FLOOR = (0.6, 2.5), (0.9, 1.1)
"""Measured error due to privacy, as multiples of the prediction, and the remaining error, as multiples of the best
model's error. Nine of ten of 152 measurements on eight real data sets were within these ranges (`python
benchmarks/real_data.py --methods labels sums`)."""
MISFIT = 0.013
"""The share of the features' signal that effects of columns and of pairs cannot express, on the measured data."""


@dataclass(frozen=True)
class Prediction:
    """A predicted squared test error.

    Attributes
    ----------
    mse : float
        The mean squared error.
    spread : float
        The variance of the labels, the squared error of predicting their mean.
    bias, noise : float
        The parts of `mse` that the model's bias and its noise add. More records reduce only the second.

    Examples
    --------
    >>> from labeldp.mechanisms import Prediction
    >>> prediction = Prediction(mse=2500, spread=10_000)
    >>> prediction.rmse, prediction.r2
    (50.0, 0.75)
    """

    mse: float
    spread: float
    bias: float = 0.0
    noise: float = 0.0

    @property
    def rmse(self) -> float:
        """The root of the squared error, in the unit of the labels."""
        return math.sqrt(self.mse)

    @property
    def r2(self) -> float:
        """The share of the labels' variance that the model explains; below 0 it is worse than predicting the mean."""
        return 1 - self.mse / self.spread

    @property
    def floor(self) -> float:
        """The part of `mse` that the best model of the features would also have."""
        return self.mse - self.bias - self.noise

    @property
    def likely_r2(self) -> tuple[float, float]:
        """The range that contained the R² of nine of ten models on real data with known `explained`. A guess adds uncertainty."""
        lower, upper = (
            part * self.floor + times * (self.mse - self.floor)
            for part, times in zip(LIKELY_FLOOR, LIKELY_EXCESS, strict=True)
        )
        worst = max(self.mse, self.spread)  # models fall back to predicting the mean
        return 1 - min(upper, worst) / self.spread, 1 - lower / self.spread


class ModelErrors:
    """Predicted test errors for one distribution of the labels and features that explain a share of their variance.

    How features depend on the label is modelled as in a design (`visible_bias_matrix`): a Gaussian copula, whose correlation is set so
    that features explain exactly this share.

    Parameters
    ----------
    prior : Prior or None
        The distribution of the labels; None for the uniform one on the domain.
    explained : float
        The share of the labels' variance that features explain, from 0 to 1.
    domain : Domain, optional
        The public bounds. By default the range of the prior.
    public : bool
        Whether the distribution is public, so that a release spends nothing on a private prior.

    Attributes
    ----------
    fine, prior : Prior
        The distribution, and a coarser one that designs use.
    """

    def __init__(
        self, prior: Prior | None, explained: float = EXPLAINED, *, domain: Domain | None = None, public: bool = False
    ) -> None:
        if prior is None:
            assert domain is not None
            frame = gridded(domain)
            prior = Prior.uniform(frame if frame.count <= DESIGN_CELLS else frame.with_cells(DESIGN_CELLS))
        self.explained, self.public = explained, public
        self.domain = domain if domain is not None else Domain(float(prior.values[0]), float(prior.values[-1]))
        self.fine, _ = merged_prior(prior, MOST_LABELS)
        self.prior, self._groups = merged_prior(self.fine, PREDICTION_LABELS)
        self._joint = features_joint(self.prior, explained)
        below = np.cumsum(self.prior.masses)
        low, high = np.interp([0.005, 0.995], below, self.prior.values)  # sums are clipped where labels become rare
        self._clipped = max(float(high - low), math.sqrt(self.prior.variance))

    def mean_only(self) -> Prediction:
        """Predict the error of always predicting the mean of the labels."""
        return Prediction(self.prior.variance, self.prior.variance, bias=self._signal)

    def not_private(self, records: int) -> Prediction:
        """Predict the error of a model trained on true labels."""
        noise = error_of_model(self._signal, self._floor, records)
        return self._prediction(self._signal, self._signal, noise, self.prior.variance / records)

    def of(self, mechanism: Mechanism, records: int, values: Floats | None = None) -> Prediction:
        """Predict the error of a model trained on the private labels of a mechanism.

        By default it trains on the mechanism's training values, `code_values(mechanism)`; `values` gives other numbers
        for its codes.
        """
        labels, masses = self.fine.values, self.fine.masses
        if isinstance(mechanism, FiniteMechanism):
            means, variances = mechanism.conditional_moments(
                labels, code_values(mechanism) if values is None else values
            )
        else:
            means, variances = mechanism.conditional_moments(labels)
        centre = float(masses @ means)  # squares of large means would cancel
        merged = np.bincount(self._groups, masses * (means - centre)) / self.prior.masses
        squares = np.bincount(self._groups, masses * (variances + np.square(means - centre))) / self.prior.masses
        return self._learned(merged + centre, squares - np.square(merged), records)

    def labels(self, epsilon: Epsilon, records: int) -> Prediction:
        """Predict the error of a model trained on the private labels of `auto`, after a part of ε was spent on the prior."""
        total = exact_epsilon(epsilon)
        left = total if self.public else total - epsilon_for_prior(total)
        halvings = round(-math.log2(weight_of_variance(records)))
        return self._as_sent(_designed(self.prior, max(left, MIN_EPSILON), halvings), records)

    def paper(self, epsilon: Epsilon, records: int) -> Prediction:
        """Predict the error of a model trained on the unmodified outputs of RR-on-Bins, with the paper's split of ε."""
        total = exact_epsilon(epsilon)
        cells = self.domain.resolve(records, float(total)).count
        spent = min(total / 2, Fraction(math.sqrt(cells / records)).limit_denominator(10**6))
        return self._as_sent(_bins(self.prior, max(total if self.public else total - spent, MIN_EPSILON)), records)

    def sums(self, epsilon: Epsilon, records: int) -> Prediction:
        """Predict the error of a model fitted to noisy sums of the labels, by a team that has features and labels."""
        spread, range_squared, budget = self.prior.variance, self._clipped**2, records * float(exact_epsilon(epsilon))
        own = error_of_model(self._signal, self._floor, records)
        noise = SUMS_FACTOR * range_squared * (1e4 / budget) ** SUMS_POWER
        astray = spread / records + SUMS_ASTRAY * range_squared / budget**2
        held = astray / (1 + astray / spread)  # the model ignores sums that are mostly noise
        return self._prediction(self._signal, self._signal, own + noise + MISFIT * self._signal, held)

    @property
    def _signal(self) -> float:
        """The variance that features explain."""
        return self.explained * self.prior.variance

    @property
    def _floor(self) -> float:
        """The squared error of the best possible model."""
        return (1 - self.explained) * self.prior.variance

    def _as_sent(self, mechanism: FiniteMechanism, records: int) -> Prediction:
        """Predict for the outputs of a mechanism that was designed for the merged labels."""
        return self._learned(*mechanism.conditional_moments(self.prior.values), records)

    def _learned(self, means: Floats, variances: Floats, records: int) -> Prediction:
        """Predict for values with these means and variances at each of the merged labels."""
        masses, centred = self.prior.masses, self.prior.values - self.prior.mean
        means = means - self.prior.mean
        shift = float(masses @ means)
        means = means - shift  # J gives variances of variables with mean zero
        signal, shared = float(means @ self._joint @ means), float(means @ self._joint @ centred)
        whole = float(masses @ (variances + np.square(means)))
        noise = error_of_model(signal, whole - signal, records)
        return self._prediction(signal, shared, noise, whole / records, shift)

    def _prediction(self, signal: float, shared: float, noise: float, of_mean: float, shift: float = 0.0) -> Prediction:
        """Return a prediction from A, C, N, the variance of the mean and the bias of the mean."""
        kept = signal / (signal + noise) if signal > 0 else 0.0
        bias = max(0.0, self._signal - 2 * kept * shared + kept**2 * signal) + shift**2
        added = kept**2 * noise + of_mean
        return Prediction(self._floor + bias + added, self.prior.variance, bias, added)


def entries_per_person(sizes: NDArray[np.int64], epsilon: Fraction, models: ModelErrors) -> tuple[int, int]:
    """Return the number m of entries to randomize per person, and the total number of entries.

    Each entry gets ε/m. The m of least predicted error is returned, or the smaller of two similar ones. The prediction
    ignores that rows of one person resemble each other, so more entries must promise a gain of at least `LEAST_GAIN`.

    Parameters
    ----------
    sizes : array of int64
        The number of persons by their number of entries, as `person_sizes` returns it. It is public.
    epsilon : fractions.Fraction
        The privacy budget of each person.
    models : ModelErrors
        The predictions.

    Returns
    -------
    entries : int
        The maximum number of entries per person.
    records : int
        The number of entries of all persons together.
    """
    numbers = np.arange(sizes.size)
    best, least = 1, math.inf
    for entries in range(1, int(numbers[sizes > 0].max()) + 1):
        if epsilon / entries < MIN_EPSILON:
            break
        error = models.labels(epsilon / entries, int(sizes @ np.minimum(numbers, entries))).mse
        if error < least * (1 - LEAST_GAIN):
            best, least = entries, error
        elif entries > 2 * best:
            break  # the error has one minimum
    return best, int(sizes @ np.minimum(numbers, best))


def check_share(explained: object) -> None:
    """Raise `InvalidInput` unless `explained` is a share from 0 to 1."""
    if isinstance(explained, bool) or not isinstance(explained, (int, float)) or not 0 <= explained <= 1:
        raise InvalidInput(
            f"explained must be a share from 0 to 1, got {described(explained)}: it is the R² of the best model of the features"
        )


def error_of_model(signal: float, noise: float, records: int) -> float:
    """Return N: the error that fitting adds to values with this signal and this variance around it."""
    if signal <= 0 or noise <= 0:
        return 0.0
    return FACTOR * signal * math.pow(noise / (records * signal), POWER)


def epsilon_for_prior(total: Fraction) -> Fraction:
    """Return the cost of the prior of `auto`, unless records are few: ε/25, at most `MOST_FOR_PRIOR`."""
    return min(total / 25, MOST_FOR_PRIOR)


@lru_cache(maxsize=DESIGNS)
def features_joint(prior: Prior, explained: float) -> Floats:
    """Return the matrix J (`visible_bias_matrix`) of features that explain the share `explained` of the labels' variance."""
    masses, centred = prior.masses, prior.values - prior.mean
    constant = np.outer(masses, masses)  # J of uninformative features
    if explained >= 1:
        return np.diag(masses)
    least = _share(masses, centred, 0.0)
    if explained <= least:
        part = explained / least if least > 0 else 0.0
        return part * visible_bias_matrix(masses, 0.0) + (1 - part) * constant
    return visible_bias_matrix(masses, _correlation(masses, centred, explained, visible_bias_factor))


def likely_predictions(prior: Prior, r2: float) -> tuple[Floats, Floats]:
    """Return the predictions of a model that explains the share `r2` of the labels' variance, and their joint distribution with the labels.

    Predictions are E[y | x] for a normal number x whose copula with the label is Gaussian, as in a design. The matrix has a row for each
    prediction and a column for each label of the prior.
    """
    masses, centred = prior.masses, prior.values - prior.mean
    factor = copula_factor(masses, min(_correlation(masses, centred, r2, copula_factor), 1 - 1e-6))
    weight = factor.sum(axis=1)
    return np.asarray(prior.mean + factor @ centred / weight), np.asarray(factor * weight[:, None])


def _correlation(masses: Floats, centred: Floats, explained: float, factor: Callable[[Floats, float], Floats]) -> float:
    """Return the squared correlation at which features explain this share of the labels' variance."""
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _share(masses, centred, middle, factor) < explained else (low, middle)
    return high


def _share(
    masses: Floats, centred: Floats, visible: float, factor: Callable[[Floats, float], Floats] = visible_bias_factor
) -> float:
    """Return the share of the labels' variance that features of this correlation explain; 1 if the variance is zero."""
    spread = float(masses @ np.square(centred))
    if visible >= 1 or spread <= 0:
        return 1.0
    return float(np.square(factor(masses, visible) @ centred).sum() / spread)


@lru_cache(maxsize=DESIGNS)
def _designed(prior: Prior, epsilon: Fraction, halvings: int) -> FiniteMechanism:
    """Design `auto` for τ = 2^−halvings. The nearest power of two is good enough, because the optimum is flat."""
    try:
        return BiasVariance.optimal(prior, epsilon, 2.0**-halvings, visible=VISIBLE, anchors=ANCHORS)
    except InvalidInput:
        raise
    except LabelDPError:  # badly scaled for the solver, for example at ε = 0.001 with a billion records
        return _designed(prior, epsilon, halvings - 1) if halvings > 1 else _bins(prior, epsilon)


@lru_cache(maxsize=DESIGNS)
def _bins(prior: Prior, epsilon: Fraction) -> FiniteMechanism:
    return RROnBins.optimal(prior, epsilon)


def label_share(mechanism: FiniteMechanism, values: Floats, prior: Prior | None = None) -> float:
    """Return the share of a true label that one private value is worth: corr(value, label)² under the prior.

    An average of n private values is as accurate as an average of n·share true labels. It determines the size of
    learners (`boosting_settings`).

    Parameters
    ----------
    mechanism : FiniteMechanism
        The mechanism that randomizes the labels.
    values : array of float
        The training value of each code, see `code_values`.
    prior : Prior, optional
        The distribution of the labels. By default the mechanism's own.

    Returns
    -------
    float
        The share, from 0 to 1. It is 1 without a prior.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import RROnBins, code_values, label_share
    >>> prior = Prior([0, 1, 2], [1, 1, 1])
    >>> weak, strong = RROnBins.optimal(prior, 0.5), RROnBins.optimal(prior, 4)
    >>> round(label_share(weak, code_values(weak, "debiased")), 3)
    0.04
    >>> round(label_share(strong, code_values(strong, "debiased")), 3)
    0.897
    """
    prior = prior or mechanism.prior
    return 1.0 if prior is None else value_share(mechanism, values, prior, prior.values)


def value_share(mechanism: FiniteMechanism, values: Floats, prior: Prior, function: Floats) -> float:
    """Return corr(value, h(label))² under a prior, for a function h given at the prior's labels: `label_share` of any function."""
    means, variances = mechanism.conditional_moments(prior.values, values)
    centre = float(prior.masses @ function)
    spread = float(prior.masses @ (variances + means**2)) - float(prior.masses @ means) ** 2
    shared = float(prior.masses @ (means * (function - centre)))
    whole = float(prior.masses @ np.square(function - centre))
    if spread <= 0 or whole <= 0:
        return 0.0
    return min(1.0, (shared / spread) * (shared / whole))  # squares of huge labels would overflow
