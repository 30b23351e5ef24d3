"""Integer noise on a grid of cells, clamped into a window: one list of weights for all symbols."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.table import (
    MAX_ENTRIES,
    TOTAL,
    WORD_BITS,
    Codes,
    Table,
    Words,
    WorstRatio,
    count_from_json,
    exact_sum,
    frozen_words,
    words_from_json,
)


class ShiftTable(Table):
    """Additive noise: the output is cell + noise, clamped into `[-window, cells - 1 + window]`.

    Noise t has weight `weights[|t|]`. Noise of `reach = cells - 1 + window` or more is clamped whatever the cell, so the last
    weight stands for the whole tail and nothing is lost. Codes count from the lower end of the window. Sampling takes O(1)
    expected time (a guide table and a short bisection), and memory is O(cells + window).

    Parameters
    ----------
    weights : array of uint64
        The weight of noise ±t for t = 0 … reach, the last one for all noise of reach or more. Counted on both sides, they
        sum to 2^64.
    cells : int
        The number of symbols.
    window : int, default 0
        How many outputs there are beyond each end of the cells; 0 clips the output to the cells.

    Raises
    ------
    InvalidInput
        If the weights do not sum to 2^64 or one is below 1.

    Privacy
    -------
    The table is as private as `worst_ratio` says; `from_profile` makes one that is ε-DP.

    Examples
    --------
    >>> from labeldp.sampling import ShiftTable
    >>> from labeldp.sampling.noise import laplace_profile
    >>> table = ShiftTable.from_profile(laplace_profile(5, 2.0), epsilon=2, cells=5)
    >>> table.probabilities([2]).round(3).tolist()
    [[0.229, 0.149, 0.245, 0.149, 0.229]]
    """

    __slots__ = ("_cells", "_guide", "_guide_shift", "_magnitudes", "_starts", "_window")

    def __init__(self, weights: ArrayLike, *, cells: int, window: int = 0) -> None:
        _check_size(cells, window)
        self._cells, self._window = int(cells), int(window)
        magnitudes = np.asarray(weights)
        if magnitudes.dtype != np.uint64 or magnitudes.shape != (self.reach + 1,):
            raise InvalidInput(
                f"{cells} cells and a window of {window} need {self.reach + 1} uint64 weights, "
                f"got {magnitudes.dtype} of shape {magnitudes.shape}"
            )
        if not magnitudes.all():
            raise InvalidInput(
                "weights must be at least 1: an output that only some cells can give has no finite epsilon"
            )
        total = 2 * exact_sum(magnitudes) - int(magnitudes[0])
        if total != TOTAL:
            raise InvalidInput(f"the weights of the noise sum to {total}, not to 2^64")
        self._magnitudes = frozen_words(magnitudes)
        noise = np.concatenate([magnitudes[:0:-1], magnitudes])
        self._starts = frozen_words(np.concatenate([np.zeros(1, np.uint64), np.cumsum(noise[:-1], dtype=np.uint64)]))
        self._guide_shift, self._guide = _guide_for(self._starts)

    @classmethod
    def from_profile(
        cls, masses: ArrayLike, epsilon: Epsilon, *, cells: int, window: int = 0, tolerance: float = 1e-6
    ) -> ShiftTable:
        """An exactly ε-DP integer table close to a noise distribution that is ε-DP up to rounding. O(cells + window).

        Every rounding goes in the direction that keeps ε. `labeldp.sampling.noise` has profiles, `docs/concepts/exact-sampling.md` the
        proof.

        Parameters
        ----------
        masses : array-like of float
            The relative mass of noise ±t for t < reach, and last that of all noise of reach or more. They must not increase
            before the tail.
        epsilon : float, int, str, Decimal or Fraction
            The guarantee.
        cells : int
            The number of symbols.
        window : int, default 0
            How many outputs there are beyond each end of the cells.
        tolerance : float, default 1e-6
            How far the table may be from the profile, in total variation.

        Returns
        -------
        ShiftTable
            With a `worst_ratio` of at most e^ε, checked in rational arithmetic.

        Raises
        ------
        PrivacyRefused
            If the table would be farther from the profile than the tolerance: the profile is not ε-DP, or 64 bits are too few.
        """
        from labeldp.sampling._rounding import rounded_noise

        bound = exact_epsilon(epsilon)
        _check_size(cells, window)
        weights = rounded_noise(masses, bound, cells=cells, window=window, tolerance=tolerance)
        table = cls(weights, cells=cells, window=window)
        if table.worst_ratio().ratio > exp_lower(bound):
            raise PrivacyRefused(
                f"no integer noise on {cells:,} cells could be proven {decimal_text(bound)}-DP: "
                "use fewer cells or a larger epsilon"
            )
        return table

    @property
    def inputs(self) -> int:
        """The number of symbols."""
        return self._cells

    @property
    def outputs(self) -> int:
        """The number of codes."""
        return self._cells + 2 * self._window

    @property
    def reach(self) -> int:
        """The noise from which on every output is clamped."""
        return self._cells - 1 + self._window

    @property
    def magnitudes(self) -> Words:
        """The weight of noise ±t for t = 0 … reach, the last one for the whole tail."""
        return self._magnitudes

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:  # noqa: ARG002
        from labeldp.sampling._kernels import sample_shift

        offset = self._cells - 1
        sample_shift(symbols, words, self._starts, self._guide, self._guide_shift, offset, self.outputs - 1, codes)

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        distance = np.abs(np.arange(-self._window, self._cells + self._window) - rows[:, np.newaxis])
        matrix: NDArray[np.float64] = self._magnitudes[distance] / float(TOTAL)
        matrix[:, 0] = self._tail(rows + self._window) / float(TOTAL)
        matrix[:, -1] = self._tail(self.reach - rows) / float(TOTAL)
        return matrix

    def _weight(self, symbol: int, code: int) -> int:
        if code == 0:
            return int(self._tail(symbol + self._window))
        if code == self.outputs - 1:
            return int(self._tail(self.reach - symbol))
        return int(self._magnitudes[abs(code - self._window - symbol)])

    def worst_ratio(self) -> WorstRatio:
        """The largest ratio of two cells' weights of one output. O(cells + window).

        The two clamped ends mirror each other, and a tail grows with the cell, so its extremes are at the first and the last
        cell. For the outputs between them, a window of `cells` weights slides over the noise.
        """
        from labeldp.sampling._kernels import largest_window_ratio

        last = self._cells - 1
        end = Fraction(int(self._tail(self._window)), int(self._tail(self.reach)))
        worst = WorstRatio(end, last, 0, self.outputs - 1)
        if self.outputs > 2:
            inner = np.concatenate([self._magnitudes[-2:0:-1], self._magnitudes[:-1]])
            column, high, low = largest_window_ratio(inner, self._cells)
            ratio = Fraction(int(inner[high]), int(inner[low]))
            if ratio > worst.ratio:
                # place p holds the weight of noise p - (reach - 1), and output c is noise + cell + window
                worst = WorstRatio(ratio, column + last - high, column + last - low, column + 1)
        return worst

    def canonical(self) -> bytes:
        """The bytes that digests are made of."""
        header = struct.pack("<QQ", self._cells, self._window)
        return b"labeldp shift table 1\0" + header + self._magnitudes.astype("<u8").tobytes()

    def to_json(self) -> dict[str, Any]:
        """The table as a JSON object."""
        weights = [str(weight) for weight in self._magnitudes.tolist()]
        return {"kind": "shift", "cells": self._cells, "window": self._window, "weights": weights}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ShiftTable:
        """The table in a JSON object, checked again.

        Parameters
        ----------
        data : dict
            What `to_json` returned.

        Returns
        -------
        ShiftTable
            A valid table; its ε is for `worst_ratio` to say.
        """
        return cls(
            words_from_json(data.get("weights"), "a weight", least=1),
            cells=count_from_json(data.get("cells"), "cells", least=2),
            window=count_from_json(data.get("window"), "window", least=0),
        )

    def __repr__(self) -> str:
        return f"ShiftTable(cells={self._cells}, window={self._window})"

    def _tail(self, distance: Any) -> Any:
        """The weight of noise >= distance, for 0 <= distance <= reach."""
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
    """For each value of a word's leading bits, where bisection may start: about one slot per outcome, at most 2^18."""
    bits = min(18, int(starts.size).bit_length())
    shift = np.uint64(WORD_BITS - bits)
    firsts = np.arange(1 << bits, dtype=np.uint64) << shift
    guide = np.searchsorted(starts, firsts, side="right") - 1
    return shift, np.append(guide, starts.size - 1)
