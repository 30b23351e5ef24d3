"""The rates of classes from private labels: one regression for each class, calibrated out of fold.

Randomized response P[code | class] has an inverse V, so V[code, class] is an unbiased estimate of whether the label is of that class, and
a regressor of squared loss learns rates from it. Such rates may be negative, and are too far apart where they fit noise. So the
logarithm of the odds is calibrated: a·logit(rate) + b, with the least estimated log loss of predictions that did not see the
record. The estimate is linear in the label, so it is unbiased too, and convex in a and b. Finally, the rates of each record are
divided by their sum, and shifted on the scale of logarithms so that their means are the private base rates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit, softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.learn.cross_fitting import checked_codes, out_of_fold, prepared, steps_of
from labeldp.learn.estimator_checks import check_fit_parameters, without_values
from labeldp.learn.stack import Member
from labeldp.learn.sums.classes_model import balance
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.decoding import indicator_values
from labeldp.release.label_range import likely_rates

LEAST_SHARE = 0.2
"""Regressions are clipped to this share of the base rate before they are calibrated, and to as much below one."""
SLOPE = 0.3
"""The standard deviation of a calibration's slope around 1, before the private labels are seen."""
LARGEST = 15.0
"""Logarithms of odds are clipped here."""


class ClassRates(BaseEstimator):  # type: ignore[misc]
    """Learns the probability of each class from the codes of private labels.

    Parameters
    ----------
    estimator : regressor or None
        What learns means: squared loss, any sign of targets. It is cloned. None means a `StackedRegressor`.
    mechanism : FiniteMechanism
        The randomized response that randomized the classes.

    Attributes
    ----------
    models_ : list of regressor
        A model of each class; of the second alone if there are two.
    slopes_, shifts_ : array of float
        The calibration of each model.
    floors_ : array of float
        The least rate of each model before it is calibrated.
    rates_ : array of float
        The private base rate of each class.
    balance_ : array of float
        What is added to the logarithm of each class's rate.
    encoder_ : ColumnEncoder or None
        How a table is turned into numbers.
    """

    def __init__(self, estimator: Any, mechanism: FiniteMechanism) -> None:
        self.estimator = estimator
        self.mechanism = mechanism

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Learn the rates from features and codes.

        Parameters
        ----------
        X : table or array
            The features.
        y : PrivateLabels or array of int
            The private labels, or their codes.
        **fit_params : dict
            More parameters for the `fit` of every clone, such as `sample_weight`. Parameters that could carry labels are refused.

        Returns
        -------
        ClassRates
            The fitted model itself.
        """
        self.fit_out_of_fold(X, y, **fit_params)
        return self

    def fit_out_of_fold(
        self, X: Any, y: Any, *, advance: Callable[[int], object] | None = None, **fit_params: Any
    ) -> tuple[NDArray[np.int64], Floats]:
        """Fit, and predict for rows by models that were trained without them.

        Parameters
        ----------
        X, y : array
            As in `fit`.
        advance : callable, optional
            Called with the number of models whenever some are trained, `steps(len(y))` in all.
        **fit_params : dict
            As in `fit`.

        Returns
        -------
        rows : array of int
            The rows that were predicted: all, unless there are very many.
        rates : array of float of shape (rows, classes)
            The probabilities of the classes for each of them.
        """
        check_fit_parameters(fit_params)
        codes = checked_codes(y, self.mechanism)
        values = indicator_values(self.mechanism)[codes]
        given = fit_params.get("sample_weight")
        weights = np.ones(codes.size) if given is None else np.asarray(given, np.float64)
        weights = weights * (codes.size / weights.sum())
        self.rates_ = base_rates(values, weights)
        self.encoder_, make, X = prepared(self.estimator, X, codes.size)
        modelled = _modelled(len(self.rates_))
        self.models_, seen = [], []
        for place in modelled:
            rate, targets = self.rates_[place], values[:, place]
            share = min(1.0, rate * (1 - rate) / max(float(targets.var()), 1e-12))
            with without_values():
                model, rows, predictions = out_of_fold(make(share), X, targets, fit_params, advance)
            self.models_.append(model)
            seen.append(predictions)
        self.floors_ = LEAST_SHARE * np.minimum(self.rates_, 1 - self.rates_)[modelled]
        held = np.column_stack(seen)
        fitted = [
            _calibrated(_log_odds(held[:, [j]], self.floors_[[j]])[:, 0], values[rows, place], weights[rows])
            for j, place in enumerate(modelled)
        ]
        self.slopes_, self.shifts_ = np.array(fitted).T
        self.balance_ = np.zeros(len(self.rates_))
        self.balance_ = balance(self._logs(self._predicted(X)), self.rates_, weights)
        return rows, softmax(self._logs(held), axis=1)

    @property
    def members(self) -> tuple[Member, ...]:
        """What the stack of the second of two classes is made of; empty for other models."""
        return tuple(getattr(self.models_[0], "members", ())) if len(self.models_) == 1 else ()

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the classes."""
        domain = self.mechanism.domain
        return np.array(self.mechanism.outputs if domain is None or domain.classes is None else domain.classes)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array of float of shape (rows, classes)
            Never 0 or 1.
        """
        check_is_fitted(self)
        encoded = X if self.encoder_ is None else self.encoder_.ordinal(X)
        return np.asarray(softmax(self._logs(self._predicted(encoded)), axis=1), np.float64)

    def steps(self, rows: int) -> int:
        """Return the maximum number of models trained on this number of rows.

        Parameters
        ----------
        rows : int
            The number of rows.

        Returns
        -------
        int
        """
        return len(_modelled(self.mechanism.outputs.size)) * steps_of(self.estimator, rows)

    def _predicted(self, X: Any) -> Floats:
        """Return the prediction of each model for features that are encoded already."""
        with without_values("the features"):
            return np.column_stack([np.asarray(model.predict(X), np.float64) for model in self.models_])

    def _logs(self, predicted: Floats) -> Floats:
        """Return the logarithm of the rate of each class, up to a number for each record."""
        odds = self.shifts_ + self.slopes_ * _log_odds(predicted, self.floors_)
        if len(self.rates_) == 2:
            odds = np.column_stack([-odds[:, 0], odds[:, 0]])
        return np.asarray(log_expit(np.clip(odds, -LARGEST, LARGEST)) + self.balance_)


def base_rates(values: Floats, weights: Floats) -> Floats:
    """Return the rates of the classes among the labels, from their indicator values."""
    means = np.average(values, axis=0, weights=weights)
    errors = values.std(axis=0) * np.sqrt(np.square(weights).sum()) / weights.sum()
    return likely_rates(means, errors, 0.5 / len(values))


def _modelled(classes: int) -> list[int]:
    """Return the classes that have a model."""
    return [1] if classes == 2 else list(range(classes))


def _log_odds(rates: Floats, floors: Floats) -> Floats:
    return np.asarray(logit(np.clip(rates, floors, 1 - floors)))


def _calibrated(odds: Floats, values: Floats, weights: Floats) -> tuple[float, float]:
    """Return the slope and the shift of the least estimated log loss, times a prior of the slope."""

    def loss(settings: Floats) -> tuple[float, Floats]:
        slope, shift = settings
        score = shift + slope * odds
        over = weights * (expit(score) - values)
        # The noise of the values makes the estimate vary more than log loss does, so the prior is weighed in their own variance.
        away = (slope - 1) / SLOPE**2 * noise
        total = weights @ (-log_expit(-score) - values * score) + 0.5 * away * (slope - 1)
        return float(total), np.array([over @ odds + away, over.sum()])

    centre = float(np.clip(values.mean(), 1e-9, 1))
    noise = max(1.0, float(values.var()) / max(centre * (1 - centre), 1e-9))
    found = minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=[(0.0, 3.0), (-LARGEST, LARGEST)])
    return float(found.x[0]), float(found.x[1])
