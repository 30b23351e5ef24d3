"""A fine grid of cells over a small exact table: a label is rounded to an anchor at random, then the anchor's row is used."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.table import (
    TOTAL,
    Codes,
    Table,
    Words,
    WorstRatio,
    count_from_json,
    frozen_words,
    words_from_json,
)
from labeldp.sampling.weights import WeightTable


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
    Each cell's distribution is a mixture of rows of `inner`, and a mixture of numbers lies between them. So whatever ε `inner`
    has holds for every pair of cells.

    Examples
    --------
    >>> from labeldp.sampling import AnchoredTable, WeightTable
    >>> inner = WeightTable([[3 << 62, 1 << 62], [1 << 62, 3 << 62]])
    >>> AnchoredTable([0, 0, 1], [0, 1 << 63, 0], inner).probabilities().tolist()
    [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]
    """

    __slots__ = ("_inner", "_lower_anchor", "_upper_weight")

    scale_bits = 128
    needs_rounding = True

    def __init__(self, lower_anchor: ArrayLike, upper_weight: ArrayLike, inner: WeightTable) -> None:
        anchors = np.array(lower_anchor, dtype=np.uint32)
        weights = frozen_words(upper_weight)
        if anchors.ndim != 1 or anchors.shape != weights.shape or not anchors.size:
            raise InvalidInput("one lower anchor and one weight per cell are needed, for at least one cell")
        if int((anchors + (weights > 0).astype(np.int64)).max()) >= inner.inputs:
            raise InvalidInput(f"an anchor lies outside of the inner table's {inner.inputs} rows")
        anchors.flags.writeable = False
        self._lower_anchor, self._upper_weight, self._inner = anchors, weights, inner

    @property
    def inputs(self) -> int:
        """The number of symbols."""
        return int(self._lower_anchor.size)

    @property
    def outputs(self) -> int:
        """The number of codes."""
        return self._inner.outputs

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:
        from labeldp.sampling._kernels import round_to_anchors

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
        """Out of 2^128: weights of the rounding times weights of the anchors' rows."""
        anchor, upper = int(self._lower_anchor[symbol]), int(self._upper_weight[symbol])
        below = (TOTAL - upper) * self._inner.weight(anchor, code)
        return below + (upper * self._inner.weight(anchor + 1, code) if upper else 0)

    def worst_ratio(self) -> WorstRatio:
        """The worst ratio of the inner table, which no pair of cells exceeds. Its rows are anchors."""
        return self._inner.worst_ratio()

    def canonical(self) -> bytes:
        """The bytes that digests are made of."""
        arrays = self._lower_anchor.astype("<u4").tobytes() + self._upper_weight.astype("<u8").tobytes()
        return b"labeldp anchored table 1\0" + struct.pack("<Q", self.inputs) + arrays + self._inner.canonical()

    def to_json(self) -> dict[str, Any]:
        """The table as a JSON object."""
        return {
            "kind": "anchored",
            "lower_anchor": self._lower_anchor.tolist(),
            "upper_weight": [str(weight) for weight in self._upper_weight.tolist()],
            "inner": self._inner.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> AnchoredTable:
        """The table in a JSON object, checked again.

        Parameters
        ----------
        data : dict
            What `to_json` returned.

        Returns
        -------
        AnchoredTable
            A valid table; its ε is for `worst_ratio` to say.
        """
        anchors, inner = data.get("lower_anchor"), data.get("inner")
        if not isinstance(anchors, list) or not isinstance(inner, dict) or inner.get("kind") != "weights":
            raise InvalidInput("an anchored table needs a list lower_anchor and an inner table of weights")
        return cls(
            [count_from_json(anchor, "an anchor", least=0) for anchor in anchors],
            words_from_json(data.get("upper_weight"), "a rounding weight"),
            WeightTable.from_json(inner),
        )

    def __repr__(self) -> str:
        return f"AnchoredTable({self.inputs} cells over {self._inner!r})"
