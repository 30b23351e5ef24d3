"""Public partitions of the records: cells of each column, made from features alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.learn.feature_columns import LARGEST_NUMBER, ColumnEncoder, ColumnKey, infer_columns
from labeldp.learn.feature_tables import FeatureTable
from labeldp.learn.record_checks import exactly, finite_floats, is_a

Codes = NDArray[np.uint16]

MOST_COLUMNS = 300
"""More columns than this are left to labels: the counts of all pairs of cells would fill the memory."""
MOST_BINS = 32
"""A numeric column is cut at quantiles into at most this number of cells."""
MOST_CATEGORIES = 256
"""A categorical column has at most this number of cells; rarer categories share one."""
PARTITION_CELLS = 1500
"""With many columns, each has fewer cells, so that all together have about this number."""
LARGEST_PARTITION = 1 << 15
"""A stored column with more cells than this is not read. Fitted ones have far fewer."""
FEWEST_ROWS = 5
"""A category with fewer records than this, or than 1/2000 of them, shares a cell with other rare ones."""


@dataclass(frozen=True, eq=False)
class Partitions:
    """How the columns of a table become cells: cut points for numbers, codes for categories.

    Attributes
    ----------
    encoder : ColumnEncoder
        Reads the columns of a table.
    cuts : tuple of array
        For each numeric column the upper ends of its cells, but for the last cell.
    missing : tuple of bool
        For each numeric column whether a last cell holds missing numbers.
    centres : tuple of array
        For each numeric column the middle of each cell, a number within it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [20, 30, 40, None], "sex": ["f", "m", "f", "m"]})
    >>> partitions = Partitions.fit(table)
    >>> partitions.names, partitions.cells(table)[:, 0].tolist()
    (('age', 'sex'), [0, 1, 2, 3])
    """

    encoder: ColumnEncoder
    cuts: tuple[Floats, ...]
    missing: tuple[bool, ...]
    centres: tuple[Floats, ...]

    @classmethod
    def fit(cls, features: Any, **columns: Any) -> Partitions:
        """Cut numbers at quantiles, and give categories with enough records their own cells."""
        return cls.fit_cells(features, **columns)[0]

    @classmethod
    def fit_cells(
        cls,
        features: Any,
        *,
        categorical: Sequence[ColumnKey] | None = None,
        numeric: Sequence[ColumnKey] | None = None,
    ) -> tuple[Partitions, Codes]:
        """Return `fit(features)` and its `cells(features)`, reading the features once."""
        table = FeatureTable.of(features)
        numeric_names, categorical_names = infer_columns(table, categorical=categorical, numeric=numeric)
        columns = len(numeric_names) + len(categorical_names)
        if columns > MOST_COLUMNS:
            raise InvalidInput(
                f"noisy sums are for at most {MOST_COLUMNS} columns of features, and there are {columns:,}: leave some out, or use "
                'method="labels"'
            )
        share = max(4, PARTITION_CELLS // columns)
        encoder = ColumnEncoder.fit(
            table,
            categorical=categorical_names,
            numeric=numeric_names,
            min_count=max(FEWEST_ROWS, table.rows // 2000),
            max_categories=min(MOST_CATEGORIES, share),
        )
        categories, numbers = _read(encoder, table)
        cuts = tuple(_cuts(column, min(MOST_BINS, share)) for column in numbers.T)
        made = cls(
            encoder,
            cuts,
            tuple(bool(np.isnan(column).any()) for column in numbers.T),
            tuple(_centres(column, points) for column, points in zip(numbers.T, cuts, strict=True)),
        )
        return made, made._cells(categories, numbers)

    def to_record(self) -> dict[str, Any]:
        """Return the partitions as JSON values. Floats come back to the last bit."""
        numeric = zip(self.encoder.numeric, self.cuts, self.missing, self.centres, strict=True)
        return self.encoder.to_record() | {
            "numeric": [
                {"name": name, "cuts": cuts.tolist(), "missing": missing, "centres": centres.tolist()}
                for name, cuts, missing, centres in numeric
            ]
        }

    @classmethod
    def from_record(cls, record: Any) -> Partitions:
        """Return the partitions that `to_record` described; raise `InvalidInput` for anything else."""
        listed = is_a(is_a(record, dict, what="the partitions").get("numeric"), list, what="the numeric columns")
        numeric = [_numeric_cells(one) for one in listed]
        encoder = ColumnEncoder.from_record(record | {"numeric": [name for name, *_ in numeric]})
        made = cls(
            encoder,
            tuple(cuts for _, cuts, _, _ in numeric),
            tuple(missing for *_, missing, _ in numeric),
            tuple(centres for *_, centres in numeric),
        )
        if not 1 <= len(made.names) <= MOST_COLUMNS or max(made.sizes) > LARGEST_PARTITION:
            raise InvalidInput("the partitions must have columns, and not too many columns or cells")
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, numeric ones first."""
        return (*self.encoder.numeric, *(vocabulary.name for vocabulary in self.encoder.categorical))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        numeric = (len(cuts) + 1 + missing for cuts, missing in zip(self.cuts, self.missing, strict=True))
        return (*numeric, *self.encoder.sizes)

    def ordered(self, column: int) -> bool:
        """Return whether the cells of a column lie along a line."""
        return column < len(self.cuts)

    def words(self, column: int) -> tuple[str, ...]:
        """Return what each cell of a column holds."""
        if not self.ordered(column):
            kept = self.encoder.categorical[column - len(self.cuts)].items.to_pylist()
            return ("others", *("missing" if item is None else item for item in kept))
        cuts = [f"{cut:g}" for cut in self.cuts[column]]
        if not cuts:
            return ("all", "missing")[: 1 + self.missing[column]]
        between = [f"{low} to {high}" for low, high in pairwise(cuts)]
        numbers = (f"up to {cuts[0]}", *between, f"above {cuts[-1]}")
        return (*numbers, "missing") if self.missing[column] else numbers

    def cells(self, features: Any) -> Codes:
        """Return the cell of each record in each column.

        A missing number in a column that had none when the cells were made gets the number after the last cell.
        """
        return self._cells(*_read(self.encoder, features))

    def read(self, features: Any) -> tuple[Codes, list[tuple[NDArray[Any], NDArray[Any], Floats] | None]]:
        """Return the cells of records, and for each numeric column how each number lies between the middles of two cells.

        Returns
        -------
        codes : array of int
            As `cells` gives them.
        between : list
            For a numeric column two cells and the share of the second: from −½ to 1½, so that lines go on a little beyond the outermost
            middles. A missing number lies in its own cell. None for categories, and for numbers that all lie in one cell.
        """
        categories, numbers = _read(self.encoder, features)
        codes = self._cells(categories, numbers)
        between: list[tuple[NDArray[Any], NDArray[Any], Floats] | None] = [None] * len(self.names)
        for j, centres in enumerate(self.centres):
            if len(centres) > 1:
                upper = np.clip(np.searchsorted(centres, numbers[:, j]), 1, len(centres) - 1)
                step = centres[upper] - centres[upper - 1]
                missing = np.isnan(numbers[:, j])
                share = (numbers[:, j] - centres[upper - 1]) / step
                low, high = (np.where(missing, codes[:, j], cell) for cell in (upper - 1, upper))
                between[j] = low, high, np.where(missing, 0.0, np.clip(share, -0.5, 1.5))
        return codes, between

    def _cells(self, categories: NDArray[np.int32], numbers: Floats) -> Codes:
        codes = np.empty((len(numbers), len(self.names)), np.uint16, order="F")
        for j, (column, cuts) in enumerate(zip(numbers.T, self.cuts, strict=True)):
            codes[:, j] = np.searchsorted(cuts, column, side="left")
            codes[np.isnan(column), j] = len(cuts) + 1
        codes[:, len(self.cuts) :] = categories
        return codes


