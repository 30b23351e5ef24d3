"""How ε is divided between the private prior and the labels, in exact fractions.

OpenDP's sampler takes a float `scale`. The prior's cost ε₁ = 2/scale is computed from exactly that float, and the labels get
ε₂ = ε − ε₁.
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
    """The budget is spent in a way that the user may want to change.

    Examples
    --------
    >>> import warnings
    >>> from labeldp import BudgetWarning
    >>> from labeldp.priors import split_budget
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     split_budget(1, cells=400, records=1000).warn()
    >>> issubclass(caught[0].category, BudgetWarning)
    True
    """


@dataclass(frozen=True)
class BudgetSplit:
    """How ε is divided between the prior and the labels.

    Attributes
    ----------
    epsilon : fractions.Fraction
        The whole budget, exactly `epsilon_prior + epsilon_labels`.
    epsilon_prior : fractions.Fraction
        What the private histogram costs: 2/scale.
    epsilon_labels : fractions.Fraction
        What is left for the labels.
    scale : float
        The scale of the Laplace noise on each count of the histogram.
    advice : str or None
        What the user may want to change. The code that spends the budget calls `warn` once, before it does.

    Examples
    --------
    >>> from labeldp.priors import split_budget
    >>> split = split_budget(1, cells=100, records=10_000)
    >>> float(split.epsilon_prior), float(split.epsilon_labels)
    (0.1, 0.9)
    """

    epsilon: Fraction
    epsilon_prior: Fraction
    epsilon_labels: Fraction
    scale: float
    advice: str | None = None

    @classmethod
    def spending(cls, most: Fraction, total: Fraction, advice: str | None) -> BudgetSplit:
        """The split that gives the prior at most `most`, and the labels the rest.

        Parameters
        ----------
        most : fractions.Fraction
            The most that the prior may cost. It costs a little less where 2/most is not a float.
        total : fractions.Fraction
            The whole budget.
        advice : str or None
            What `warn` is to say.

        Returns
        -------
        BudgetSplit
            With `epsilon_prior <= most`.
        """
        scale = float_up(2 / most)
        spent = 2 / Fraction(scale)
        return cls(total, spent, total - spent, scale, advice)

    def warn(self, stacklevel: int = 2) -> None:
        """Issue the advice, if there is any, as a `BudgetWarning`.

        Parameters
        ----------
        stacklevel : int, default 2
            The frame that the warning points at, as for `warnings.warn` in the caller.
        """
        if self.advice is not None:
            warnings.warn(self.advice, BudgetWarning, stacklevel=stacklevel + 1)


def split_budget(epsilon: Epsilon, cells: int, records: int) -> BudgetSplit:
    """The paper's split: ε₁ = √(cells/records) for the prior, but at most half of ε, and the rest for the labels.

    Parameters
    ----------
    epsilon : float, int, str, Decimal or Fraction
        The whole budget.
    cells : int
        The number of cells of the histogram.
    records : int
        The number of labels.

    Returns
    -------
    BudgetSplit
        With advice if the prior got only half of ε where the rule asks for more.

    Raises
    ------
    InvalidInput
        If the grid has more than n·ε² cells, because the noise would then drown the histogram.

    Examples
    --------
    >>> from labeldp.priors import split_budget
    >>> split_budget(1, cells=100, records=10_000).scale
    20.0
    """
    total = exact_epsilon(epsilon)
    check_histogram(cells, records)
    most = math.floor(records * total**2)
    if cells > most:
        remedy = (
            f"Use at most {most:,} cells"
            if most >= 2
            else f"Use at least {math.ceil(2 / total**2):,} records or a larger epsilon"
        )
        raise InvalidInput(
            f"{cells:,} cells are too many for {records:,} records at epsilon = {float(total):g}: there must be at most "
            f"records × epsilon² of them. {remedy}, or give a public prior, which costs nothing."
        )
    wanted = math.sqrt(cells / records)
    half = total / 2
    advice = (
        f"a good prior on this grid costs ε₁ = √({cells:,}/{records:,}) = {wanted:.3g}; it gets half of epsilon, {float(half):.3g}. "
        "Fewer cells leave more of the budget for the labels."
    )
    spent = min(half, Fraction(wanted))
    return BudgetSplit.spending(spent, total, advice if Fraction(wanted) > half else None)


def check_histogram(cells: int, records: int) -> None:
    """Raise `InvalidInput` if a private histogram would have no records or too many cells.

    Parameters
    ----------
    cells : int
        The number of cells.
    records : int
        The number of labels.

    Examples
    --------
    >>> from labeldp.priors import check_histogram
    >>> check_histogram(cells=401, records=0)
    Traceback (most recent call last):
    labeldp.errors.InvalidInput: there are no labels: a private prior needs at least one record
    """
    if records < 1:
        raise InvalidInput("there are no labels: a private prior needs at least one record")
    if cells > MAX_PRIOR_CELLS:
        raise InvalidInput(f"a private prior on {cells:,} cells is too large: give at most {MAX_PRIOR_CELLS:,} cells")
