"""Integer noise on a grid of cells, clamped into a window: one list of weights for all symbols.

The cells are consecutive integers, so the sensitivity is `cells - 1`. A noise distribution is given as a *profile* of
floats: the relative masses of noise 0, ±1, ±2, …, and of the tail. Privacy does not depend on the profile. It follows
from directed rounding and an exact check of the resulting table.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling._kernels import largest_window_ratio, sample_shift
from labeldp.sampling.table import (
    MAX_ENTRIES,
    TOTAL,
    WORD_BITS,
    Codes,
    Table,
    Words,
    WorstRatio,
    canonical_bytes,
    count_from_json,
    exact_sum,
    frozen_words,
    words_from_json,
)

_ATTEMPTS = 64
_TOLERANCE = 1e-6
"""How far a table may be from its profile, in total variation."""
_LARGEST_FLOAT = 2.0**64 - 2.0**11  # the largest float below 2^64


class ShiftTable(Table):
    """Additive noise: the output is cell + noise, clamped into `[-window, cells - 1 + window]`.

    Noise t has weight `weights[|t|]`. Noise of `reach = cells - 1 + window` or more is clamped for every cell, so the
    last weight covers the whole tail. Codes count from the lower end of the window. Sampling takes O(1) expected time
    (a guide table and a short bisection), and memory is O(cells + window).

    Parameters
    ----------
    weights : array of uint64
        The weight of noise ±t for t = 0 … reach, the last one for all noise of reach or more. Counted on both sides, they
        sum to 2^64.
    cells : int
        The number of symbols.
    window : int, default 0
        The number of outputs beyond each end of the cells; 0 clips the output to the cells.

    Raises
    ------
    InvalidInput
        If the weights do not sum to 2^64 or one is below 1.

    Privacy
    -------
    The table is ε-DP for e^ε = `worst_ratio`. `from_profile` makes a table for a given ε.

    Examples
    --------
    >>> from labeldp.sampling import ShiftTable
    >>> from labeldp.sampling.noise_tables import laplace_profile
    >>> table = ShiftTable.from_profile(laplace_profile(5, 2.0), epsilon=2, cells=5)
    >>> table.probabilities([2]).round(3).tolist()
    [[0.229, 0.149, 0.245, 0.149, 0.229]]
    """

    kind = "shift"
    window: int
    magnitudes: Words
    """The weight of noise ±t for t = 0 … reach, the last one for the whole tail."""
    _starts: Words
    _guide: NDArray[np.int64]
    _guide_shift: np.uint64

    def __init__(self, weights: ArrayLike, *, cells: int, window: int = 0) -> None:
        _check_size(cells, window)
        self._store(inputs=int(cells), outputs=int(cells + 2 * window), window=int(window))
        magnitudes = np.asarray(weights)
        if magnitudes.dtype != np.uint64 or magnitudes.shape != (self.reach + 1,):
            raise InvalidInput(
                f"{cells} cells and a window of {window} need {self.reach + 1} uint64 weights, "
                f"got {magnitudes.dtype} of shape {magnitudes.shape}"
            )
        if not magnitudes.all():
            raise InvalidInput("weights must be at least 1: if only some cells can give an output, epsilon is infinite")
        total = 2 * exact_sum(magnitudes) - int(magnitudes[0])
        if total != TOTAL:
            raise InvalidInput(f"the weights of the noise sum to {total}, not to 2^64")
        noise = np.concatenate([magnitudes[:0:-1], magnitudes])
        starts = frozen_words(np.concatenate([np.zeros(1, np.uint64), np.cumsum(noise[:-1], dtype=np.uint64)]))
        shift, guide = _guide_for(starts)
        self._store(magnitudes=frozen_words(magnitudes), _starts=starts, _guide_shift=shift, _guide=guide)

    @classmethod
    def from_profile(cls, masses: ArrayLike, epsilon: Epsilon, *, cells: int, window: int = 0) -> ShiftTable:
        """Return an exactly ε-DP integer table close to a noise distribution that is ε-DP up to rounding. O(cells + window).

        Every rounding goes in the direction that keeps ε. `laplace_profile` and `staircase_profile` make profiles. The
        proof is in `docs/concepts/exact-sampling.md`.

        Parameters
        ----------
        masses : array-like of float
            The relative mass of noise ±t for t < reach. The last entry is the mass of all noise of reach or more. They
            must not increase before the tail.
        epsilon : float, int, str, Decimal or Fraction
            The guarantee.
        cells : int
            The number of symbols.
        window : int, default 0
            The number of outputs beyond each end of the cells.

        Returns
        -------
        ShiftTable
            With a `worst_ratio` of at most e^ε, checked in rational arithmetic.

        Raises
        ------
        PrivacyRefused
            If the table would be farther than 1e-6 from the profile, in total variation: the profile is not ε-DP, or 64 bits are too few.
        """
        bound = exact_epsilon(epsilon)
        _check_size(cells, window)
        weights = _rounded_noise(masses, bound, cells=cells, window=window)
        table = cls(weights, cells=cells, window=window)
        if table.worst_ratio().ratio > exp_lower(bound):
            raise PrivacyRefused(
                f"no integer noise on {cells:,} cells could be proven {decimal_text(bound)}-DP: "
                "use fewer cells or a larger epsilon"
            )
        return table

    @property
    def reach(self) -> int:
        """The smallest noise at which every output is clamped."""
        return self.inputs - 1 + self.window

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:  # noqa: ARG002
        offset = self.inputs - 1
        sample_shift(symbols, words, self._starts, self._guide, self._guide_shift, offset, self.outputs - 1, codes)

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        distance = np.abs(np.arange(-self.window, self.inputs + self.window) - rows[:, np.newaxis])
        matrix: NDArray[np.float64] = self.magnitudes[distance] / float(TOTAL)
        matrix[:, 0] = self._tail(rows + self.window) / float(TOTAL)
        matrix[:, -1] = self._tail(self.reach - rows) / float(TOTAL)
        return matrix

    def _weight(self, symbol: int, code: int) -> int:
        if code == 0:
            return int(self._tail(symbol + self.window))
        if code == self.outputs - 1:
            return int(self._tail(self.reach - symbol))
        return int(self.magnitudes[abs(code - self.window - symbol)])

    def worst_ratio(self) -> WorstRatio:
        """Return the largest ratio of two cells' weights of one output. O(cells + window).

        The two clamped ends mirror each other, and a tail grows with the cell, so its extremes are at the first and the last
        cell. For the outputs between them, a window of `cells` weights slides over the noise.
        """
        last = self.inputs - 1
        end = Fraction(int(self._tail(self.window)), int(self._tail(self.reach)))
        worst = WorstRatio(end, last, 0, self.outputs - 1)
        if self.outputs > 2:
            inner = np.concatenate([self.magnitudes[-2:0:-1], self.magnitudes[:-1]])
            column, high, low = largest_window_ratio(inner, self.inputs)
            ratio = Fraction(int(inner[high]), int(inner[low]))
            if ratio > worst.ratio:
                # index p holds the weight of noise p - (reach - 1), and output c is noise + cell + window
                worst = WorstRatio(ratio, column + last - high, column + last - low, column + 1)
        return worst

    def canonical(self) -> bytes:
        return canonical_bytes("shift", (self.inputs, self.window), self.magnitudes)

    def _to_json(self) -> dict[str, Any]:
        weights = [str(weight) for weight in self.magnitudes.tolist()]
        return {"cells": self.inputs, "window": self.window, "weights": weights}

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Self:
        return cls(
            words_from_json(data.get("weights"), "a weight", least=1),
            cells=count_from_json(data.get("cells"), "cells", least=2),
            window=count_from_json(data.get("window"), "window", least=0),
        )

    def _tail(self, distance: Any) -> Any:
        """Return the weight of noise >= distance, for 0 <= distance <= reach."""
        return self._starts[self.reach - distance + 1]


def _check_size(cells: int, window: int) -> None:
    if cells < 2 or window < 0:
        raise InvalidInput(f"noise needs at least 2 cells and a window of at least 0, got {cells} and {window}")
    if cells - 1 + window > MAX_ENTRIES:
        raise InvalidInput(
            f"{cells:,} cells with a window of {window:,} need more than {MAX_ENTRIES:,} weights: "
            "use fewer cells or a smaller window"
        )


def _guide_for(starts: Words) -> tuple[np.uint64, NDArray[np.int64]]:
    """Return where bisection may start for each value of a word's leading bits: about one slot per outcome, at most 2^18."""
    bits = min(18, int(starts.size).bit_length())
    shift = np.uint64(WORD_BITS - bits)
    firsts = np.arange(1 << bits, dtype=np.uint64) << shift
    guide = np.searchsorted(starts, firsts, side="right") - 1
    return shift, np.append(guide, starts.size - 1)


