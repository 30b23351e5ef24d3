"""From floats to integer weights: a matrix of probabilities, or a profile of noise masses.

The entries of a matrix stay within the range that privacy allows each column. For a profile every rounding goes in the direction
that keeps ε.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import decimal_text, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.table import TOTAL, Words, check_entries, exact_sum

_LARGEST = TOTAL - 1
_ATTEMPTS = 64
_LARGEST_FLOAT = 2.0**64 - 2.0**11  # the last one below 2^64


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


def rounded_noise(masses: ArrayLike, epsilon: Fraction, *, cells: int, window: int, tolerance: float) -> Words:
    """Weights w_0 >= w_1 >= … and a tail w_reach with `w_0 + 2 Σ w_t = 2^64`, ε-DP by construction.

    Weights do not increase, so all privacy conditions follow from two: `w_t >= w_{max(t − span, 0)} / E` before the tail, and
    a tail of at least `Σ_{window <= t < reach} w_t / (E − 1)`. Both are met by raising weights. The peak is lowered until the
    total fits into 2^64, and what is then missing is added to the tail, where it can only help.
    """
    profile = _checked_profile(masses, cells - 1 + window)
    mass = 2 * math.fsum(profile) - float(profile[0])
    peak = TOTAL / mass
    for _ in range(_ATTEMPTS):
        weights = _raised(profile * peak, epsilon, span=cells - 1, window=window)
        missing = TOTAL - (2 * exact_sum(weights) - int(weights[0]))
        if missing >= 0:
            break
        peak -= max((profile.size - missing) / mass, peak * 2.0**-52)
        if peak * profile[0] < 1:
            raise _too_coarse(epsilon, cells)
    else:
        raise _too_coarse(epsilon, cells)
    weights[0] -= np.uint64(missing % 2)
    weights[-1] += np.uint64((missing + 1) // 2)
    # total variation: half the sum of |w/2^64 − p| over ±t
    distance = math.fsum(np.abs(weights / float(TOTAL) - profile / mass))
    if distance > tolerance:
        raise PrivacyRefused(
            f"no {decimal_text(epsilon)}-DP noise in 64 bits is close to this profile (total variation "
            f"{distance:.2g}). The profile itself is not {decimal_text(epsilon)}-DP on {cells:,} cells, "
            "or epsilon is too small for so many. Use fewer cells or a larger epsilon"
        )
    return weights


def _checked_profile(masses: ArrayLike, reach: int) -> NDArray[np.float64]:
    profile = np.asarray(masses, dtype=np.float64)
    if profile.shape != (reach + 1,):
        raise InvalidInput(f"a profile of {reach + 1} masses is needed, got shape {profile.shape}")
    if not (np.isfinite(profile).all() and profile.min() >= 0 and profile[0] > 0):
        raise InvalidInput("masses must be finite and not negative, the first one positive")
    if np.any(np.diff(profile[:-1]) > 0):
        raise InvalidInput("masses must not increase with the distance")
    return profile


def _raised(targets: NDArray[np.float64], epsilon: Fraction, *, span: int, window: int) -> Words:
    """The targets rounded down, then raised to what privacy requires."""
    weights = np.maximum(np.minimum(targets, _LARGEST_FLOAT).astype(np.uint64), np.uint64(1))
    bound = exp_lower(epsilon)
    reach = weights.size - 1
    stop = min(span + 1, reach)
    least = -(-int(weights[0]) * bound.denominator // bound.numerator)
    np.maximum(weights[1:stop], np.uint64(least), out=weights[1:stop])
    for start in range(span + 1, reach, span):
        stop = min(start + span, reach)
        earlier = weights[start - span : stop - span]
        # the factor outweighs four roundings of at most 2^-53 each, so this is never below the exact quotient
        lifted = np.ceil(earlier / float(bound) * (1 + 2.0**-50)).astype(np.uint64)
        np.maximum(weights[start:stop], lifted, out=weights[start:stop])
        # the exact quotients do not increase either, so a weight lowered to the one before it is still above its quotient
        np.minimum.accumulate(weights[start - 1 : stop], out=weights[start - 1 : stop])
    body = exact_sum(weights[window:reach])
    tail = math.ceil(body / (bound - 1))
    weights[-1] = min(max(int(weights[-1]), tail), TOTAL // 2)
    return weights


def _too_coarse(epsilon: Fraction, cells: int) -> PrivacyRefused:
    return PrivacyRefused(
        f"64 random bits are too few for {decimal_text(epsilon)}-DP noise on {cells:,} cells: "
        "use fewer cells or a larger epsilon"
    )
