"""The proof that noisy sums are private: what each answer costs as a fraction, and that the total stays within ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from labeldp.budget import shown_amount
from labeldp.central.answer import Answer
from labeldp.errors import PrivacyRefused
from labeldp.formatting import count_of


@dataclass(frozen=True)
class ProofLine:
    """What one answer costs: the most that one label changes, over the scale of the noise.

    Attributes
    ----------
    kind : str
        The kind of the answer.
    numbers : int
        How many numbers it has.
    sensitivity : int
        The most by which one label changes its exact numbers.
    scale : float
        The scale of its noise; 0.0 if it has none.
    epsilon : Fraction
        `sensitivity` over the exact value of `scale`.
    """

    kind: str
    numbers: int
    sensitivity: int
    scale: float
    epsilon: Fraction

    def __str__(self) -> str:
        words = {"histogram": "histogram", "cells": "sums over cells", "signs": "sums against signs"}[self.kind]
        return (
            f"{words} ({count_of(self.numbers, 'number')}): sensitivity {self.sensitivity} / scale {self.scale!r} = epsilon "
            f"{shown_amount(self.epsilon)}"
        )


@dataclass(frozen=True)
class SumsProof:
    """The costs of all answers as exact fractions, against the ε that is claimed for them together.

    Attributes
    ----------
    epsilon_claimed : Fraction
        The ε that is claimed.
    lines : tuple of ProofLine
        One for each answer.

    Examples
    --------
    >>> from labeldp import PrivateSums
    >>> sums = PrivateSums.over_cells([30, 40, 90], [0, 0, 1], epsilon=1, domain=(0, 100))
    >>> print(sums.proof())
    proven: claimed epsilon = 1, the answers cost 1
      sums over cells (2 numbers): sensitivity 1048576 / scale 1048576.0 = epsilon 1
    """

    epsilon_claimed: Fraction
    lines: tuple[ProofLine, ...]

    @classmethod
    def of(cls, answers: Sequence[Answer], claimed: Fraction) -> SumsProof:
        """The proof for these answers.

        Parameters
        ----------
        answers : sequence of Answer
            The answers; each computes its sensitivity from its kind, its clip and its partitions.
        claimed : Fraction
            The ε that is claimed for all of them.

        Returns
        -------
        SumsProof
        """
        return cls(
            claimed,
            tuple(ProofLine(a.kind, a.values.size, a.sensitivity, a.scale, a.epsilon_exact) for a in answers),
        )

    @property
    def total(self) -> Fraction:
        """What all answers cost together."""
        return sum((line.epsilon for line in self.lines), Fraction(0))

    @property
    def holds(self) -> bool:
        """Whether the total is at most what is claimed."""
        return self.total <= self.epsilon_claimed

    def require(self) -> SumsProof:
        """Insist that the proof holds.

        Returns
        -------
        SumsProof
            This one.

        Raises
        ------
        PrivacyRefused
            If it does not hold.
        """
        if not self.holds:
            raise PrivacyRefused(
                f"these sums are not {shown_amount(self.epsilon_claimed)}-DP: their answers cost epsilon = {shown_amount(self.total)} together. Do not use them, and ask for the sums again"
            )
        return self

    def __str__(self) -> str:
        verdict = "proven" if self.holds else "NOT private"
        first = f"{verdict}: claimed epsilon = {shown_amount(self.epsilon_claimed)}, the answers cost {shown_amount(self.total)}"
        return "\n  ".join([first, *map(str, self.lines)])
