"""From a profile of noise masses to integer weights. Every rounding goes in the direction that keeps ε."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import decimal_text, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.table import TOTAL, Words, exact_sum

_ATTEMPTS = 64
_LARGEST_FLOAT = 2.0**64 - 2.0**11  # the last one below 2^64


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
