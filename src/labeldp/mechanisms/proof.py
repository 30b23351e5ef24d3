"""The proof of ε for a table of integers, in rational arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from labeldp.budget import exp_lower, float_up, shown_amount
from labeldp.errors import PrivacyRefused

_PROOF_BITS = 256
"""The precision, in bits, of the bound on e^ε in proofs. Tables are built with fewer bits, so they pass."""


@dataclass(frozen=True)
class Proof:
    """The largest ratio of two symbols' probabilities of one output, in exact integers, against e^ε.

    Attributes
    ----------
    epsilon_claimed : Fraction
        The ε that the mechanism claims.
    ratio : Fraction
        The exact maximum over all pairs of symbols and all outputs.
    epsilon_proven : float
        ln(ratio), rounded up.
    holds : bool
        Whether `ratio` is at most a rational number below e^ε: if so, this is a proof.
    high_symbol, low_symbol, output : int
        Where the maximum occurs.

    Examples
    --------
    >>> from labeldp.mechanisms import RROnBins
    >>> RROnBins([10, 100], epsilon=1).proof().holds
    True
    """

    epsilon_claimed: Fraction
    ratio: Fraction
    epsilon_proven: float
    holds: bool
    high_symbol: int
    low_symbol: int
    output: int

    def require(self) -> Proof:
        """Raise `PrivacyRefused` unless the proof holds.

        Returns
        -------
        Proof
            This proof.

        Raises
        ------
        PrivacyRefused
            If it does not hold.
        """
        if not self.holds:
            raise PrivacyRefused(
                f"this mechanism is not {shown_amount(self.epsilon_claimed)}-DP: output {self.output} is "
                f"{float_up(self.ratio):.17g} times as likely from symbol {self.high_symbol} as from symbol "
                f"{self.low_symbol}, which takes epsilon = {self.epsilon_proven!r}. Nothing may be released with it"
            )
        return self

    def __str__(self) -> str:
        verdict = "proven" if self.holds else "NOT private"
        return (
            f"{verdict}: claimed epsilon = {shown_amount(self.epsilon_claimed)}, "
            f"worst ratio = {shown_amount(self.ratio)} = e^{self.epsilon_proven:.12g} "
            f"(output {self.output}, symbol {self.high_symbol} against {self.low_symbol})"
        )


def verify(mechanism: Any) -> Proof:
    """Prove or refute ε for the table of integers that a mechanism samples, in rational arithmetic.

    Parameters
    ----------
    mechanism : FiniteMechanism
        Or anything with a `table` and an `epsilon_exact`.

    Returns
    -------
    Proof
        Its verdict does not depend on floats.

    Raises
    ------
    PrivacyRefused
        If the mechanism lacks a table: nothing can be proven about draws that depend on floats.

    Examples
    --------
    >>> from labeldp.mechanisms import RROnBins, verify
    >>> verify(RROnBins([10, 100], epsilon=1)).epsilon_proven <= 1
    True
    """
    table = getattr(mechanism, "table", None)
    if table is None:
        raise PrivacyRefused(
            f"{type(mechanism).__name__} lacks a table of integers: its outputs depend on floats, "
            "whose rounding can reveal the label. Use its discrete counterpart"
        )
    claimed: Fraction = mechanism.epsilon_exact
    ratio, high, low, output = table.worst_ratio()
    return Proof(
        epsilon_claimed=claimed,
        ratio=ratio,
        epsilon_proven=log_upper(ratio),
        holds=ratio <= exp_lower(claimed, _PROOF_BITS),
        high_symbol=high,
        low_symbol=low,
        output=output,
    )


def log_upper(ratio: Fraction) -> float:
    """Return a float at or just above ln(ratio), for ratio >= 1."""
    excess = ratio - 1
    if excess == 0:
        return 0.0
    guess = math.log1p(excess) if excess < 1 else math.log(ratio)
    guess *= 1 - 2.0**-50
    while exp_lower(Fraction(guess), _PROOF_BITS) < ratio:
        guess = math.nextafter(guess, math.inf)
    return guess
