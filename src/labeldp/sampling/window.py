"""A window that slides with the symbol: its outputs are likelier than all others. Stored as four integers."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.table import TOTAL, Codes, Table, Words, WorstRatio, count_from_json, integer_from_json


class WindowTable(Table):
    """The `window` codes from the symbol on have weight `inside` each, all other codes have weight `outside`, out of 2^64.

    There are `inputs + window − 1` codes, so that every symbol has a whole window. What 2^64 leaves after that, fewer units
    than a window has codes, goes to the first codes of the window, one unit each. Sampling takes O(1) time and no memory. A
    window of one code is randomized response.

    Parameters
    ----------
    inputs : int
        The number of symbols.
    window : int
        The number of likelier codes.
    epsilon : float, int, str, Decimal or Fraction
        The guarantee.

    Raises
    ------
    PrivacyRefused
        If 64 bits are too few for so many outputs at so small an ε.

    Privacy
    -------
    One draw is ε-DP in its symbol: `inside + 1 <= e^ε · outside`, or `inside <= e^ε · outside` where nothing is left over,
    holds exactly for the integers that are sampled.

    Examples
    --------
    >>> from labeldp.sampling import WindowTable
    >>> WindowTable(inputs=3, window=2, epsilon=1).probabilities().round(3).tolist()
    [[0.366, 0.366, 0.134, 0.134], [0.134, 0.366, 0.366, 0.134], [0.134, 0.134, 0.366, 0.366]]
    """

    __slots__ = ("_inputs", "_inside", "_outside", "_spare", "_window")

    def __init__(self, inputs: int, window: int, epsilon: Epsilon) -> None:
        _check_size(inputs, window)
        self._set(inputs, window, *_weights_for(inputs, window, exact_epsilon(epsilon)))

    @classmethod
    def from_weights(cls, inputs: int, window: int, inside: int, outside: int) -> WindowTable:
        """The table with these integers, for example from a file.

        Parameters
        ----------
        inputs, window : int
            The numbers of symbols and of codes in a window.
        inside, outside : int
            The weights, `outside <= inside`. They must leave fewer units of 2^64 than a window has codes.

        Returns
        -------
        WindowTable
            A valid table; its ε is for `worst_ratio` to say.
        """
        _check_size(inputs, window)
        table = cls.__new__(cls)
        table._set(inputs, window, inside, outside)  # noqa: SLF001 - a method of its own class
        return table

    def _set(self, inputs: int, window: int, inside: int, outside: int) -> None:
        spare = TOTAL - window * inside - (inputs - 1) * outside
        if not 0 <= spare < window:
            raise InvalidInput(
                f"{window} × inside + {inputs - 1} × outside must be 2^64 or at most {window - 1} less, got inside = {inside} "
                f"and outside = {outside}"
            )
        if inside < 1 or (inputs > 1 and not 1 <= outside <= inside) or (inputs == 1 and outside):
            raise InvalidInput(
                f"weights must satisfy 1 <= outside <= inside, and outside = 0 for one symbol, got inside = {inside} and "
                f"outside = {outside}"
            )
        self._inputs, self._window = int(inputs), int(window)
        self._inside, self._outside, self._spare = int(inside), int(outside), int(spare)

    @property
    def inputs(self) -> int:
        """The number of symbols."""
        return self._inputs

    @property
    def outputs(self) -> int:
        """The number of codes."""
        return self._inputs + self._window - 1

    @property
    def window(self) -> int:
        """The number of codes in a window."""
        return self._window

    @property
    def inside(self) -> int:
        """The weight of each code in the window, out of 2^64, before spare units."""
        return self._inside

    @property
    def outside(self) -> int:
        """The weight of each other code, out of 2^64."""
        return self._outside

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:  # noqa: ARG002
        from labeldp.sampling._kernels import sample_window

        numbers = (self._window, self._inside, self._outside, self._spare)
        sample_window(symbols, words, *(np.uint64(number) for number in numbers), codes)

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        place = np.arange(self.outputs) - rows[:, np.newaxis]
        matrix = np.full(place.shape, self._outside / TOTAL)
        matrix[(place >= 0) & (place < self._window)] = self._inside / TOTAL
        matrix[(place >= 0) & (place < self._spare)] = (self._inside + 1) / TOTAL
        return matrix

    def _weight(self, symbol: int, code: int) -> int:
        if not symbol <= code < symbol + self._window:
            return self._outside
        return self._inside + (code - symbol < self._spare)

    def debiased(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values t for the codes whose expectation, given a symbol, is the mean of that symbol. O(outputs).

        Neighbouring windows differ by one code at either end, so the means fix every t_{s+window} − t_s. What is free is one
        number for each code of the first window. They are those of least variance, averaged over the symbols.

        Parameters
        ----------
        means : array of float64
            The mean μ of each symbol.

        Returns
        -------
        array of float64
            The value t of each code.
        """
        window, outside = self._window, self._outside / TOTAL
        gap = (self._inside - self._outside) / TOTAL
        climb = np.zeros((-(-self.outputs // window), window))  # code by code, in rows of one window
        climb.reshape(-1)[window : self.outputs] = np.diff(means) / gap
        climb = np.cumsum(climb, axis=0).reshape(-1)[: self.outputs]
        code = np.arange(self.outputs)
        covered = np.minimum(np.minimum(code + 1, self.outputs - code), min(window, self._inputs))
        chance = outside + gap * covered / self._inputs
        column = code % window
        chances = np.bincount(column, chance, window)
        start = -np.bincount(column, chance * climb, window) / chances
        share = outside * np.bincount(column, minlength=window) + gap
        missing = means[0] - outside * climb.sum() - share @ start
        start += missing * (share / chances) / (share @ (share / chances))
        return np.asarray(start[column] + climb)

    def worst_ratio(self) -> WorstRatio:
        """The first code of the first window against the same code outside of the second one; 1 for a single symbol."""
        if self._inputs == 1:
            return WorstRatio(Fraction(1), 0, 0, 0)
        return WorstRatio(Fraction(self._weight(0, 0), self._outside), 0, 1, 0)

    def canonical(self) -> bytes:
        """The bytes that digests are made of."""
        integers = (self._inputs, self._window, self._inside - 1, self._outside)
        return b"labeldp window table 1\0" + struct.pack("<QQQQ", *integers)

    def to_json(self) -> dict[str, Any]:
        """The table as a JSON object."""
        return {
            "kind": "window",
            "inputs": self._inputs,
            "window": self._window,
            "inside": str(self._inside),
            "outside": str(self._outside),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> WindowTable:
        """The table in a JSON object, checked again.

        Parameters
        ----------
        data : dict
            What `to_json` returned.

        Returns
        -------
        WindowTable
            A valid table; its ε is for `worst_ratio` to say.
        """
        return cls.from_weights(
            count_from_json(data.get("inputs"), "inputs"),
            count_from_json(data.get("window"), "window"),
            integer_from_json(data.get("inside"), "inside"),
            integer_from_json(data.get("outside"), "outside"),
        )

    def __repr__(self) -> str:
        return (
            f"WindowTable(inputs={self._inputs}, window={self._window}, inside={self._inside}, outside={self._outside})"
        )


def _check_size(inputs: int, window: int) -> None:
    if inputs < 1 or window < 1 or inputs + window - 1 >= 1 << 32:
        raise InvalidInput(
            f"a window table needs at least one symbol, a window of at least one code and fewer than 2^32 codes, got {inputs} "
            f"symbols and a window of {window}"
        )


def _weights_for(inputs: int, window: int, epsilon: Fraction) -> tuple[int, int]:
    """With `outside = ⌈(2^64 + w − 1) / (w·E + k − 1)⌉`, what is left for the window, rounded up for each code, is <= E·outside."""
    if inputs == 1:
        return TOTAL // window, 0
    denominator = window * exp_lower(epsilon) + inputs - 1
    outside = -(-(TOTAL + window - 1) * denominator.denominator // denominator.numerator)
    inside = (TOTAL - (inputs - 1) * outside) // window
    if inside < outside:
        raise PrivacyRefused(
            f"64 random bits cannot tell {inputs + window - 1:,} outputs apart at epsilon = {decimal_text(epsilon)}: "
            "the outputs near the label would come out less often than the others. Use fewer outputs or a larger epsilon"
        )
    return inside, outside
