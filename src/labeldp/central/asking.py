"""Questions about held labels, answered with noise within one budget."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from labeldp.budget import Epsilon, abbreviated, exact_epsilon, float_up
from labeldp.central.answer import LARGEST_SUM, MOST_SUMS, Answer, part_sizes, parts_of
from labeldp.central.held_labels import HeldLabels, checked_partitions, checked_signs
from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.errors import InvalidInput, LabelDPError, described, expect
from labeldp.release.ledger import Ledger, dataset_name
from labeldp.sampling.integer_noise import WIDEST, add_laplace, check_cube, cube_noise
from labeldp.shown import Shown

_SCALE_PER_SIGN = 4
"""Units are divided until the scale of cube noise is this many times the number of columns: most attempts succeed then."""


class SumSource(Shown):
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
        self._epsilon = exact_epsilon(epsilon)
        self._remaining = self._epsilon
        check_out_of_range(out_of_range)
        _check_ledger(ledger, dataset, self._epsilon)
        self._ledger, self._dataset, self._charged = ledger, dataset, False
        self._held = HeldLabels(labels, domain, out_of_range)
        self._answers: list[Answer] = []
        self._lock, self._process = threading.Lock(), os.getpid()

    @property
    def domain(self) -> Domain:
        """The bounds and the grid whose steps are the units."""
        return self._held.domain

    @property
    def records(self) -> int:
        """The number of labels, which is public."""
        return self._held.records

    @property
    def epsilon_exact(self) -> Fraction:
        """What all answers together may cost."""
        return self._epsilon

    @property
    def remaining(self) -> Fraction:
        """What later answers may cost together."""
        return self._remaining

    @property
    def clipped(self) -> tuple[int, int]:
        """The range to which units are clipped now."""
        return self._held.lower, self._held.upper

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All answers so far."""
        return tuple(self._answers)

    def charge(self) -> None:
        """Charge the whole ε to the ledger, once and for good. The first question does it if this was not called.

        Raises
        ------
        InsufficientBudget
            If the ledger has less left. Nothing was drawn then.
        """
        with self._alone():
            self._charge()

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
        with self._alone():
            first, last = parts_of(np.array(self.clipped), parts, cells)
            sensitivity = 0 if first == last else 2
            scale = self._scale(sensitivity, epsilon)
            exact = self._held.histogram(parts)
            self._spend(sensitivity, scale)
            values = add_laplace(exact, scale) if scale else exact
            return self._keep("histogram", values, scale, part_sizes(parts, cells), (parts,))

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
        with self._alone():
            sensitivity = len(sizes) * self._width()
            scale = self._scale(sensitivity, epsilon)
            exact = self._held.over_cells(partitions, sizes)
            counts = [np.bincount(one, minlength=size) for one, size in zip(partitions, sizes, strict=True)]
            self._spend(sensitivity, scale)
            values = np.clip(add_laplace(exact, scale), -LARGEST_SUM, LARGEST_SUM) if scale else exact
            return self._keep("cells", values, scale, np.concatenate(counts).astype(np.int64), sizes)

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
        columns = table.shape[1]
        with self._alone():
            grain, width, asked = 1, self._width(), self._asked(epsilon)
            while width and grain * width < _SCALE_PER_SIGN * columns * asked:
                grain *= 2
            self._held.require_room(grain)
            scale = self._scale(grain * width, epsilon)
            if scale:
                check_cube(columns, scale)
            exact, counts = self._held.against_signs(table, grain)
            self._spend(grain * width, scale)
            # Noise is cut off at 2^62 and sums are below 2^61, so a noisy sum that is cut off here is a function of the exact one.
            values = np.clip(exact + cube_noise(columns, scale), -LARGEST_SUM, LARGEST_SUM) if scale else exact
            return self._keep("signs", values, scale, counts, (columns,), grain)

    def _width(self) -> int:
        return self._held.upper - self._held.lower

    def _asked(self, epsilon: Epsilon) -> Fraction:
        """The ε of one answer. What remains is a fraction of many digits and may be asked for as it is."""
        if isinstance(epsilon, Fraction) and 0 < epsilon <= self._remaining:
            return epsilon
        asked = exact_epsilon(epsilon)
        if asked > self._remaining:
            raise InvalidInput(
                f"this answer asks for ε = {abbreviated(epsilon)}, and {float(self._remaining):.6g} of "
                f"{float(self._epsilon):.6g} remains. Nothing was drawn. Ask for less, or for all that remains (queries.remaining)"
            )
        return asked

    def _scale(self, sensitivity: int, epsilon: Epsilon) -> float:
        """The smallest float whose exact cost, sensitivity/scale, is at most ε; 0.0 if one label changes nothing."""
        asked = self._asked(epsilon)
        if sensitivity == 0:
            return 0.0
        if sensitivity / asked > WIDEST:
            raise InvalidInput(
                f"noise for ε = {abbreviated(epsilon)} on this grid may not fit into 64-bit integers: give the domain fewer cells, or "
                "a larger epsilon"
            )
        return float_up(sensitivity / asked)

    def _spend(self, sensitivity: int, scale: float) -> None:
        """Charge the ledger if that was not done, then the cost of one answer. Nothing is given back if the draw fails."""
        self._charge()
        if scale:
            self._remaining -= sensitivity / Fraction(scale)

    def _charge(self) -> None:
        if self._charged:
            return
        if self._ledger is not None:
            request = json.dumps({"release": "private sums", "domain": self.domain.to_json(), "records": self.records})
            self._ledger.reserve(str(self._dataset), self._epsilon, request=request)
        self._charged = True

    def _keep(
        self,
        kind: str,
        values: NDArray[np.int64],
        scale: float,
        counts: NDArray[np.int64],
        sizes: tuple[int, ...],
        grain: int = 1,
    ) -> Answer:
        answer = Answer(kind, values, scale, self.clipped, counts, sizes, self.domain, grain)
        self._answers.append(answer)
        return answer

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One question at a time, in the process that made this object: a forked copy would spend the budget again."""
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
            "remaining": f"{float(self._remaining):.6g} of {float(self._epsilon):.6g}",
        }


def _check_ledger(ledger: Ledger | None, dataset: str | None, epsilon: Fraction) -> None:
    """Refuse early what the charge would refuse."""
    if ledger is None:
        if dataset is not None:
            raise InvalidInput("dataset names a dataset in a ledger: give ledger=Ledger(path) too")
        return
    expect(ledger, Ledger, "ledger", "make one with Ledger(path), or Ledger.create(path) for a new one")
    if dataset is None:
        raise InvalidInput("a ledger needs the name of the dataset to charge: give dataset=…")
    ledger.require(dataset_name(dataset), epsilon)


__all__ = ["SumSource"]
