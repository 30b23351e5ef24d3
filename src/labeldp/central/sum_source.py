"""Questions about labels that are held in memory, answered with noise within one budget."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from labeldp.budget import Epsilon
from labeldp.central.answer import MOST_SUMS, Answer
from labeldp.central.asking import Answering
from labeldp.central.held_labels import HeldLabels, checked_partitions, checked_signs
from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.errors import InvalidInput, described
from labeldp.release.ledger import Ledger


class SumSource(Answering[HeldLabels]):
    """What holds the labels and answers questions about them; `SumQueries`, which users make, adds what is released."""

    def __init__(
        self,
        labels: Any,
        epsilon: Epsilon,
        domain: Domain | tuple[float, float],
        *,
        out_of_range: OutOfRange = "clip",
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        check_out_of_range(out_of_range)
        super().__init__(partial(HeldLabels, labels, domain, out_of_range), epsilon, ledger=ledger, dataset=dataset)

    def clip(self, lower: int, upper: int) -> None:
        """Clip all labels to a range from now on, so that later sums need less noise.

        Parameters
        ----------
        lower, upper : int
            The ends, in grid units. They must lie within the present range, since a clip can only narrow.

        Raises
        ------
        InvalidInput
            If the ends are not whole numbers in order within the present range.

        Privacy
        -------
        Costs nothing. Choose the ends from public knowledge or from earlier answers, never from the labels.
        """
        with self._alone():
            self._held.clip(lower, upper)

    def histogram(self, parts: int, epsilon: Epsilon) -> Answer:
        """How many labels lie in each of so many equal parts of the grid, with Laplace noise of scale 2/ε.

        Parameters
        ----------
        parts : int
            The number of parts. Where it does not divide the number of grid points, parts differ by one point.
        epsilon : float, str, Decimal or Fraction
            What the answer may cost.

        Returns
        -------
        Answer

        Raises
        ------
        InvalidInput
            If the number of parts is impossible, or ε exceeds what remains. Nothing is drawn or spent then.

        Privacy
        -------
        Costs at most ε. Replacing one label moves two counts by one each.
        """
        cells = self.domain.count
        if (
            isinstance(parts, bool)
            or not isinstance(parts, (int, np.integer))
            or not 1 <= parts <= min(cells, MOST_SUMS)
        ):
            raise InvalidInput(
                f"parts must be a whole number from 1 to {min(cells, MOST_SUMS):,}, the number of grid points, got {described(parts)}"
            )
        parts = int(parts)
        return self._answer_histogram(parts, lambda: self._held.histogram(parts), epsilon)

    def over_cells(self, codes: Any, cells: Any, epsilon: Epsilon) -> Answer:
        """Sums of (unit − lower end of the clip) over each cell of a public partition, with Laplace noise.

        Parameters
        ----------
        codes : array of int, or several
            The cell number of each record. Several partitions are a list of such arrays, or an array with one row for each.
        cells : int, or one for each partition
            The number of cells. Cells without records are allowed.
        epsilon : float, str, Decimal or Fraction
            What the answer may cost.

        Returns
        -------
        Answer

        Raises
        ------
        InvalidInput
            If a code is not the number of a cell, or ε exceeds what remains. Nothing is drawn or spent then.

        Privacy
        -------
        Costs at most ε. With R the width of the clip and m partitions, replacing one label changes one sum per partition by at
        most R, so the scale is m·R/ε. Cell numbers must come from features, public numbers or earlier answers.
        """
        partitions, sizes = checked_partitions(codes, cells, self.records)
        return self._answer_cells(sizes, lambda: self._held.over_cells(partitions, sizes), epsilon)

    def against_signs(self, signs: Any, epsilon: Epsilon) -> Answer:
        """For each column of signs the sum of sign·(unit − centre), with cube noise; centre is the middle of the clip.

        Parameters
        ----------
        signs : array of int8 of shape (records, columns)
            +1 or −1 for each record and column.
        epsilon : float, str, Decimal or Fraction
            What the answer may cost.

        Returns
        -------
        Answer
            With a `grain` of more than 1 if units are coarse for so many columns.

        Raises
        ------
        InvalidInput
            If a sign is not ±1, or ε exceeds what remains. Nothing is drawn or spent then.

        Privacy
        -------
        Costs at most ε. Replacing one label changes every sum by at most the width R of the clip, whatever the number of columns, so
        the scale is R/ε. Signs must come from features, public numbers or earlier answers.
        """
        table = checked_signs(signs, self.records)
        return self._answer_signs(table.shape[1], lambda: self._held.against_signs(table), epsilon)
