"""Label-private linear regression from noisy sufficient statistics, after AdaSSP (Wang 2018): peers for `sums.py`.

Features are public here, so that XᵀX is exact and only XᵀY is noised, with the whole budget: Gaussian noise, (ε, δ)-label-DP, in
floats (for comparison only). Rows are 1, numbers as standard scores within ±3 and categories one-hot, as they are: standard
scores of rare categories would make the longest row, and with it the noise, many times larger. One label moves XᵀY by at most the
longest row times the label's range.

Two models of one release: `adassp` has the paper's ridge (what the noise could do, less the smallest eigenvalue of XᵀX), which is
made for guarantees and shrinks much; `ridge` fits the ridge to the noisy sums by empirical Bayes, as the noise is known.
"""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
from scipy import sparse
from scipy.optimize import brentq, minimize
from scipy.special import log_ndtr, ndtr

DELTA = 1e-6
FAILURE = 0.05
"""AdaSSP's ϱ: how likely noise may exceed what its ridge expects."""


def predictions(train, codes, labels, test, bounds, epsilon, delta=DELTA) -> dict[str, np.ndarray]:
    """Predictions of both models for `test`. `codes` marks the columns of categories."""
    rows, others = design(train, test, codes)
    lower, upper = bounds
    middle, size = (lower + upper) / 2, rows.shape[1]
    longest = sqrt(rows.power(2).sum(axis=1).max())
    multiple = gaussian_scale(epsilon, delta)
    scale = multiple * longest * (upper - lower)
    products = rows.T @ (np.clip(labels, lower, upper) - middle) + np.random.default_rng().normal(0, scale, size)
    gram = (rows.T @ rows).toarray()
    mean = products[0] / len(train)
    centred = products - gram[:, 0] * mean
    worst = multiple * longest**2 * sqrt(size * log(2 * size**2 / FAILURE))
    models = {"adassp": paper_ridge(gram, centred, worst), "ridge": fitted_ridge(gram, centred, scale)}
    return {name: np.clip(middle + mean + others @ model, lower, upper) for name, model in models.items()}


def paper_ridge(gram, products, worst) -> np.ndarray:
    """Coefficients with AdaSSP's rule."""
    ridge = max(1e-6, worst - max(0.0, np.linalg.eigvalsh(gram)[0]))
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), products)


def fitted_ridge(gram, products, scale) -> np.ndarray:
    """Posterior means, with the variance of coefficients and that of labels around the model by marginal likelihood."""
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0)
    seen = vectors.T @ products

    def variances(logs):
        prior, rest = np.exp(logs)
        return prior * values**2 + rest * values + scale**2

    def surprise(logs):
        expected = variances(logs)
        return float(np.sum(seen**2 / expected + np.log(expected)))

    start = log(scale**2 / values[-1])  # as if noise and labels were equally loud in the main direction
    best = minimize(surprise, [start - log(values[-1]), start], method="Nelder-Mead").x
    return vectors @ (np.exp(best[0]) * values / variances(best) * seen)


def design(train, test, codes) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Both matrices in the same columns. Categories that training rows do not have are zeros."""
    parts = [(np.ones((len(train), 1)), np.ones((len(test), 1)))]
    for column, is_code in enumerate(codes):
        one, other = train[:, column], test[:, column]
        if is_code:
            items = np.unique(one)
            parts.append((one_hot(one, items), one_hot(other, items)))
        elif one.std() > 0:
            parts.append(tuple(np.clip((values - one.mean()) / one.std(), -3, 3)[:, None] for values in (one, other)))
    return tuple(sparse.hstack([sparse.csr_array(part[side]) for part in parts], format="csr") for side in (0, 1))


def one_hot(values, items) -> sparse.csr_array:
    """A column for each of the sorted items."""
    place = np.minimum(np.searchsorted(items, values), len(items) - 1)
    found = np.flatnonzero(items[place] == values)
    return sparse.csr_array((np.ones(len(found)), (found, place[found])), shape=(len(values), len(items)))


def gaussian_scale(epsilon: float, delta: float) -> float:
    """The least σ of Gaussian noise that is (ε, δ)-DP for a sensitivity of 1 (Balle and Wang 2018, Theorem 8)."""
    return brentq(lambda scale: gaussian_delta(epsilon, scale) - delta, 1e-3, 1e6)


def gaussian_delta(epsilon: float, scale: float) -> float:
    """The δ of Gaussian noise of this σ at ε, for a sensitivity of 1."""
    first, second = 1 / (2 * scale), epsilon * scale
    return float(ndtr(first - second) - exp(min(0.0, epsilon + log_ndtr(-first - second))))