def laplace_profile(cells: int, epsilon: float, *, window: int = 0) -> NDArray[np.float64]:
    """Return discrete Laplace noise: the mass of t is proportional to e^(−ε|t|/(cells−1))."""
    rate = epsilon / (cells - 1)
    masses: NDArray[np.float64] = np.exp(-rate * np.arange(cells + window))
    masses[-1] /= -math.expm1(-rate)
    return masses


def staircase_profile(cells: int, epsilon: float, steps: int, *, window: int = 0) -> NDArray[np.float64]:
    """Return discrete staircase noise: the mass falls by e^−ε after the first `steps` of every `cells − 1` integers."""
    span = cells - 1
    if not 1 <= steps <= span:
        raise InvalidInput(f"the staircase's parameter must lie in 1 … {span} for {cells} cells, got {steps}")
    flight, place = np.divmod(np.arange(cells + window), span)
    masses: NDArray[np.float64] = np.exp(-epsilon * (flight + (place >= steps)))
    # the rest of the flight where the tail begins, then all whole flights after it
    low = math.exp(-epsilon)
    rest = max(0, steps - int(place[-1])) + low * (span - max(steps, int(place[-1])))
    whole = (steps + low * (span - steps)) * low / -math.expm1(-epsilon)
    masses[-1] = math.exp(-epsilon * int(flight[-1])) * (rest + whole)
    return masses


def _rounded_noise(masses: ArrayLike, epsilon: Fraction, *, cells: int, window: int) -> Words:
    """Return weights w_0 >= w_1 >= … and a tail w_reach with `w_0 + 2 Σ w_t = 2^64`, ε-DP by construction.

    Weights do not increase, so all privacy conditions follow from two: `w_t >= w_{max(t − span, 0)} / E` before the
    tail, and a tail of at least `Σ_{window <= t < reach} w_t / (E − 1)`. Both are met by raising weights. The peak is
    lowered until the total fits into 2^64. The remainder is added to the tail, where it can only help.
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
    if distance > _TOLERANCE:
        raise PrivacyRefused(
            f"no {decimal_text(epsilon)}-DP noise in 64 bits is close to this profile (total variation "
            f"{distance:.2g}). The profile itself is not {decimal_text(epsilon)}-DP on {cells:,} cells, "
            "or epsilon is too small for this number. Use fewer cells or a larger epsilon"
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
    """Return the targets rounded down, then raised as far as privacy requires."""
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
