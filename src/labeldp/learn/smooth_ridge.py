"""A ridge regression that can bend: on numbers, their bends, frequent categories and Gaussian bumps of all columns together."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.learn.feature_columns import standardizer
from labeldp.linear_algebra import eigh

LEAST_ROWS = 50
"""A column with fewer numbers, or a category with fewer rows, is not used."""
MOST_LEVELS = 60
"""The most categories of a column that get their own coefficient."""
PENALTIES = 10.0 ** np.arange(-4, 1.6, 0.5)
"""Ridge penalties to choose from, per record."""
LARGEST = 3.0
"""Standardized numbers are clipped here, so that one absurd value cannot throw a prediction."""
WIDTH = 0.3
"""The kernel's gamma, times the number of columns."""
HEIGHT = 3.0
"""What bumps are multiplied with. A larger value penalizes them less in comparison with lines."""
SAMPLE, CHUNK = 50_000, 1 << 15


class SmoothRidge(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A ridge regression whose penalty has the least generalized cross-validation error.

    Parameters
    ----------
    numeric : int, optional
        The first `numeric` columns are numbers and the others codes of categories. By default all are numbers.
    bends : int
        At how many quantiles of each number the line may bend.
    levels : bool
        Whether frequent categories get a coefficient each. Otherwise categories are not used.
    bumps : int
        The number of Gaussian bumps, centred at records, which make a smooth function of all columns together.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.learn.smooth_ridge import SmoothRidge
    >>> X = np.random.default_rng(0).normal(size=(2000, 1))
    >>> model = SmoothRidge(bends=6).fit(X, np.abs(X[:, 0]))
    >>> model.predict([[-1.0], [1.0]]).round(1)
    array([1., 1.])
    """

    def __init__(self, numeric: int | None = None, *, bends: int = 0, levels: bool = True, bumps: int = 0) -> None:
        self.numeric = numeric
        self.bends = bends
        self.levels = levels
        self.bumps = bumps

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the columns, then their coefficients.

        Parameters
        ----------
        X : array
            The features; NaN is a missing number.
        y : array-like
            The values to train on.
        sample_weight : array-like, optional
            A weight for each row.

        Returns
        -------
        SmoothRidge
            The fitted regressor itself.
        """
        matrix, values = np.asarray(X, np.float64), np.asarray(y, np.float64)
        weights = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        self._learn_columns(matrix)
        total, size = float(weights.sum()), self.scale_.size + len(self.landmarks_)
        gram, products, squares = np.zeros((size + 1, size + 1)), np.zeros(size + 1), 0.0
        mean = float(weights @ values / total)
        for start in range(0, len(values), CHUNK):
            rows = slice(start, start + CHUNK)
            columns = self._scaled(matrix[rows])
            bumps = HEIGHT * self._kernel(columns) @ self.rotation_
            whole, rest = np.column_stack([np.ones(len(columns)), columns, bumps]), values[rows] - mean
            weighted = weights[rows, None] * whole
            gram += weighted.T @ whole
            products += weighted.T @ rest
            squares += float(weights[rows] @ np.square(rest))
        centre = gram[0, 1:] / total
        roots, basis = eigh(gram[1:, 1:] / total - np.outer(centre, centre))
        roots, turned = np.maximum(roots, 0), basis.T @ (products[1:] / total)
        least = np.inf
        for penalty in PENALTIES:
            kept = turned / (roots + penalty)
            error = squares / total - 2 * kept @ turned + np.square(kept) @ roots
            freedom = 1 + float((roots / (roots + penalty)).sum())
            error /= max(1 - freedom / len(values), 1e-3) ** 2
            if error < least:
                least, self.coef_ = error, basis @ kept
        self.intercept_ = mean - float(centre @ self.coef_)
        self.n_features_in_ = matrix.shape[1]
        return self

    def predict(self, X: Any) -> Floats:
        """Predict for each row.

        Parameters
        ----------
        X : array
            The features.

        Returns
        -------
        array of float
        """
        check_is_fitted(self)
        matrix = np.asarray(X, np.float64)
        predictions = np.empty(len(matrix))
        width = self.scale_.size
        bumps = HEIGHT * np.einsum("ij,j->i", self.rotation_, self.coef_[width:])
        for start in range(0, len(matrix), CHUNK):
            rows = slice(start, start + CHUNK)
            columns = self._scaled(matrix[rows])
            predictions[rows] = np.einsum(
                "ij,j->i", columns, self.coef_[:width]
            )  # the same in every batch, unlike BLAS
            if bumps.size:
                predictions[rows] += np.einsum("ij,j->i", self._kernel(columns), bumps)
        return predictions + self.intercept_

    def _learn_columns(self, matrix: Floats) -> None:
        """Learn which columns to use, where they bend, how to scale them, and the centres of the bumps."""
        sample = matrix[:: max(1, len(matrix) // SAMPLE)]
        numbers = sample[:, : self.numeric]
        self.used_ = varied(numbers)
        self.scaler_, self.knots_, self.levels_ = None, [], []
        if self.used_.any():
            self.scaler_ = standardizer(largest=LARGEST).fit(numbers[:, self.used_])
            for column in self.scaler_.transform(numbers[:, self.used_]).T[: self.used_.sum()]:
                knots = np.unique(np.quantile(column, np.linspace(0, 1, self.bends + 2)[1:-1]))
                self.knots_.append(knots[(knots > column.min()) & (knots < column.max())])
        if self.levels and self.numeric is not None:
            for codes in sample.T[self.numeric :]:
                found, counts = np.unique(codes, return_counts=True)
                order = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
                self.levels_.append(found[order][counts[order] >= LEAST_ROWS])
        raw = self._raw(sample)
        spread = raw.std(axis=0)
        self.shift_, self.scale_ = raw.mean(axis=0), np.where(spread > 1e-12, spread, np.inf)
        self.landmarks_, self.rotation_ = np.empty((0, self.scale_.size)), np.empty((0, 0))
        if self.bumps and self.scale_.size:
            rows = np.random.default_rng(0).permutation(len(raw))[: self.bumps]
            self.landmarks_ = (raw[rows] - self.shift_) / self.scale_
            roots, basis = eigh(self._kernel(self.landmarks_))
            self.rotation_ = (basis / np.sqrt(np.maximum(roots, 1e-12))) @ basis.T

    def _scaled(self, matrix: Floats) -> Floats:
        """Return the columns that have coefficients, but for bumps."""
        return np.asarray((self._raw(matrix) - self.shift_) / self.scale_)

    def _kernel(self, columns: Floats) -> Floats:
        """Return the value of each bump for each row: exp(−gamma·squared distance)."""
        products = np.einsum("ij,kj->ik", columns, self.landmarks_)
        sizes = np.einsum("ij,ij->i", columns, columns)[:, None] + np.square(self.landmarks_).sum(axis=1)
        return np.asarray(np.exp(-WIDTH / max(1, columns.shape[1]) * np.maximum(sizes - 2 * products, 0)))

    def _raw(self, matrix: Floats) -> Floats:
        """Standardized numbers, flags of missing ones, bends, and one column for each frequent category."""
        parts: list[NDArray[Any]] = [np.empty((len(matrix), 0))]
        if self.scaler_ is not None:
            scaled = self.scaler_.transform(matrix[:, : self.numeric][:, self.used_])
            parts.append(scaled)
            parts += [np.maximum(scaled[:, [j]] - knots, 0) for j, knots in enumerate(self.knots_)]
        if self.levels_:
            codes = matrix[:, self.numeric :]
            parts += [codes[:, [j]] == levels for j, levels in enumerate(self.levels_)]
        return np.hstack(parts).astype(np.float64, copy=False)


def varied(numbers: Floats) -> NDArray[np.bool_]:
    """Return the columns with enough numbers, and with different ones."""
    present = ~np.isnan(numbers)
    low, high = np.where(present, numbers, np.inf).min(axis=0), np.where(present, numbers, -np.inf).max(axis=0)
    return np.asarray((present.sum(axis=0) >= LEAST_ROWS) & (low < high))