def _read(encoder: ColumnEncoder, features: Any) -> tuple[NDArray[np.int32], Floats]:
    """Return categories as codes, and numbers clipped so that their squares are finite."""
    categories, numbers = encoder.transform(features)
    return categories, np.clip(numbers, -LARGEST_NUMBER, LARGEST_NUMBER)


def _cuts(column: Floats, bins: int) -> Floats:
    """Return points that cut a column into at most `bins` cells. A cell holds what is at most its upper point."""
    present = column[~np.isnan(column)]
    if not present.size:
        return np.zeros(0)
    values = np.unique(present)
    if len(values) <= bins:
        return values[:-1]
    cuts = np.unique(np.quantile(present, np.linspace(0, 1, bins + 1)[1:-1], method="inverted_cdf"))
    return np.asarray(cuts[cuts < values[-1]])


def _centres(column: Floats, cuts: Floats) -> Floats:
    """Return the middle of each cell, which lies within it: so middles rise, and a column of 0 and 1 has 0 and 1, however rare they are.

    It is the mean of the cell's numbers, where those further than three deviations out count as three deviations out. If all of them
    are, or rounding leaves the cell, it is their median.
    """
    present = np.sort(column[~np.isnan(column)])
    if not present.size:
        return np.zeros(1)
    middle, reach = np.mean(present), 3 * np.std(present)
    found = []
    for own in np.split(present, np.searchsorted(present, cuts, side="right")):
        mean = np.mean(np.clip(own, middle - reach, middle + reach))
        found.append(mean if own[0] <= mean <= own[-1] else np.median(own))
    return np.asarray(found)


def _numeric_cells(record: Any) -> tuple[str, Floats, bool, Floats]:
    """Return the name, cut points, missing cell and centres of a stored numeric column."""
    name, cuts, missing, centres = exactly(record, "name", "cuts", "missing", "centres", what="a numeric column")
    is_a(missing, bool, what="missing")
    cuts, centres = finite_floats(cuts, "cut points"), finite_floats(centres, "centres of cells")
    if (np.diff(cuts) <= 0).any() or (np.diff(centres) <= 0).any() or centres.size != cuts.size + 1:
        raise InvalidInput(f"the cells of the column {name!r:.60} do not increase, or do not fit its cut points")
    return name, cuts, missing, centres
