"""From a matrix of floats to integer weights within the range that privacy allows each column."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import decimal_text, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.table import TOTAL, Words, check_entries, exact_sum

_LARGEST = TOTAL - 1


def rounded_weights(matrix: ArrayLike, epsilon: Fraction, tolerance: float) -> Words:
    """Integer weights near `2^64 · matrix` with `t_j <= w_ij <= ⌊E·t_j⌋` and rows that sum to 2^64."""
    probabilities = _checked_matrix(matrix)
    least = probabilities.min(axis=0)
    _refuse_unless_private(probabilities, least, epsilon, tolerance)
    if probabilities.shape[1] == 1:
        return np.zeros(probabilities.shape, dtype=np.uint64)
    bound = exp_lower(epsilon)
    lower = _column_minima(least)
    upper = np.array([min(_LARGEST, int(t) * bound.numerator // bound.denominator) for t in lower], dtype=np.uint64)
    if exact_sum(upper) < TOTAL:
        raise PrivacyRefused(
            f"no table of {lower.size:,} outputs with these minima is {decimal_text(epsilon)}-DP in 64 bits: "
            "use fewer outputs or a larger epsilon"
        )
    weights = np.clip(_scaled(probabilities), lower, upper)
    from labeldp.sampling._kernels import spread_residual

    spread_residual(weights, lower, upper)
    return weights


def _checked_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    probabilities = np.asarray(matrix, dtype=np.float64)
    if probabilities.ndim != 2 or 0 in probabilities.shape:
        raise InvalidInput(f"a matrix with at least one row and one column is needed, got shape {probabilities.shape}")
    check_entries(*probabilities.shape)
    if not (np.isfinite(probabilities).all() and probabilities.min() >= 0):
        raise InvalidInput("probabilities must be finite and not negative")
    sums = probabilities.sum(axis=1)
    if np.abs(sums - 1).max() > 1e-9:
        worst = int(np.abs(sums - 1).argmax())
        raise InvalidInput(f"the probabilities of row {worst} sum to {sums[worst]!r}, not to 1")
    return probabilities


def _refuse_unless_private(
    probabilities: NDArray[np.float64], least: NDArray[np.float64], epsilon: Fraction, tolerance: float
) -> None:
    excess = probabilities.max(axis=0) - np.exp(float(epsilon)) * least
    column = int(excess.argmax())
    if excess[column] > tolerance:
        high, low = int(probabilities[:, column].argmax()), int(probabilities[:, column].argmin())
        raise PrivacyRefused(
            f"the matrix is not {decimal_text(epsilon)}-DP: output {column} has probability "
            f"{probabilities[high, column]:.6g} from symbol {high} and {least[column]:.6g} from symbol {low}"
        )


def _column_minima(least: NDArray[np.float64]) -> Words:
    """The column minima `t_j` rounded up. If they then sum to more than 2^64, as for equal rows, the largest is lowered."""
    lower = np.maximum(_scaled(np.ceil(np.ldexp(least, 64)) * 2.0**-64), np.uint64(1))
    excess = exact_sum(lower) - TOTAL
    if excess > 0:
        largest = int(lower.argmax())
        lower[largest] = int(lower[largest]) - excess
    return lower


def _scaled(probabilities: NDArray[np.float64]) -> Words:
    """`2^64 · p` rounded down; a probability of 1 becomes the largest word."""
    scaled = np.ldexp(probabilities, 64)
    full = scaled >= 2.0**64
    words = np.where(full, 0.0, scaled).astype(np.uint64)
    words[full] = _LARGEST
    return words
