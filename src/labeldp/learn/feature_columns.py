"""From a table of features to the arrays that models take, learned on the training features alone.

Column types decide what is a number and what is a category. Names given by the user override them.

- Booleans, text and categorical types are categories. Text is numeric if every value is a plain number; a leading zero,
  as in "007", marks a code and not a number.
- Integers, floats and decimals are numbers, so integer codes must be named in `categorical`.
- Dates and times are numbers, in seconds (times of day since midnight).

Numbers are scaled and imputed by scikit-learn (`standardizer`). Categories are coded by Arrow (`Vocabulary`):
`OrdinalEncoder` takes 7 to 10 times as long on text (`python benchmarks/columns.py`), orders its codes by text and not by
frequency, and always gives missing values their own code.

Categories with few rows share one code. Categories are compared as text, so that 7, 7.0 and "7" are one category: a column of
integers that a file returns as floats (one null is enough) or as text still finds its codes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput, described
from labeldp.learn.feature_tables import (
    LARGEST_WHOLE_FLOAT,
    PLAIN_NUMBER,
    FeatureTable,
    closest,
    is_number_text,
    numbers,
)
from labeldp.learn.record_checks import all_are, exactly, is_a


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The codes of one column: 1, 2, … for the kept categories, the most frequent first, and 0 for all others.

    A missing value is a category like any other: with enough rows it has its own code.

    Attributes
    ----------
    name : str
        The column.
    items : pyarrow.Array
        The kept categories as text, starting with code 1. A null represents missing values.
    counts : array of int
        The number of training rows with each code, starting with code 0.

    Examples
    --------
    >>> import pyarrow as pa
    >>> shop = Vocabulary.fit("shop", pa.array(["b", "a", "b", "c", "a", "b"]), min_count=2)
    >>> shop
    Vocabulary('shop', 2 categories, 1 rows in none of them)
    >>> shop.encode(pa.array(["a", "b", "c", "new"]))
    array([2, 1, 0, 0], dtype=int32)

    """

    name: str
    items: Any
    counts: NDArray[np.int64]

    @classmethod
    def fit(cls, name: str, column: Any, *, min_count: int = 5, max_size: int | None = None) -> Self:
        """Count the categories of an Arrow array and keep those with `min_count` rows or more.

        `max_size` is the largest number of codes, code 0 included. Ties go by text order. O(n) time.
        """
        index, text = _distinct(column, name)
        found = pa.table({"text": text, "rows": np.bincount(index, minlength=len(text))})
        merged = found.group_by("text").aggregate([("rows", "sum")])
        ordered = merged.sort_by([("rows_sum", "descending"), ("text", "ascending")])
        kept = ordered.filter(pc.field("rows_sum") >= min_count).slice(0, None if max_size is None else max_size - 1)
        counts = kept["rows_sum"].to_numpy()
        return cls(name, kept["text"].combine_chunks(), np.concatenate([[len(index) - counts.sum()], counts]))

    @property
    def size(self) -> int:
        """The number of codes, code 0 included."""
        return len(self.counts)

    def encode(self, column: Any) -> NDArray[np.int32]:
        """Return the code of each row of an Arrow array. O(n) time. Raise `InvalidInput` for numbers where all categories are words."""
        index, text = _distinct(column, self.name)
        if _holds_numbers(column.type) and text.null_count < len(text) and not _any_number(self.items):
            raise InvalidInput(
                f"column {self.name!r} holds numbers, and was text when the model was trained: give the same text"
            )
        found = pc.index_in(text, value_set=self.items)
        codes: NDArray[np.int32] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False) + np.int32(1)
        return codes[index]

    def to_record(self) -> dict[str, Any]:
        """Return the vocabulary as JSON values."""
        return {"name": self.name, "categories": self.items.to_pylist(), "counts": np.asarray(self.counts).tolist()}

    @classmethod
    def from_record(cls, record: Any) -> Self:
        """Return the vocabulary that `to_record` described; raise `InvalidInput` for anything else."""
        name, kept, counts = exactly(record, "name", "categories", "counts", what="a categorical column")
        is_a(name, str, what="the name of a column")
        all_are([text for text in is_a(kept, list, what="the categories") if text is not None], str, "the categories")
        counted = all(0 <= count < LARGEST_WHOLE_FLOAT for count in all_are(counts, int, "the counts"))
        if not counted or len(counts) != len(kept) + 1 or len(set(kept)) != len(kept):
            raise InvalidInput(f"the categories of {name!r:.60} do not fit their counts")
        return cls(name, pa.array(kept, pa.large_string()), np.array(counts, np.int64))

    def __repr__(self) -> str:
        return f"Vocabulary({self.name!r}, {len(self.items):,} categories, {self.counts[0]:,} rows in none of them)"


