"""`SumQueries`: labels that can only be asked for noisy sums, within one budget."""

from __future__ import annotations

from labeldp.central.private_sums import PrivateSums
from labeldp.central.sum_source import SumSource


class SumQueries(SumSource):
    """Holds labels and answers questions about their sums with exact noise, until the budget ε is spent.

    Questions may depend on earlier answers. Whoever gets this object can ask, so the labels are behind it but not hidden
    from debuggers; what is safe to hand on are the answers, `released`.

    Parameters
    ----------
    labels : array-like
        The true labels, at least two. They are rounded to the domain's grid, or to 2^20 + 1 cells if it has none.
    epsilon : float, str, Decimal or Fraction
        What all answers may cost together. A float means the decimal that is seen: 0.1 is 1/10.
    domain : Domain or (lower, upper)
        The public bounds of the labels, never read off them.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        What happens to labels outside the bounds, as in `LabelRandomizer`.
    ledger : Ledger, optional
        Charge the whole ε to `dataset` in this ledger, before the first answer is drawn.
    dataset : str, optional
        The dataset in `ledger` to charge.

    Raises
    ------
    InvalidInput
        If a label is missing, not a number, or outside the bounds where that is an error, or a setting cannot work.
    InsufficientBudget
        If the ledger has less than ε left.

    Privacy
    -------
    All answers together are ε-DP for replacing one label by another valid one, however later questions depend on earlier
    answers. Each answer costs sensitivity/scale, an exact fraction; a question that would exceed what remains is refused.
    Partitions, signs and clips must come from features, public numbers or earlier answers. Noise is drawn afresh from
    the operating system and OpenDP, so that asking again costs again.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.central.queries import SumQueries
    >>> labels = np.arange(1000) % 50
    >>> queries = SumQueries(labels, epsilon=1, domain=(0, 100))
    >>> counts = queries.histogram(10, epsilon="0.2")
    >>> queries.clip(0, 2**19)
    >>> sums = queries.over_cells(np.arange(1000) % 4, 4, epsilon=queries.remaining)
    >>> sums.means().shape
    (4,)
    >>> print(queries.released.proof().holds)
    True
    """

    @property
    def released(self) -> PrivateSums:
        """All answers so far, with the ε that they may cost together. Holds no label."""
        return PrivateSums(self.domain, self.records, self.answers, self.epsilon_exact)
