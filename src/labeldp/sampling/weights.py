"""Any mechanism on finite sets, stored as rows of integer weights that sum to 2^64."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.table import (
    TOTAL,
    Codes,
    Table,
    Words,
    WorstRatio,
    check_entries,
    exact_sum,
    frozen_words,
    integer_from_json,
    words_from_json,
)


class WeightTable(Table):
    """A table of weights: symbol i gives output j with probability `weight(i, j) / 2^64`, exactly.

    Every weight is at least 1, because an output that only some symbols can give has no finite ε. Sampling bisects the
    cumulative weights in O(log outputs) per label. Memory is 8 bytes per entry, for at most 2·10⁷ entries.

    Parameters
    ----------
    weights : sequence of sequences of int, or array of uint64
        One row per symbol, one column per output. Each row sums to 2^64.

    Raises
    ------
    InvalidInput
        If a row does not sum to 2^64 or has a weight below 1.

    Privacy
    -------
    The table is as private as `worst_ratio` says; `from_probabilities` makes one that is ε-DP.

    Examples
    --------
    >>> from labeldp.sampling import WeightTable
    >>> table = WeightTable([[3 << 62, 1 << 62], [1 << 62, 3 << 62]])
    >>> table.probabilities().tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    >>> table.worst_ratio().ratio
    Fraction(3, 1)
    """

    __slots__ = ("_starts",)

    def __init__(self, weights: Sequence[Sequence[int]] | NDArray[np.uint64]) -> None:
        self._starts = _starts_of(_checked_weights(weights))

    @classmethod
    def from_probabilities(cls, matrix: ArrayLike, epsilon: Epsilon, *, tolerance: float = 1e-9) -> WeightTable:
        """An exactly ε-DP integer table close to a matrix of floats.

        Column j gets the range `[t_j, ⌊E·t_j⌋]`, where E is a rational lower bound of e^ε and `t_j` is the column's minimum (at
        least 1). Entries are moved into their range, and each row is then completed to 2^64 within the ranges.

        Parameters
        ----------
        matrix : array-like of float
            Rows of probabilities.
        epsilon : float, int, str, Decimal or Fraction
            The guarantee.
        tolerance : float, default 1e-9
            By how much a probability of the matrix may exceed what ε allows, because of rounding.

        Returns
        -------
        WeightTable
            With a `worst_ratio` of at most e^ε, checked in rational arithmetic.

        Raises
        ------
        PrivacyRefused
            If the matrix is not ε-DP within the tolerance, or no rows within the ranges sum to 2^64.
        """
        from labeldp.sampling._rounding import rounded_weights

        bound = exact_epsilon(epsilon)
        table = cls(rounded_weights(matrix, bound, tolerance))
        if table.worst_ratio().ratio > exp_lower(bound):
            raise PrivacyRefused(f"no integer table near this matrix could be proven {decimal_text(bound)}-DP")
        return table

    @property
    def inputs(self) -> int:
        """The number of symbols."""
        return int(self._starts.shape[0])

    @property
    def outputs(self) -> int:
        """The number of codes."""
        return int(self._starts.shape[1])

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:  # noqa: ARG002
        from labeldp.sampling._kernels import sample_rows

        sample_rows(symbols, words, self._starts, codes)

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.outputs == 1:
            return np.ones((rows.size, 1))
        return self._words(rows) / float(TOTAL)

    def _weight(self, symbol: int, code: int) -> int:
        start = int(self._starts[symbol, code])
        end = int(self._starts[symbol, code + 1]) if code + 1 < self.outputs else TOTAL
        return end - start

    def weights(self) -> list[list[int]]:
        """Every weight as a Python integer, row by row."""
        if self.outputs == 1:
            return [[TOTAL]] * self.inputs
        rows: list[list[int]] = self._words(np.arange(self.inputs)).tolist()
        return rows

    def worst_ratio(self) -> WorstRatio:
        """The largest ratio of two weights in a column, compared exactly by 128-bit products. O(inputs · outputs)."""
        if self.outputs == 1 or self.inputs == 1:
            return WorstRatio(Fraction(1), 0, 0, 0)
        from labeldp.sampling._kernels import largest_ratio

        words = self._words(np.arange(self.inputs))
        high, low = words.argmax(axis=0), words.argmin(axis=0)
        columns = np.arange(self.outputs)
        column = int(largest_ratio(words[high, columns], words[low, columns]))
        high_row, low_row = int(high[column]), int(low[column])
        ratio = Fraction(int(words[high_row, column]), int(words[low_row, column]))
        return WorstRatio(ratio, high_row, low_row, column)

    def canonical(self) -> bytes:
        """The bytes that digests are made of."""
        header = struct.pack("<QQ", self.inputs, self.outputs)
        return b"labeldp weight table 1\0" + header + self._starts.astype("<u8").tobytes()

    def to_json(self) -> dict[str, Any]:
        """The table as a JSON object."""
        return {"kind": "weights", "weights": [[str(weight) for weight in row] for row in self.weights()]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> WeightTable:
        """The table in a JSON object, checked again.

        Parameters
        ----------
        data : dict
            What `to_json` returned.

        Returns
        -------
        WeightTable
            A valid table; its ε is for `worst_ratio` to say.
        """
        rows = data.get("weights")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
            raise InvalidInput("weights must be a list of rows, each a list of numbers written as strings")
        if any(len(row) != len(rows[0]) for row in rows):
            raise InvalidInput("the rows of weights differ in length")
        if len(rows[0]) == 1:
            return cls([[integer_from_json(row[0], "a weight")] for row in rows])
        return cls(np.stack([words_from_json(row, "a weight", least=1) for row in rows]))

    def __repr__(self) -> str:
        return f"WeightTable({self.inputs} symbols × {self.outputs} outputs)"

    def _words(self, rows: NDArray[np.int64]) -> Words:
        """The weights of some rows, for two outputs or more; a single weight of 2^64 does not fit into a word."""
        starts = self._starts[rows]
        words = np.empty_like(starts)
        np.subtract(starts[:, 1:], starts[:, :-1], out=words[:, :-1])
        words[:, -1] = np.uint64(0) - starts[:, -1]  # 2^64 − start; np.negative into a strided column is wrong
        return words


def _checked_weights(weights: Sequence[Sequence[int]] | NDArray[np.uint64]) -> Words:
    """The weights as words, after checking that every row sums to 2^64. A single column becomes zeros: 2^64 wraps around."""
    try:
        shape = np.shape(weights)
    except ValueError as error:
        raise InvalidInput("the rows of weights differ in length") from error
    if len(shape) != 2 or 0 in shape:
        raise InvalidInput(f"weights must be a matrix with at least one row and one column, got shape {shape}")
    check_entries(*shape)
    if shape[1] == 1:
        full = 0 if isinstance(weights, np.ndarray) and weights.dtype == np.uint64 else TOTAL
        if any(int(row[0]) != full for row in weights):
            raise InvalidInput("the only weight of a row must be 2^64")
        return np.zeros(shape, dtype=np.uint64)
    if not isinstance(weights, np.ndarray) or weights.dtype != np.uint64:
        if not all(isinstance(w, (int, np.integer)) and 0 < w < TOTAL for row in weights for w in row):
            raise InvalidInput("weights must be integers between 1 and 2^64 - 1")
        weights = np.array([[int(w) for w in row] for row in weights], dtype=np.uint64)
    if not weights.all():
        raise InvalidInput(
            "weights must be at least 1: an output that only some symbols can give has no finite epsilon"
        )
    for number, row in enumerate(weights):
        if (total := exact_sum(row)) != TOTAL:
            raise InvalidInput(f"the weights of row {number} sum to {total}, not to 2^64")
    return weights


def _starts_of(weights: Words) -> Words:
    """Where each output's range of words starts. The last range ends at 2^64, which is not stored."""
    starts = np.zeros_like(weights)
    np.cumsum(weights[:, :-1], axis=1, out=starts[:, 1:])
    return frozen_words(starts)
