"""How ε is divided between the private prior and the labels, in exact fractions.

`ε₁ = 2/Fraction(scale)` follows from the float scale that OpenDP's sampler really uses, and `ε₂ = ε − ε₁` from that.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction

from labeldp.budget import Epsilon, exact_epsilon, float_up
from labeldp.errors import InvalidInput

MAX_PRIOR_CELLS = 10_000_000


class BudgetWarning(UserWarning):
    """The budget is spent in a way the user may want to change."""


@dataclass(frozen=True)
class BudgetSplit:
    """How ε is divided between the prior and the labels. `epsilon_prior + epsilon_labels == epsilon`, exactly.

    `advice` says what is unwise about it. Whoever is about to spend the budget warns (`warn`), before and once.
    """

    epsilon: Fraction
    epsilon_prior: Fraction
    epsilon_labels: Fraction
    scale: float
    advice: str | None = None

    @classmethod
    def spending(cls, most: Fraction, total: Fraction, advice: str | None) -> BudgetSplit:
        """At most `most` for the prior, by the float scale that is noisy enough; the rest for the labels."""
        scale = float_up(2 / most)
        spent = 2 / Fraction(scale)
        return cls(total, spent, total - spent, scale, advice)

    def warn(self, stacklevel: int = 2) -> None:
        """Issue the advice, if there is any, as a `BudgetWarning`."""
        if self.advice is not None:
            warnings.warn(self.advice, BudgetWarning, stacklevel=stacklevel + 1)


def split_budget(epsilon: Epsilon, cells: int, records: int) -> BudgetSplit:
    """The paper's ε₁ = √(cells/records), at most half of ε, and the rest for the labels.

    Refuses a grid with more than n·ε² cells: its noise would drown the histogram.
    """
    total = exact_epsilon(epsilon)
    check_histogram(cells, records)
    most = math.floor(records * total**2)
    if cells > most:
        reach = (
            f"Use at most {most:,} cells"
            if most >= 2
            else f"Use at least {math.ceil(2 / total**2):,} records or a larger epsilon"
        )
        raise InvalidInput(
            f"{cells:,} cells are more than {records:,} records carry at epsilon = {float(total):g} "
            f"(cells must not exceed records × epsilon²). {reach}, or give a public prior, which costs nothing."
        )
    wanted = math.sqrt(cells / records)
    half = total / 2
    advice = (
        f"the prior would like ε₁ = √({cells:,}/{records:,}) = {wanted:.3g} and gets half of epsilon, {float(half):.3g}. "
        "Fewer cells leave more of the budget for the labels."
    )
    spent = min(half, Fraction(wanted))
    return BudgetSplit.spending(spent, total, advice if Fraction(wanted) > half else None)


def check_histogram(cells: int, records: int) -> None:
    """Refuses a private histogram of no records, or of more cells than one is made for."""
    if records < 1:
        raise InvalidInput("there are no labels: a private prior needs at least one record")
    if cells > MAX_PRIOR_CELLS:
        raise InvalidInput(f"a private prior on {cells:,} cells is too large: give at most {MAX_PRIOR_CELLS:,} cells")
