"""Randomized response on d outputs, stored as two integers."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.table import TOTAL, Codes, Table, Words, WorstRatio, count_from_json, integer_from_json


class ResponseTable(Table):
    """Randomized response: the symbol itself has weight `keep` and every other output has weight `other`, out of 2^64.

    A table with one output needs no randomness and reveals nothing.

    Parameters
    ----------
    outputs : int
        The number of symbols, which is also the number of outputs.
    epsilon : float, int, str, Decimal or Fraction
        The guarantee.

    Raises
    ------
    PrivacyRefused
        If 64 bits are too few for so many outputs at so small an ε.

    Privacy
    -------
    One draw is ε-DP in its symbol: `keep <= e^ε · other` holds exactly, in rational arithmetic, for the integers that are
    sampled. `other` is the smallest integer for which a lower bound of e^ε proves it, so each probability differs from the
    ideal one by less than 2^-64 per output.

    Examples
    --------
    >>> from labeldp.sampling import ResponseTable
    >>> table = ResponseTable(outputs=3, epsilon="0.5")
    >>> table.probabilities([0]).round(3).tolist()
    [[0.452, 0.274, 0.274]]
    """

    __slots__ = ("_keep", "_other", "_outputs")

    def __init__(self, outputs: int, epsilon: Epsilon) -> None:
        keep, other = _weights_for(outputs, exact_epsilon(epsilon))
        self._set(outputs, keep, other)

    @classmethod
    def from_weights(cls, outputs: int, keep: int, other: int) -> ResponseTable:
        """The table with these integers, for example from a file.

        Parameters
        ----------
        outputs : int
            The number of outputs.
        keep, other : int
            The weights, with `keep + (outputs − 1)·other = 2^64` and `other <= keep`.

        Returns
        -------
        ResponseTable
            A valid table; its ε is for `worst_ratio` to say.
        """
        table = cls.__new__(cls)
        table._set(outputs, keep, other)  # noqa: SLF001 - a method of its own class
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
        """The number of symbols."""
        return self._outputs

    @property
    def outputs(self) -> int:
        """The number of codes."""
        return self._outputs

    @property
    def keep(self) -> int:
        """The weight of the symbol itself, out of 2^64."""
        return self._keep

    @property
    def other(self) -> int:
        """The weight of each other output, out of 2^64."""
        return self._other

    def _fill(self, codes: Codes, symbols: NDArray[np.uint32], words: Words, rounding_words: Words) -> None:  # noqa: ARG002
        from labeldp.sampling._kernels import sample_response

        sample_response(symbols, words, np.uint64(self._keep), np.uint64(self._other), codes)

    def _probabilities(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        matrix = np.full((rows.size, self._outputs), self._other / TOTAL)
        matrix[np.arange(rows.size), rows] = self._keep / TOTAL
        return matrix

    def _weight(self, symbol: int, code: int) -> int:
        return self._keep if symbol == code else self._other

    def debiased(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values t for the outputs whose expectation, given a symbol, is the mean of that symbol.

        With p = keep/2^64 and q = other/2^64, they are t_j = (μ_j − q·Σμ)/(p − q).

        Parameters
        ----------
        means : array of float64
            The mean μ of each symbol.

        Returns
        -------
        array of float64
            The value t of each output.
        """
        other, gap = self._other / TOTAL, (self._keep - self._other) / TOTAL
        return np.asarray((means - other * means.sum()) / gap)

    def worst_ratio(self) -> WorstRatio:
        """The ratio keep/other, or 1 for a single output."""
        if self._outputs == 1:
            return WorstRatio(Fraction(1), 0, 0, 0)
        return WorstRatio(Fraction(self._keep, self._other), 0, 1, 0)

    def canonical(self) -> bytes:
        """The bytes that digests are made of."""
        integers = (self._outputs, self._keep - 1, self._other)
        return b"labeldp response table 1\0" + struct.pack("<QQQ", *integers)

    def to_json(self) -> dict[str, Any]:
        """The table as a JSON object."""
        return {"kind": "response", "outputs": self._outputs, "keep": str(self._keep), "other": str(self._other)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ResponseTable:
        """The table in a JSON object, checked again.

        Parameters
        ----------
        data : dict
            What `to_json` returned.

        Returns
        -------
        ResponseTable
            A valid table; its ε is for `worst_ratio` to say.
        """
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
