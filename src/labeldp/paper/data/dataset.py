"""What every loader and generator returns: features, labels, and a description of where they come from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.tables.files import readable

MIN_COUNT = 5
RARE = "(rare)"
"""The item of all rare values. It is item 0 of every dictionary made here."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A regression task in memory.

    Parameters
    ----------
    name : str
        A short name, such as "criteo-like".
    features : pyarrow.Table
        One column for each name in `numeric` (float64), then one for each name in `categorical` (dictionary-encoded strings).
    labels : array of float
        One label for each row, within the public bounds.
    numeric, categorical : tuple of str
        The names of the columns.
    upper : float
        The public upper bound of the labels.
    description : str
        What the data is, in words, and whether it is genuine or generated.
    lower : float
        The public lower bound of the labels.

    Examples
    --------
    >>> from labeldp.paper.data import criteo_like
    >>> sales = criteo_like(1000)
    >>> len(sales), sales.lower, sales.upper
    (1000, 0.0, 400.0)
    >>> sales
    Dataset('criteo-like', 1,000 rows, 3 numeric and 17 categorical columns, labels in [0, 400]; generated Criteo-like purchases (seed 0), not the genuine Criteo log)

    """

    name: str
    features: pa.Table
    labels: NDArray[np.float64]
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    upper: float
    description: str
    lower: float = 0.0

    def __post_init__(self) -> None:
        assert self.features.num_rows == len(self.labels)
        assert self.features.column_names == [*self.numeric, *self.categorical]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self):,} rows, {len(self.numeric)} numeric and {len(self.categorical)} "
            f"categorical columns, labels in [{self.lower:g}, {self.upper:g}]; {self.description})"
        )

    def split(self, seed: int) -> tuple[Dataset, Dataset]:
        """Split the rows at random into training rows (80 %) and test rows (20 %), as in the paper.

        Parameters
        ----------
        seed : int
            Decides the split.

        Returns
        -------
        train, test : Dataset
            The two parts.

        Examples
        --------
        >>> from labeldp.paper.data import criteo_like
        >>> train, test = criteo_like(1000).split(seed=0)
        >>> len(train), len(test)
        (800, 200)

        """
        order = np.random.default_rng(seed).permutation(len(self))
        cut = len(self) * 4 // 5
        return self.take(np.sort(order[:cut])), self.take(np.sort(order[cut:]))

    def take(self, rows: NDArray[np.int64]) -> Dataset:
        """Select rows, in the given order.

        Parameters
        ----------
        rows : array of int
            Positions of the rows, from 0.

        Returns
        -------
        Dataset
            A data set with those rows. The description stays the same.

        Examples
        --------
        >>> import numpy as np
        >>> from labeldp.paper.data import criteo_like
        >>> len(criteo_like(1000).take(np.arange(10)))
        10

        """
        return replace(self, features=self.features.take(pa.array(rows)), labels=self.labels[rows])

    def matrix(self, max_items: int = 255) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the features as one array of numbers and codes, for scikit-learn.

        Codes follow the data set's own dictionaries, so both parts of a `split` use the same codes.

        Parameters
        ----------
        max_items : int
            Categorical columns with more items are left out. Histogram gradient boosting allows 255.

        Returns
        -------
        matrix : array of float
            The numeric columns, then the codes of the categorical columns.
        is_code : array of bool
            Which columns are codes: `categorical_features` of scikit-learn's histogram gradient boosting.

        Examples
        --------
        >>> from labeldp.paper.data import criteo_like
        >>> matrix, is_code = criteo_like(1000).matrix()
        >>> matrix.shape, int(is_code.sum())
        ((1000, 20), 17)

        """
        columns = [self.features[name].to_numpy() for name in self.numeric]
        for name in self.categorical:
            column = self.features[name].combine_chunks()
            if len(column.dictionary) <= max_items:
                columns.append(column.indices.to_numpy(zero_copy_only=False))
        is_code = np.arange(len(columns)) >= len(self.numeric)
        return np.column_stack(columns).astype(np.float64), is_code


def with_vocabulary(
    column: pa.Array | pa.ChunkedArray,
    min_count: int = MIN_COUNT,
    render: Callable[[NDArray[np.int64]], pa.Array] | None = None,
) -> pa.DictionaryArray:
    """Encode a column of strings with the sorted vocabulary of its values that occur at least `min_count` times.

    Or a column of integers, which `render` turns into strings once for each distinct integer. Linear time, and a sort
    of the items.
    """
    codes, items = _encoded(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    if render is not None:
        merged, items = _encoded(render(items.to_numpy(zero_copy_only=False)))
        codes = merged[codes]
    frequent = items.filter(pa.array(np.bincount(codes, minlength=len(items)) >= min_count))
    dictionary = pa.concat_arrays([pa.array([RARE]), frequent.sort()])
    positions = pc.fill_null(pc.index_in(items, value_set=dictionary), 0)
    return pa.DictionaryArray.from_arrays(positions.take(pa.array(codes)), dictionary)


def _encoded(column: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary


@contextmanager
def reading(path: Path, expected: str, explain: Callable[[str], str]) -> Iterator[None]:
    """Turn errors while `path` is read into `InvalidInput`. `explain` rewrites pyarrow's texts about bad content.

    Pyarrow quotes values and whole lines, which contain labels: no error shows them, nor has one of pyarrow's as its cause.
    """
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file; expected {expected}")

    def explained(text: str) -> str:
        return f"{path.name} is empty; expected {expected}" if "Empty CSV" in text else explain(text)

    with readable(path, explained, f"It may be cut off; expected {expected}"):
        yield


def located(path: Path, message: str) -> str:
    """Return the place of a fault from pyarrow's message: the file, the line and the field, or the number of fields."""
    row = re.search(r"Row #(\d+)", message)
    where = f"{path.name}, line {row[1]}" if row else path.name
    if fields := re.search(r"Expected (\d+) columns, got (\d+)", message):
        return f"{where}: {fields[2]} fields where there should be {fields[1]}"
    column = re.search(r"column #(\d+)", message)
    return f"{where}, field {int(column[1]) + 1}" if column else where
