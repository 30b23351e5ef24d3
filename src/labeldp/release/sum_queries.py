"""`SumQueries`: labels that only answer questions about noisy sums, within one budget."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from labeldp.budget import Epsilon
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.passes import Integers
from labeldp.errors import InvalidInput, LabelDPError, described, is_whole
from labeldp.formatting import ReprMixin
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.release.grid_labels import (
    ExactPass,
    HeldLabels,
    SumsBudget,
    checked_partitions,
    checked_signs,
    draw_answer,
    histogram_counts,
)
from labeldp.release.ledger import Ledger
from labeldp.release.noisy_sums import MOST_SUMS, Answer
from labeldp.release.private_sums import PrivateSums


class SumQueries(ReprMixin):
    """Labels that answer questions about their sums with exact noise, until the budget ε is spent.

    Questions may depend on earlier answers. The labels are inside this object and not hidden from debuggers; only the
    answers, `released`, are safe to pass on.

    Parameters
    ----------
    labels : array-like
        The true labels, at least two. They are rounded to the domain's grid, or to 2^20 + 1 cells by default.
    epsilon : float, str, Decimal or Fraction
        The total budget of all answers. A float means its decimal form: 0.1 is 1/10.
    domain : Domain or (lower, upper)
        The public bounds of the labels, never computed from them.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        How to handle labels outside the bounds, as in `LabelRandomizer`.
    ledger : Ledger, optional
        Charge the whole ε to `dataset` in this ledger, before the first answer is drawn.
    dataset : str, optional
        The dataset in `ledger` to charge.
    persons : array-like, optional
        The person of each label, integers or text. ε is then for all labels of a person together, and a label of a
        person with k of them has a weight of 1/k in every sum.
    reserved : Fraction, default 0
        Charge this to the ledger together with ε, for something else that is released of the same labels.

    Raises
    ------
    InvalidInput
        If a label is missing, not a number, or outside the bounds where that is an error, or a setting cannot work.
    InsufficientBudget
        If the ledger has less than ε left.

    Privacy
    -------
    All answers together are ε-DP for replacing one label by another valid one, or all labels of one person, even if
    later questions depend on earlier answers. Each answer costs sensitivity/scale, an exact fraction; a question that
    would exceed the remaining budget is rejected. Partitions, signs and clips must come from features, public numbers
    or earlier answers. Each answer has new noise from the operating system and OpenDP, so asking again costs again.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.release.sum_queries import SumQueries
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

    def __init__(
        self,
        labels: Any,
        epsilon: Epsilon,
        domain: Domain | tuple[float, float],
        *,
        out_of_range: OutOfRange = "clip",
        ledger: Ledger | None = None,
        dataset: str | None = None,
        persons: Any = None,
        reserved: Fraction = Fraction(0),
    ) -> None:
        self.reserved = reserved
        self._budget = SumsBudget(epsilon, ledger, dataset, "record" if persons is None else "person", reserved)
        self._held = HeldLabels(labels, domain, out_of_range, persons)
        self._bounds = self._held.domain
        self._answers: list[Answer] = []
        self._lock, self._process = threading.Lock(), os.getpid()

    @property
    def domain(self) -> Domain:
        """The bounds and the grid whose steps are the units: 0 and 1 while `indicate` is in effect, those of normal scores after `score`."""
        return self._held.domain if self._held.place is None else Domain.integers(0, 1)

    @property
    def records(self) -> int:
        """The number of labels, which is public."""
        return self._held.records

    @property
    def size(self) -> int:
        """The number of labels, or of persons if that is the unit of privacy."""
        return self.records if self._held.weighting is None else self._held.weighting.persons

    @property
    def weight(self) -> int:
        """The weight of a person, or 1 if the unit of privacy is a record."""
        return self._held.weight

    @property
    def weights(self) -> Integers | None:
        """The weight of each label, at most `weight` in total for each person; None if the unit of privacy is a record."""
        return self._held.weights

    @property
    def epsilon_exact(self) -> Fraction:
        """The total budget of all answers."""
        return self._budget.epsilon

    @property
    def remaining(self) -> Fraction:
        """The budget that is left for later answers, of what is summed now."""
        return self._budget.left(self._held.place)

    @property
    def clipped(self) -> tuple[int, int]:
        """The range to which units are clipped now."""
        return self._held.lower, self._held.upper

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All answers so far."""
        return tuple(self._answers)

    @property
    def released(self) -> PrivateSums:
        """All answers so far, with their total budget ε. It contains no labels."""
        return PrivateSums(self._bounds, self.records, self.answers, self.epsilon_exact, self._held.weighting)

    def charge(self) -> None:
        """Charge the whole ε to the ledger, once and permanently. The first question does this if it was not called before.

        Raises
        ------
        InsufficientBudget
            If the ledger has less left. Nothing was drawn then.
        """
        with self._alone():
            self._budget.charge(self._bounds, self.records)

    def clip(self, lower: int, upper: int) -> None:
        """Clip all labels to a range from now on, so that later sums need less noise.

        Parameters
        ----------
        lower, upper : int
            The ends, in grid units. They must lie within the current range, because a clip can only narrow.

        Raises
        ------
        InvalidInput
            If the ends are not whole numbers in order within the current range.

        Privacy
        -------
        Costs nothing. Choose the ends from public knowledge or from earlier answers, never from the labels.
        """
        with self._alone():
            self._held.clip(lower, upper)

    def score(self, scores: NormalScores) -> None:
        """Sum normal scores of the labels from now on, in place of the labels.

        Parameters
        ----------
        scores : NormalScores
            The score of each label, such as from an earlier histogram.

        Raises
        ------
        InvalidInput
            If scores or residuals are summed already.

        Privacy
        -------
        Costs nothing. A score is a public function of one label, so neighbours stay neighbours, and replacing one label changes its
        score by at most the distance between the first and the last score. `scores` must come from public numbers or earlier
        answers, never from the labels.
        """
        with self._alone():
            self._held = self._held.as_scores(scores)  # one assignment: an interrupt leaves either labels or scores

    def subtract(self, expected: Any, reach: int) -> None:
        """Sum residuals from now on: each label minus a public number, clipped at ±`reach`. Later sums need less noise.

        Calling it again replaces the numbers, and can only make the range narrower.

        Parameters
        ----------
        expected : array of int64
            The number of grid units to subtract from each label, such as a prediction from earlier answers.
        reach : int
            The largest absolute residual, in grid units. Twice `reach` is at most the width of the current range.

        Raises
        ------
        InvalidInput
            If there is not a whole number for each label, or the range would not be narrower.

        Privacy
        -------
        Costs nothing. Replacing one label changes its residual by at most the width of the range. Both arguments must come from
        features, public numbers or earlier answers, never from the labels.
        """
        with self._alone():
            self._held = self._held.subtract(np.asarray(expected), reach)

    def indicate(self, place: int) -> None:
        """Sum whether labels are of one of three or more classes from now on: 1 for a label of that class, and 0 for any other.

        Calling it again turns to another class. Each class has half of the budget that is left when it is called first.

        Parameters
        ----------
        place : int
            The index of the class.

        Raises
        ------
        InvalidInput
            If labels are not of three or more classes, or were clipped, or there is no such class.

        Privacy
        -------
        Costs nothing. Replacing one label changes the sums of two classes: that of each by at most what a label of 0 or 1
        changes. So all answers about single classes together cost what those about the two most expensive classes cost.
        """
        with self._alone():
            self._held = self._held.of_class(place)

    def histogram(self, parts: int, epsilon: Epsilon) -> Answer:
        """Count the labels in each of several equal parts of the grid, with Laplace noise of scale 2/ε.

        Parameters
        ----------
        parts : int
            The number of parts. If it does not divide the number of grid points, parts differ by one point.
        epsilon : float, str, Decimal or Fraction
            The budget of the answer.

        Returns
        -------
        Answer

        Raises
        ------
        InvalidInput
            If the number of parts is impossible, or ε exceeds the remaining budget. Nothing is drawn or spent then.

        Privacy
        -------
        Costs at most ε. Replacing one label changes two counts by one each.
        """
        cells = self.domain.count
        if not is_whole(parts, 1, min(cells, MOST_SUMS)):
            raise InvalidInput(
                f"parts must be a whole number from 1 to {min(cells, MOST_SUMS):,}, the number of grid points, got {described(parts)}"
            )
        with self._alone():
            held = self._held
            if held.residuals or held.scored or held.place is not None:
                now = "residuals are summed now: ask for it before subtract"
                if held.place is not None:
                    now = "whether they are of one class is summed now: ask for it before indicate"
                elif held.scored:
                    now = "scores are summed now: ask for it before score"
                raise InvalidInput(f"a histogram counts labels, and {now}")
            return self._keep("histogram", (int(parts),), histogram_counts(self._held, int(parts)), epsilon)

    def over_cells(self, codes: Any, cells: Any, epsilon: Epsilon) -> Answer:
        """Sum (unit − lower end of the clip) over each cell of a public partition, with Laplace noise.

        Parameters
        ----------
        codes : array of int, or several
            The cell number of each record. Several partitions are a list of such arrays, or an array with one row for each.
        cells : int, or one for each partition
            The number of cells. Cells without records are allowed.
        epsilon : float, str, Decimal or Fraction
            The budget of the answer.

        Returns
        -------
        Answer

        Raises
        ------
        InvalidInput
            If a code is not the number of a cell, or ε exceeds the remaining budget. Nothing is drawn or spent then.

        Privacy
        -------
        Costs at most ε. With R the width of the clip and m partitions, replacing one label changes one sum per partition by at
        most R, so the scale is m·R/ε. Cell numbers must come from features, public numbers or earlier answers.
        """
        partitions, sizes = checked_partitions(codes, cells, self.records)
        with self._alone():
            return self._keep("cells", sizes, lambda: self._held.over_cells(partitions, sizes), epsilon)

    def against_signs(self, signs: Any, epsilon: Epsilon) -> Answer:
        """Sum sign·(unit − centre) for each column of signs, with cube noise; centre is the middle of the clip.

        Parameters
        ----------
        signs : array of int8 of shape (records, columns)
            +1 or −1 for each record and column.
        epsilon : float, str, Decimal or Fraction
            The budget of the answer.

        Returns
        -------
        Answer
            With a `grain` of more than 1 if units are coarse for the number of columns.

        Raises
        ------
        InvalidInput
            If a sign is not ±1, or ε exceeds the remaining budget. Nothing is drawn or spent then.

        Privacy
        -------
        Costs at most ε. Replacing one label changes every sum by at most the width R of the clip regardless of the number of columns, so
        the scale is R/ε. Signs must come from features, public numbers or earlier answers.
        """
        table = checked_signs(signs, self.records)
        with self._alone():
            return self._keep("signs", (table.shape[1],), lambda: self._held.against_signs(table), epsilon)

    def _keep(self, kind: str, sizes: tuple[int, ...], exact: ExactPass, epsilon: Epsilon) -> Answer:
        answer = draw_answer(self._budget, self._held, kind, sizes, exact, epsilon)
        self._answers.append(answer)
        return answer

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Allow one question at a time, in the process that made this object: a forked copy would spend the budget again."""
        if os.getpid() != self._process:
            raise LabelDPError(
                "these labels belong to another process, and a copy of them would spend the same budget twice. Ask there"
            )
        with self._lock:
            yield

    def __reduce__(self) -> NoReturn:
        raise LabelDPError(
            "an object that holds labels and a budget cannot be copied or pickled: the copy would spend the same budget again"
        )

    def _facts(self) -> dict[str, str]:
        return {
            "records": f"{self.records:,}",
            "domain": repr(self.domain),
            "answers": f"{len(self._answers)}",
            "remaining": f"{float(self.remaining):.6g} of {float(self.epsilon_exact):.6g}",
        }
