"""Tables for any mechanism on finite sets: rows of integer weights that sum to 2^64, and randomized rounding to such rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling._kernels import largest_ratio, round_to_anchors, sample_rows, spread_residual
from labeldp.sampling.table import (
    TOTAL,
    Codes,
    Table,
    Words,
    WorstRatio,
    canonical_bytes,
    check_entries,
    count_from_json,
    exact_sum,
    frozen_words,
    integer_from_json,
    words_from_json,
)

_LARGEST = TOTAL - 1
_TOLERANCE = 1e-9
"""How far rounding may move a probability of a matrix beyond the limit set by ε."""


class WeightTable(Table):
    """A table of weights: symbol i gives output j with probability `weight(i, j) / 2^64`, exactly.

    Every weight is at least 1: if only some symbols could give an output, ε would be infinite. Sampling bisects the
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
    The table is ε-DP for e^ε = `worst_ratio`. `from_probabilities` makes a table for a given ε.

    Examples
    --------
    >>> from labeldp.sampling import WeightTable
    >>> table = WeightTable([[3 << 62, 1 << 62], [1 << 62, 3 << 62]])
    >>> table.probabilities().tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    >>> table.worst_ratio().ratio
    Fraction(3, 1)
    """

    kind = "weights"
    _starts: Words

    def __init__(self, weights: Sequence[Sequence[int]] | NDArray[np.uint64]) -> None:
        checked = _checked_weights(weights)
        starts = np.zeros_like(checked)  # where each output's range of words starts; the last range ends at 2^64
        np.cumsum(checked[:, :-1], axis=1, out=starts[:, 1:])
        self._store(inputs=int(starts.shape[0]), outputs=int(starts.shape[1]), _starts=frozen_words(starts))

    @classmethod
    def from_probabilities(cls, matrix: ArrayLike, epsilon: Epsilon) -> WeightTable:
        """Return an exactly ε-DP integer table close to a matrix of floats.

        Column j gets the range `[t_j, ⌊E·t_j⌋]`, where E is a rational lower bound of e^ε and `t_j` is the column's minimum (at
        least 1). Entries are moved into their range, and each row is then completed to 2^64 within the ranges.

        Parameters
        ----------
        matrix : array-like of float
            Rows of probabilities.
        epsilon : float, int, str, Decimal or Fraction
            The guarantee.

        Returns
        -------
        WeightTable
            With a `worst_ratio` of at most e^ε, checked in rational arithmetic.

        Raises
        ------
        PrivacyRefused
            If the matrix is not ε-DP up to rounding (1e-9), or no rows within the ranges sum to 2^64.
        """
        bound = exact_epsilon(epsilon)
        table = cls(_rounded_weights(matrix, bound))
        if table.worst_ratio().ratio > exp_lower(bound):
            raise PrivacyRefused(f"no integer table near this matrix could be proven {decimal_text(bound)}-DP")
        return table

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:  # noqa: ARG002
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
        """Return every weight as a Python integer, row by row."""
        if self.outputs == 1:
            return [[TOTAL]] * self.inputs
        rows: list[list[int]] = self._words(np.arange(self.inputs)).tolist()
        return rows

    def worst_ratio(self) -> WorstRatio:
        """Return the largest ratio of two weights in a column, compared exactly by 128-bit products. O(inputs · outputs)."""
        if self.outputs == 1 or self.inputs == 1:
            return WorstRatio(Fraction(1), 0, 0, 0)
        words = self._words(np.arange(self.inputs))
        high, low = words.argmax(axis=0), words.argmin(axis=0)
        columns = np.arange(self.outputs)
        column = int(largest_ratio(words[high, columns], words[low, columns]))
        high_row, low_row = int(high[column]), int(low[column])
        ratio = Fraction(int(words[high_row, column]), int(words[low_row, column]))
        return WorstRatio(ratio, high_row, low_row, column)

    def canonical(self) -> bytes:
        return canonical_bytes("weight", (self.inputs, self.outputs), self._starts)

    def _to_json(self) -> dict[str, Any]:
        return {"weights": [[str(weight) for weight in row] for row in self.weights()]}

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Self:
        rows = data.get("weights")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
            raise InvalidInput("weights must be a list of rows, each a list of numbers written as strings")
        if any(len(row) != len(rows[0]) for row in rows):
            raise InvalidInput("the rows of weights differ in length")
        if len(rows[0]) == 1:
            return cls([[integer_from_json(row[0], "a weight")] for row in rows])
        return cls(np.stack([words_from_json(row, "a weight", least=1) for row in rows]))

    def _words(self, rows: NDArray[np.int64]) -> Words:
        """Return the weights of some rows, for two outputs or more; a single weight of 2^64 does not fit into a word."""
        starts = self._starts[rows]
        words = np.empty_like(starts)
        np.subtract(starts[:, 1:], starts[:, :-1], out=words[:, :-1])
        words[:, -1] = np.uint64(0) - starts[:, -1]  # 2^64 − start; np.negative into a strided column is wrong
        return words


class AnchoredTable(Table):
    """Randomized rounding of cells to anchors, which are the rows of another table.

    Cell c uses row `lower_anchor[c] + 1` of `inner` with probability `upper_weight[c] / 2^64`, and row `lower_anchor[c]`
    otherwise. Sampling needs a second word for the rounding.

    Parameters
    ----------
    lower_anchor : array-like of int
        The anchor at or below each cell.
    upper_weight : array-like of int
        The weight of the next anchor for each cell, out of 2^64.
    inner : WeightTable
        The table of the anchors.

    Raises
    ------
    InvalidInput
        If an anchor is not a row of `inner`.

    Privacy
    -------
    Each cell's distribution is a mixture of rows of `inner`, and a mixture of numbers lies between them. So the ε of `inner`
    holds for every pair of cells.

    Examples
    --------
    >>> from labeldp.sampling import AnchoredTable, WeightTable
    >>> inner = WeightTable([[3 << 62, 1 << 62], [1 << 62, 3 << 62]])
    >>> AnchoredTable([0, 0, 1], [0, 1 << 63, 0], inner).probabilities().tolist()
    [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]
    """

    kind = "anchored"
    scale_bits = 128
    needs_rounding = True
    _lower_anchor: NDArray[np.uint32]
    _upper_weight: Words
    _inner: WeightTable

    def __init__(self, lower_anchor: ArrayLike, upper_weight: ArrayLike, inner: WeightTable) -> None:
        anchors = np.array(lower_anchor, dtype=np.uint32)
        weights = frozen_words(upper_weight)
        if anchors.ndim != 1 or anchors.shape != weights.shape or not anchors.size:
            raise InvalidInput("one lower anchor and one weight per cell are needed, for at least one cell")
        if int((anchors + (weights > 0).astype(np.int64)).max()) >= inner.inputs:
            raise InvalidInput(f"an anchor lies outside of the inner table's {inner.inputs} rows")
        anchors.flags.writeable = False
        self._store(inputs=int(anchors.size), outputs=inner.outputs)
        self._store(_lower_anchor=anchors, _upper_weight=weights, _inner=inner)

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:
        anchors = np.empty(symbols.shape, dtype=np.uint32)
        round_to_anchors(symbols, rounding_words, self._lower_anchor, self._upper_weight, anchors)
        codes[:] = self._inner.sample(anchors, words)

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        inner = self._inner.probabilities()
        lower = self._lower_anchor[rows].astype(np.int64)
        upper = np.minimum(lower + 1, self._inner.inputs - 1)
        share = (self._upper_weight[rows] / float(TOTAL))[:, np.newaxis]
        mixture: NDArray[np.float64] = inner[lower] * (1 - share) + inner[upper] * share
        return mixture

    def _weight(self, symbol: int, code: int) -> int:
        """Return weights out of 2^128: weights of the rounding times weights of the anchors' rows."""
        anchor, upper = int(self._lower_anchor[symbol]), int(self._upper_weight[symbol])
        below = (TOTAL - upper) * self._inner.weight(anchor, code)
        return below + (upper * self._inner.weight(anchor + 1, code) if upper else 0)

    def worst_ratio(self) -> WorstRatio:
        """Return the worst ratio of the inner table, which no pair of cells exceeds. Its rows are anchors."""
        return self._inner.worst_ratio()

    def canonical(self) -> bytes:
        return (
            canonical_bytes("anchored", (self.inputs,), self._lower_anchor, self._upper_weight)
            + self._inner.canonical()
        )

    def _to_json(self) -> dict[str, Any]:
        return {
            "lower_anchor": self._lower_anchor.tolist(),
            "upper_weight": [str(weight) for weight in self._upper_weight.tolist()],
            "inner": self._inner.to_json(),
        }

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Self:
        anchors, inner = data.get("lower_anchor"), data.get("inner")
        if not isinstance(anchors, list) or not isinstance(inner, dict) or inner.get("kind") != "weights":
            raise InvalidInput("an anchored table needs a list lower_anchor and an inner table of weights")
        return cls(
            [count_from_json(anchor, "an anchor", least=0) for anchor in anchors],
            words_from_json(data.get("upper_weight"), "a rounding weight"),
            WeightTable._from_json(inner),  # noqa: SLF001 - same package
        )