def _holds_numbers(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _any_number(items: Any) -> bool:
    """Return whether one of the categories looks like a number, or none is known."""
    filled = pc.drop_null(items)
    return len(filled) == 0 or bool(pc.any(pc.match_substring_regex(filled, PLAIN_NUMBER)).as_py())


def _distinct(column: Any, name: str) -> tuple[NDArray[np.int32], Any]:
    """Return each row's place in a list of distinct values, and these values as text (null for missing)."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind):
        raise InvalidInput(f"column {name!r} holds {kind} values; a category must be one plain value. Leave it out.")
    if pa.types.is_dictionary(column.type):
        text = _as_text(column.dictionary, name)
        if not column.null_count:
            return column.indices.to_numpy(zero_copy_only=False), text
        index = pc.fill_null(column.indices.cast(pa.int32()), len(text)).to_numpy(zero_copy_only=False)
        return index, pa.concat_arrays([text, pa.nulls(1, text.type)])
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False), _as_text(encoded.dictionary, name)


def _as_text(values: Any, name: str) -> Any:
    """Return values as text, whole numbers without a decimal point. True and false are 1 and 0, as other files write them.

    NaN is null, and so is empty text: a CSV file cannot distinguish empty text from a missing value.
    """
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_decimal(values.type) or pa.types.is_floating(values.type):
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        missing = np.isnan(numbers)
        whole = (np.abs(numbers) < LARGEST_WHOLE_FLOAT) & (numbers == np.rint(numbers))
        integers = pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=missing).cast(pa.large_string())
        return pc.if_else(pa.array(whole), integers, pa.array(numbers, mask=missing).cast(pa.large_string()))
    try:
        text = values.cast(pa.large_string())
        return pc.if_else(pc.equal(text, ""), None, text)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidInput(
            f"column {name!r} holds {values.type} values that are not text: save the file as UTF-8, or leave the column out"
        ) from None


LARGEST_STANDARD = 10.0
LARGEST_NUMBER = 1e100  # its square is finite
TREE_CATEGORIES = 255  # HistGradientBoosting's limit on categories equals its number of bins

ColumnKey = str | int


@dataclass(frozen=True, eq=False)
class ColumnEncoder:
    """Codes for the categories and float64 for the numbers of a table; made by `fit` or `for_trees`.

    Columns are found by name, in any order, and other columns are ignored. Arrays as wide as the training table are read
    by position.

    Attributes
    ----------
    columns : tuple of str
        All columns of the training table, including those left out.
    numeric : tuple of str
        The numeric columns.
    categorical : tuple of Vocabulary
        The categorical columns with their codes.
    empty : frozenset of str
        Numeric columns without any number in training. They are 0 and never read, so they may hold anything later.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"price": [2.5, None, 4.0], "shop": ["b", "a", "b"]})
    >>> encoder = ColumnEncoder.fit(table, min_count=1)
    >>> encoder.ordinal(table)
    array([[2.5, 1. ],
           [nan, 2. ],
           [4. , 1. ]])

    """

    columns: tuple[str, ...]
    numeric: tuple[str, ...]
    categorical: tuple[Vocabulary, ...]
    empty: frozenset[str]

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
    ) -> Self:
        """Learn the columns and their categories from training features.

        Parameters
        ----------
        features : table or array
            A pandas, polars or Arrow table, or a two-dimensional array.
        categorical, numeric, exclude : sequence of str or int
            Columns, by name or position, to read as categories, to read as numbers, and to leave out.
        min_count : int
            Categories with fewer rows than this share code 0.
        max_categories : int, optional
            The largest number of codes in a column, code 0 included. The least frequent categories share code 0.

        """
        if min_count < 1:
            raise InvalidInput(f"min_count must be at least 1, got {described(min_count)}")
        if max_categories is not None and max_categories < 2:
            raise InvalidInput(f"max_categories must be at least 2, got {described(max_categories)}")
        table = FeatureTable.of(features)
        number_names, category_names = infer_columns(table, categorical=categorical, numeric=numeric, exclude=exclude)
        return cls(
            table.names,
            tuple(number_names),
            tuple(
                Vocabulary.fit(name, table.column(name), min_count=min_count, max_size=max_categories)
                for name in category_names
            ),
            frozenset(name for name in number_names if np.isnan(numbers(table.column(name), name)).all()),
        )

    @classmethod
    def for_trees(cls, features: Any, **options: Any) -> Self:
        """Return an encoder for `HistGradientBoostingRegressor`: at most 255 codes a column. Use it with `ordinal`."""
        return cls.fit(features, **{"max_categories": TREE_CATEGORIES, **options})

    def to_record(self) -> dict[str, Any]:
        """Return the encoder as JSON values."""
        return {
            "columns": list(self.columns),
            "numeric": list(self.numeric),
            "categorical": [vocabulary.to_record() for vocabulary in self.categorical],
            "empty": sorted(self.empty),
        }

    @classmethod
    def from_record(cls, record: Any) -> Self:
        """Return the encoder that `to_record` described; raise `InvalidInput` for anything else."""
        columns, numeric, categorical, empty = exactly(
            record, "columns", "numeric", "categorical", "empty", what="an encoder of columns"
        )
        made = cls(
            all_are(columns, str, "the columns"),
            all_are(numeric, str, "the numeric columns"),
            tuple(map(Vocabulary.from_record, all_are(categorical, dict, "the categorical columns"))),
            frozenset(all_are(empty, str, "the empty columns")),
        )
        used = [*made.numeric, *(vocabulary.name for vocabulary in made.categorical)]
        if len({*made.columns}) != len(made.columns) or len({*used}) != len(used):
            raise InvalidInput("an encoder of columns has a column twice")
        if not {*used} <= {*made.columns} or not made.empty <= {*made.numeric}:
            raise InvalidInput("an encoder of columns names a column that it does not have")
        return made

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each categorical column."""
        return tuple(vocabulary.size for vocabulary in self.categorical)

    def transform(self, features: Any) -> tuple[NDArray[np.int32], Floats]:
        """Return the codes of the categorical columns, and the numeric columns with NaN where a number is missing."""
        table = self._checked(features)
        codes = np.empty((table.rows, len(self.categorical)), np.int32, order="F")
        self._fill_codes(table, codes)
        values = np.zeros((table.rows, len(self.numeric)), order="F")
        self._fill_numbers(table, values)
        return codes, values

    def ordinal(self, features: Any) -> Floats:
        """Return one matrix for trees: the numeric columns, then the codes."""
        table = self._checked(features)
        matrix = np.zeros((table.rows, len(self.numeric) + len(self.categorical)), order="F")
        self._fill_numbers(table, matrix[:, : len(self.numeric)])
        self._fill_codes(table, matrix[:, len(self.numeric) :])
        return matrix

    def _fill_codes(self, table: FeatureTable, codes: NDArray[Any]) -> None:
        for j, vocabulary in enumerate(self.categorical):
            codes[:, j] = vocabulary.encode(table.column(vocabulary.name))

    def _fill_numbers(self, table: FeatureTable, values: Floats) -> None:
        """Write the numeric columns into zeros."""
        for j, name in enumerate(self.numeric):
            if name not in self.empty:
                values[:, j] = numbers(table.column(name), name)

    def _checked(self, features: Any) -> FeatureTable:
        table = FeatureTable.of(features)
        by_position = table.unnamed or self.columns == tuple(f"x{j}" for j in range(len(self.columns)))
        if by_position and len(table.names) == len(self.columns):
            table = table.renamed(self.columns)
        used = {*self.numeric, *(vocabulary.name for vocabulary in self.categorical)}
        lost = [name for name in self.columns if name in used and name not in table]
        if lost:
            shown = ", ".join(repr(name) + closest(name, table.names) for name in lost[:5])
            more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
            raise InvalidInput(f"columns that the model was trained on are missing: {shown}{more}")
        return table


