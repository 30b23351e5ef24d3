"""The labels party's side of one round: columns that somebody else made of features, answered with noisy sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import as_numpy
from labeldp.budget import Epsilon
from labeldp.central.answer import LARGEST_SUM
from labeldp.central.held_labels import MOST_SIGNS
from labeldp.central.inference import histogram_parts
from labeldp.central.learner import first_look, histogram_share
from labeldp.central.private_sums import PrivateSums
from labeldp.central.queries import SumQueries
from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput
from labeldp.release.ledger import Ledger
from labeldp.sampling.integer_noise import WIDEST

MOST_PARTITIONS = 1000
"""The most columns of cell numbers. Each gets an equal part of ε, so that even a few of them are many."""

MOST_CELLS = 1_000_000
"""The most cells of all columns together. Drawing noise for so many takes 10 to 30 s, after the charge."""


@dataclass(frozen=True, eq=False)
class CellColumns:
    """Columns for sums, by kind: columns of −1 and +1 are signs, all others hold cell numbers from 0.

    Attributes
    ----------
    columns : list of array of int
        All columns.
    signs, whole : tuple of int
        Which of them are signs, and which hold cell numbers.
    """

    columns: list[NDArray[np.integer]]
    signs: tuple[int, ...]
    whole: tuple[int, ...]

    @classmethod
    def of(cls, columns: Sequence[Any], names: Sequence[str] | None = None) -> CellColumns:
        """Check the columns. Errors name them, and show no value.

        Parameters
        ----------
        columns : sequence of array of int
            One number for each record.
        names : sequence of str, optional
            What to call them in errors.
        """
        called = [repr(name)[:60] for name in names] if names is not None else [str(i) for i in range(len(columns))]
        if not len(columns):
            raise InvalidInput("there is no column of signs or cell numbers to sum over")
        given, signs, whole = [], [], []
        for place, (one, name) in enumerate(zip(columns, called, strict=True)):
            numbers = as_numpy(one, f"column {name}")
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
                raise InvalidInput(f"column {name} must hold one whole number for each record, of an integer type")
            given.append(numbers)
            if numbers.size and numbers.min() < 0:
                if not np.isin(numbers, (-1, 1)).all():
                    raise InvalidInput(f"column {name} must hold either −1 and +1 only, or cell numbers from 0")
                signs.append(place)
            elif (numbers == 1).all():
                signs.append(place)
            else:
                whole.append(place)
        if len({one.size for one in given}) > 1:
            raise InvalidInput("all columns must have one number for each record")
        if len(signs) > MOST_SIGNS or len(whole) > MOST_PARTITIONS:
            raise InvalidInput(
                f"at most {MOST_SIGNS:,} columns of signs and {MOST_PARTITIONS:,} of cell numbers can be summed, got {len(signs):,} and "
                f"{len(whole):,}"
            )
        made = cls(given, tuple(signs), tuple(whole))
        if sum(made.sizes) > MOST_CELLS:
            most, place = max(zip(made.sizes, whole, strict=True))
            raise InvalidInput(
                f"the columns have {sum(made.sizes):,} cells in all, {most:,} of them in column {called[place]}, and at most "
                f"{MOST_CELLS:,} can be summed: number the cells of each column from 0 without gaps, or send coarser or fewer columns"
            )
        return made

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self.columns[0].size)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells in each column of cell numbers."""
        return tuple(int(self.columns[place].max()) + 1 for place in self.whole)

    @property
    def single(self) -> int:
        """How many cells hold a single record."""
        return sum(int(np.count_nonzero(np.bincount(self.columns[place]) == 1)) for place in self.whole)

    @property
    def groups(self) -> int:
        """Into how many equal parts ε is divided: all signs together, and each column of cell numbers."""
        return bool(self.signs) + len(self.whole)

    def table_of_signs(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int8]:
        """The columns of signs side by side, of all records or of these."""
        columns = [self.columns[place] for place in self.signs]
        return np.column_stack([(one if rows is None else one[rows]).astype(np.int8) for one in columns])


def answer_columns(
    labels: Any,
    columns: CellColumns | Sequence[Any],
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    *,
    rows: NDArray[np.int64] | None = None,
    out_of_range: OutOfRange = "clip",
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> PrivateSums:
    """Answer with a noisy histogram of the labels and with noisy sums for each column.

    Parameters
    ----------
    labels : array-like
        The true labels.
    columns : CellColumns or sequence of array of int
        Columns of −1 and +1, and columns of cell numbers from 0, each with one number for each label.
    epsilon : float, str, Decimal or Fraction
        What the whole answer costs.
    domain : Domain or (lower, upper)
        The public bounds of the labels, never read off them.
    rows : array of int, optional
        The place in the columns of each label's record, if it is not the label's own place.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        What happens to labels outside the bounds.
    ledger : Ledger, optional
        Charge ε to `dataset` in this ledger before anything is drawn.
    dataset : str, optional
        The dataset in `ledger` to charge.

    Returns
    -------
    PrivateSums
        The histogram, one answer for all signs if there are any, and one for each column of cell numbers.

    Raises
    ------
    InvalidInput
        If labels or columns are refused. Nothing is charged then.
    InsufficientBudget
        If the ledger has less than ε left.

    Privacy
    -------
    Costs ε, whatever the columns hold, provided that they were made without the labels. The histogram sets the clip. What is left of ε
    is divided equally: one part for all signs together, one for each column of cell numbers.
    """
    given = columns if isinstance(columns, CellColumns) else CellColumns.of(columns)
    queries = SumQueries(labels, epsilon, domain, out_of_range=out_of_range, ledger=ledger, dataset=dataset)
    held = given.records if rows is None else len(rows)
    if held != queries.records:
        raise InvalidInput(
            f"there are {queries.records:,} labels, and the columns have numbers for {held:,} records: give one for each label"
        )
    require_room(given, queries)
    signs = given.table_of_signs(rows) if given.signs else None
    sizes = given.sizes
    first_look(queries)
    part = queries.remaining / given.groups
    if signs is not None:
        queries.against_signs(signs, part)
    for place, size in zip(given.whole, sizes, strict=True):
        column = given.columns[place]
        queries.over_cells(column if rows is None else column[rows], size, part)
    return queries.released


def require_room(columns: CellColumns, queries: SumQueries) -> None:
    """Refuse, before the charge, numbers that might leave 64 bits after it, whatever the clip will be."""
    cells, records = queries.domain.count, queries.records
    first = histogram_share(queries.remaining, records)
    left = queries.remaining - first
    signs = len(columns.signs)
    narrowest = max(1, cells // histogram_parts(queries.domain, records, first) - 1)
    # `_answer_signs` doubles the grain until the scale is 4·signs, so it ends below twice that.
    grain = max(1.0, float(8 * signs * left / columns.groups / narrowest))
    if (signs + 1) * cells * columns.groups / left > WIDEST or records * cells * grain >= LARGEST_SUM:
        raise InvalidInput(
            "noise for so many columns on this grid may not fit into 64-bit integers: give the domain fewer cells, a larger epsilon, "
            "or fewer columns"
        )
