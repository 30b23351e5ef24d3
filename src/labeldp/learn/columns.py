"""From a table of features to the arrays that models take, learned on the training features alone.

Which columns are numbers and which are categories is read off their types and can be overridden by name:

- booleans, text and categorical types are categories, except text in which every value is a plain number
  (a leading zero, as in "007", marks a code and not a number);
- integers, floats and decimals are numbers, so integer codes must be named in `categorical`;
- dates and times are numbers, in seconds (times of day since midnight).

Networks get numbers with mean 0 and deviation 1 on the training rows, cut off at ±10 so that one absurd value cannot
throw a prediction; a missing number becomes the mean, and each column that had missing numbers in training adds an
input that says so. A constant column is 0 whatever comes later. Trees get numbers as they are, NaN where missing. A column
without any number in training is 0 for both and not read later, whatever it holds then: text too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.learn.tables import FeatureTable, closest, is_number_text, numbers
from labeldp.learn.vocabulary import Vocabulary

LARGEST_STANDARD = 10.0
TREE_CATEGORIES = 255  # HistGradientBoosting takes no more categories than it has bins

ColumnKey = str | int


@dataclass(frozen=True)
class NumericColumn:
    """Mean and deviation of a numeric column; the scale is infinite where the column tells nothing.

    The mean of a column that had no number in training is NaN.
    """

    name: str
    mean: float
    scale: float
    missing: bool

    @classmethod
    def fit(cls, name: str, values: Floats) -> NumericColumn:
        present = values[~np.isnan(values)]
        if not present.size:
            return cls(name, math.nan, math.inf, missing=False)
        unit = float(np.abs(present).max()) or 1.0  # keeps squares of very large or small numbers finite
        mean, scale = float((present / unit).mean()), float((present / unit).std())
        constant = scale <= 1e-12 * max(abs(mean), 1e-3)
        return cls(name, mean * unit, math.inf if constant else scale * unit, missing=present.size < values.size)

    @property
    def empty(self) -> bool:
        """Whether training had no number in this column."""
        return math.isnan(self.mean)

    def read(self, table: FeatureTable) -> Floats:
        """This column of `table`, NaN where missing; 0 where training had no number."""
        return np.zeros(table.rows) if self.empty else numbers(table.column(self.name), self.name)

    def standardize(self, values: Floats) -> Floats:
        """Mean 0 and deviation 1 on the training rows, within ±10; the mean where missing."""
        standard = np.clip((values - self.mean) / self.scale, -LARGEST_STANDARD, LARGEST_STANDARD)
        return np.nan_to_num(standard, copy=False, nan=0.0)


@dataclass(frozen=True, eq=False)
class Design:
    """Everything needed to turn a table of features into arrays: which columns, their vocabularies, means and scales.

    Columns are found by name, in any order, and others are ignored; arrays as wide as the training table go by position.
    """

    names: tuple[str, ...]
    numeric: tuple[NumericColumn, ...]
    categorical: tuple[Vocabulary, ...]
    columns: tuple[str, ...] = ()  # of the whole training table, those left out included

    @classmethod
    def fit(
        cls,
        features: Any,
        *,
        categorical: Sequence[ColumnKey] | None = None,
        numeric: Sequence[ColumnKey] | None = None,
        exclude: Sequence[ColumnKey] = (),
        min_count: int = 5,
        max_categories: int | None = None,
    ) -> Design:
        """Learn the design from training features (a pandas, polars or Arrow table, or a two-dimensional array).

        Categories with fewer than `min_count` rows, and those beyond the `max_categories` − 1 most frequent, share one
        code.
        """
        if min_count < 1:
            raise InvalidInput(f"min_count must be at least 1, got {min_count!r}")
        if max_categories is not None and max_categories < 2:
            raise InvalidInput(f"max_categories must be at least 2, got {max_categories!r}")
        table = FeatureTable.of(features)
        number_names, category_names = infer_columns(table, categorical=categorical, numeric=numeric, exclude=exclude)
        return cls(
            tuple(name for name in table.names if name in {*number_names, *category_names}),
            tuple(NumericColumn.fit(name, numbers(table.column(name), name)) for name in number_names),
            tuple(
                Vocabulary.fit(name, table.column(name), min_count=min_count, max_size=max_categories)
                for name in category_names
            ),
            table.names,
        )

    @classmethod
    def for_trees(cls, features: Any, **options: Any) -> Design:
        """A design for `HistGradientBoostingRegressor`: at most 255 codes a column. Use it with `ordinal`."""
        return cls.fit(features, **{"max_categories": TREE_CATEGORIES, **options})

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each categorical column."""
        return tuple(vocabulary.size for vocabulary in self.categorical)

    def transform(self, features: Any) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Codes (one column per categorical column) and standardised numbers, for networks."""
        table = self._checked(features)
        codes = np.empty((table.rows, len(self.categorical)), np.int32)
        for j, vocabulary in enumerate(self.categorical):
            codes[:, j] = vocabulary.encode(table.column(vocabulary.name))
        flags = [column for column in self.numeric if column.missing]
        inputs = np.empty((table.rows, len(self.numeric) + len(flags)), np.float32)
        flagged = len(self.numeric)
        for j, column in enumerate(self.numeric):
            values = column.read(table)
            if column.missing:
                inputs[:, flagged] = np.isnan(values)
                flagged += 1
            inputs[:, j] = column.standardize(values)
        return codes, inputs

    def ordinal(self, features: Any) -> Floats:
        """Numbers as they are (NaN where missing, 0 where training had none), then codes, for trees."""
        table = self._checked(features)
        matrix = np.empty((table.rows, len(self.numeric) + len(self.categorical)), np.float64)
        for j, column in enumerate(self.numeric):
            matrix[:, j] = column.read(table)
        for j, vocabulary in enumerate(self.categorical, start=len(self.numeric)):
            matrix[:, j] = vocabulary.encode(table.column(vocabulary.name))
        return matrix

    def _checked(self, features: Any) -> FeatureTable:
        table = FeatureTable.of(features)
        if table.unnamed and len(table.names) == len(self.columns):
            table = table.renamed(self.columns)
        lost = [name for name in self.names if name not in table]
        if lost:
            shown = ", ".join(repr(name) + closest(name, table.names) for name in lost[:5])
            more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
            raise InvalidInput(f"columns that the model was trained on are missing: {shown}{more}")
        return table


def infer_columns(
    features: Any,
    *,
    categorical: Sequence[ColumnKey] | None = None,
    numeric: Sequence[ColumnKey] | None = None,
    exclude: Sequence[ColumnKey] = (),
) -> tuple[list[str], list[str]]:
    """The names of the numeric and of the categorical columns, in table order.

    Columns named in `categorical` or `numeric` are just that, those in `exclude` are left out, types decide the rest.
    """
    table = FeatureTable.of(features)
    categories = table.resolve(categorical or (), "categorical")
    figures = table.resolve(numeric or (), "numeric")
    left_out = table.resolve(exclude, "exclude")
    for one, other in ((categories, figures), (categories, left_out), (figures, left_out)):
        if both := sorted(one & other):
            raise InvalidInput(f"column {both[0]!r} is named twice, among categorical, numeric and excluded columns")
    numeric_names: list[str] = []
    categorical_names: list[str] = []
    for name in table.names:
        if name in left_out:
            continue
        is_category = name in categories or (name not in figures and _is_categorical(table.column(name), name))
        (categorical_names if is_category else numeric_names).append(name)
    if not numeric_names and not categorical_names:
        raise InvalidInput("the table has no feature columns")
    return numeric_names, categorical_names


def _is_categorical(column: Any, name: str) -> bool:
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind):
        return True
    if pa.types.is_large_string(kind):
        return not is_number_text(column)
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_null(kind)
    ):
        return False
    raise InvalidInput(
        f"column {name!r} holds {kind} values, neither numbers nor categories. Leave it out of the features."
    )