def standardizer(largest: float = LARGEST_STANDARD) -> Pipeline:
    """Return a scikit-learn pipeline that prepares numbers for networks and linear models.

    Each column gets mean 0 and standard deviation 1 on the training rows and is clipped at ±`largest`, so that one absurd value
    cannot throw a prediction. A missing number becomes 0, the mean. Each column with missing numbers in training adds a
    column at the end that is 1 where the number is missing. A column that is constant in training is always 0.

    Examples
    --------
    >>> standardizer().fit_transform([[1.0, 5.0], [3.0, 5.0], [float("nan"), 5.0]])
    array([[-1.,  0.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])

    """
    return make_pipeline(
        _clipper(LARGEST_NUMBER),
        ConstantsToZero(copy=False),
        _clipper(largest),
        SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True, add_indicator=True, copy=False),
    ).set_output(transform="default")


class ConstantsToZero(StandardScaler):  # type: ignore[misc]
    """A `StandardScaler` that turns columns that are constant in training into 0, also for new values later.

    scikit-learn divides such columns by 1, so that a new value would be far out of range.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit as scikit-learn does, then give constant columns an infinite scale."""
        super().fit(X, y, sample_weight)
        self.scale_[self.scale_ != np.sqrt(self.var_)] = np.inf
        return self


