"""Randomized response on d outputs as two integers."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.table import (
    TOTAL,
    WORD_BITS,
    Codes,
    TableBase,
    Words,
    WorstRatio,
    check_draw,
    check_index,
    chosen_symbols,
    count_from_json,
    integer_from_json,
)


class ResponseTable(TableBase):
    """Keep the symbol with weight `keep`, any other output with weight `other`, out of 2^64.

    Privacy guarantee: `keep <= e^ε · other` holds exactly, in rational arithmetic, for the integers that are sampled;
    so the output of one draw is ε-DP in its symbol. `other` is the smallest integer for which that can be shown from a
    lower bound of e^ε, so the loss against the ideal probabilities is below one part in 2^64 per output.
    One output needs no randomness and reveals nothing.
    """

    __slots__ = ("_keep", "_other", "_outputs")

    scale_bits = WORD_BITS
    needs_rounding = False

    def __init__(self, outputs: int, epsilon: Epsilon) -> None:
        keep, other = _weights_for(outputs, exact_epsilon(epsilon))
        self._set(outputs, keep, other)

    @classmethod
    def from_weights(cls, outputs: int, keep: int, other: int) -> ResponseTable:
        """The table of these integers, as read from a file. What ε they have, `worst_ratio` says."""
        table = cls.__new__(cls)
        table._set(outputs, keep, other)  # noqa: SLF001 - its own
        return table

    def _set(self, outputs: int, keep: int, other: int) -> None:
        if not 1 <= outputs < 1 << 32:
            raise InvalidInput(f"a table needs between 1 and 2^32 - 1 outputs, got {outputs}")
        if keep + (outputs - 1) * other != TOTAL:
            raise InvalidInput(f"keep + {outputs - 1} × other must be 2^64, got keep = {keep} and other = {other}")
        if outputs > 1 and not 1 <= other <= keep:
            raise InvalidInput(f"weights must satisfy 1 <= other <= keep, got keep = {keep} and other = {other}")
        self._outputs, self._keep, self._other = int(outputs), int(keep), int(other)

    @property
    def inputs(self) -> int:
        return self._outputs

    @property
    def outputs(self) -> int:
        return self._outputs

    @property
    def keep(self) -> int:
        return self._keep

    @property
    def other(self) -> int:
        return self._other

    def sample(self, symbols: NDArray[np.uint32], words: Words, rounding_words: Words | None = None) -> Codes:  # noqa: ARG002
        check_draw(symbols, words, self.inputs)
        codes = np.zeros(symbols.shape, dtype=np.uint32)
        if self._outputs > 1:
            from labeldp.sampling._kernels import sample_response

            sample_response(symbols, words, np.uint64(self._keep), np.uint64(self._other), codes)
        return codes

    def probabilities(self, symbols: ArrayLike | None = None) -> NDArray[np.float64]:
        rows = chosen_symbols(symbols, self.inputs, self.outputs)
        matrix = np.full((rows.size, self._outputs), self._other / TOTAL)
        matrix[np.arange(rows.size), rows] = self._keep / TOTAL
        return matrix

    def weight(self, symbol: int, code: int) -> int:
        check_index(symbol, code, self.inputs, self.outputs)
        return self._keep if symbol == code else self._other

    def debiased(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values t of the outputs with E[t | symbol] = the symbol's mean: t_j = (μ_j − q·Σμ)/(p − q), p = keep/2^64, q = other/2^64."""
        other, gap = self._other / TOTAL, (self._keep - self._other) / TOTAL
        return np.asarray((means - other * means.sum()) / gap)

    def worst_ratio(self) -> WorstRatio:
        if self._outputs == 1:
            return WorstRatio(Fraction(1), 0, 0, 0)
        return WorstRatio(Fraction(self._keep, self._other), 0, 1, 0)

    def canonical(self) -> bytes:
        integers = (self._outputs, self._keep - 1, self._other)
        return b"labeldp response table 1\0" + struct.pack("<QQQ", *integers)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "response", "outputs": self._outputs, "keep": str(self._keep), "other": str(self._other)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ResponseTable:
        return cls.from_weights(
            count_from_json(data.get("outputs"), "outputs"),
            integer_from_json(data.get("keep"), "keep"),
            integer_from_json(data.get("other"), "other"),
        )

    def __repr__(self) -> str:
        return f"ResponseTable(outputs={self._outputs}, keep={self._keep}, other={self._other})"


def _weights_for(outputs: int, epsilon: Fraction) -> tuple[int, int]:
    """`other = ⌈2^64 / (E + d − 1)⌉` gives `keep = 2^64 − (d−1)·other <= E·other` for any E <= e^ε."""
    if outputs <= 1:
        return TOTAL, 0
    denominator = exp_lower(epsilon) + outputs - 1
    other = -(-TOTAL * denominator.denominator // denominator.numerator)
    keep = TOTAL - (outputs - 1) * other
    if keep < other:
        raise PrivacyRefused(
            f"64 random bits cannot tell {outputs:,} outputs apart at epsilon = {decimal_text(epsilon)}: "
            "the true output would come out less often than the others. Use fewer outputs or a larger epsilon"
        )
    return keep, other