def _checked_weights(weights: Sequence[Sequence[int]] | NDArray[np.uint64]) -> Words:
    """Return the weights as words, after checking that every row sums to 2^64. A single column becomes zeros: 2^64 wraps around."""
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
        raise InvalidInput("weights must be at least 1: if only some symbols can give an output, epsilon is infinite")
    for number, row in enumerate(weights):
        if (total := exact_sum(row)) != TOTAL:
            raise InvalidInput(f"the weights of row {number} sum to {total}, not to 2^64")
    return weights


def _rounded_weights(matrix: ArrayLike, epsilon: Fraction) -> Words:
    """Return integer weights near `2^64 · matrix` with `t_j <= w_ij <= ⌊E·t_j⌋` and rows that sum to 2^64."""
    probabilities = _checked_matrix(matrix)
    least = probabilities.min(axis=0)
    _refuse_unless_private(probabilities, least, epsilon)
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


def _refuse_unless_private(probabilities: NDArray[np.float64], least: NDArray[np.float64], epsilon: Fraction) -> None:
    excess = probabilities.max(axis=0) - np.exp(float(epsilon)) * least
    column = int(excess.argmax())
    if excess[column] > _TOLERANCE:
        high, low = int(probabilities[:, column].argmax()), int(probabilities[:, column].argmin())
        raise PrivacyRefused(
            f"the matrix is not {decimal_text(epsilon)}-DP: output {column} has probability "
            f"{probabilities[high, column]:.6g} from symbol {high} and {least[column]:.6g} from symbol {low}"
        )


def _column_minima(least: NDArray[np.float64]) -> Words:
    """Return the column minima `t_j` rounded up. If they then sum to more than 2^64, as for equal rows, the largest is lowered."""
    lower = np.maximum(_scaled(np.ceil(np.ldexp(least, 64)) * 2.0**-64), np.uint64(1))
    excess = exact_sum(lower) - TOTAL
    if excess > 0:
        largest = int(lower.argmax())
        lower[largest] = int(lower[largest]) - excess
    return lower


def _scaled(probabilities: NDArray[np.float64]) -> Words:
    """Return `2^64 · p` rounded down; a probability of 1 becomes the largest word."""
    scaled = np.ldexp(probabilities, 64)
    full = scaled >= 2.0**64
    words = np.where(full, 0.0, scaled).astype(np.uint64)
    words[full] = _LARGEST
    return words