def infer_columns(
    features: Any,
    *,
    categorical: Sequence[ColumnKey] | None = None,
    numeric: Sequence[ColumnKey] | None = None,
    exclude: Sequence[ColumnKey] = (),
) -> tuple[list[str], list[str]]:
    """Return the names of the numeric and of the categorical columns, in table order.

    Columns named in `categorical` or `numeric` are read that way, those in `exclude` are left out, and types decide the rest.
    """
    table = FeatureTable.of(features)
    categories = table.resolve(categorical or (), "categorical")
    figures = table.resolve(numeric or (), "numeric")
    left_out = table.resolve(exclude, "exclude")
    if twice := sorted((categories & figures) | (categories & left_out) | (figures & left_out)):
        raise InvalidInput(
            f"column {twice[0]!r} is named more than once among the categorical, numeric and excluded columns: name it once"
        )
    numeric_names: list[str] = []
    categorical_names: list[str] = []
    for name in table.names:
        if name in left_out:
            continue
        is_category = name in categories or (name not in figures and _is_categorical(table.column(name), name))
        (categorical_names if is_category else numeric_names).append(name)
    if not numeric_names and not categorical_names:
        raise InvalidInput("the table contains no feature columns: give at least one column to learn from")
    return numeric_names, categorical_names


def _is_categorical(column: Any, name: str) -> bool:
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind):
        return True
    if pa.types.is_large_string(kind):
        return not is_number_text(column)
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):  # numbers and times
        return False
    raise InvalidInput(
        f"column {name!r} holds {kind} values, neither numbers nor categories. Leave it out of the features."
    )


def _clipper(largest: float) -> FunctionTransformer:
    return FunctionTransformer(np.clip, kw_args={"a_min": -largest, "a_max": largest})
