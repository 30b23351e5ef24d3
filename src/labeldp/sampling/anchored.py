"""A fine grid of cells over a small exact table: randomized rounding to anchors, then the anchor's row."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.table import (
    TOTAL,
    Codes,
    TableBase,
    Words,
    WorstRatio,
    check_draw,
    check_index,
    chosen_symbols,
    count_from_json,
    frozen_words,
    words_from_json,
)
from labeldp.sampling.weights import WeightTable


class AnchoredTable(TableBase):
    """Cell c takes row `lower_anchor[c] + 1` of `inner` with probability `upper_weight[c] / 2^64`, else the row below.

    Privacy guarantee: each cell's distribution is a mixture of rows of `inner`, and a mixture of numbers lies between
    them; so whatever ε `inner` has holds for every pair of cells. Sampling needs a second word for the rounding.
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
        return int(self._lower_anchor.size)

    @property
    def outputs(self) -> int:
        return self._inner.outputs

    @property
    def inner(self) -> WeightTable:
        return self._inner

    @property
    def lower_anchor(self) -> NDArray[np.uint32]:
        return self._lower_anchor

    @property
    def upper_weight(self) -> Words:
        return self._upper_weight

    def sample(self, symbols: NDArray[np.uint32], words: Words, rounding_words: Words | None = None) -> Codes:
        if rounding_words is None:
            raise InvalidInput("an anchored table needs rounding words: draw with rounding=True")
        check_draw(symbols, rounding_words, self.inputs)
        from labeldp.sampling._kernels import round_to_anchors

        rows = np.empty(symbols.shape, dtype=np.uint32)
        round_to_anchors(symbols, rounding_words, self._lower_anchor, self._upper_weight, rows)
        return self._inner.sample(rows, words)

    def probabilities(self, symbols: ArrayLike | None = None) -> NDArray[np.float64]:
        cells = chosen_symbols(symbols, self.inputs, self.outputs)
        rows = self._inner.probabilities()
        lower = self._lower_anchor[cells].astype(np.int64)
        upper = np.minimum(lower + 1, self._inner.inputs - 1)
        share = (self._upper_weight[cells] / float(TOTAL))[:, np.newaxis]
        mixture: NDArray[np.float64] = rows[lower] * (1 - share) + rows[upper] * share
        return mixture

    def weight(self, symbol: int, code: int) -> int:
        """Out of 2^128: the product of the rounding's and the row's weights."""
        check_index(symbol, code, self.inputs, self.outputs)
        anchor, upper = int(self._lower_anchor[symbol]), int(self._upper_weight[symbol])
        below = (TOTAL - upper) * self._inner.weight(anchor, code)
        return below + (upper * self._inner.weight(anchor + 1, code) if upper else 0)

    def worst_ratio(self) -> WorstRatio:
        """The inner table's, which no pair of cells exceeds; the rows named are anchors."""
        return self._inner.worst_ratio()

    def canonical(self) -> bytes:
        arrays = self._lower_anchor.astype("<u4").tobytes() + self._upper_weight.astype("<u8").tobytes()
        return b"labeldp anchored table 1\0" + struct.pack("<Q", self.inputs) + arrays + self._inner.canonical()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "anchored",
            "lower_anchor": self._lower_anchor.tolist(),
            "upper_weight": [str(weight) for weight in self._upper_weight.tolist()],
            "inner": self._inner.to_json(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> AnchoredTable:
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
