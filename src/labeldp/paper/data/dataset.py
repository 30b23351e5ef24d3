"""What every loader and generator returns: features, labels, and words that say where they come from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """A regression task in memory.

    `features` has one column per name in `numeric` (float64) and in `categorical` (dictionary-encoded strings);
    `labels` is float64 within the public bounds `lower` and `upper`, whole numbers where `integer` is true.
    `description` says in words what the data is and whether it is genuine or `generated`.
    """

    name: str
    features: pa.Table
    labels: NDArray[np.float64]
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    lower: float
    upper: float
    integer: bool
    generated: bool
    description: str

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
        """A random 80/20 partition into training and test rows, the paper's; another seed, another partition."""
        order = np.random.default_rng(seed).permutation(len(self))
        cut = len(self) * 4 // 5
        return self.take(np.sort(order[:cut])), self.take(np.sort(order[cut:]))

    def take(self, rows: NDArray[np.int64]) -> Dataset:
        """The given rows, in the given order."""
        return replace(self, features=self.features.take(pa.array(rows)), labels=self.labels[rows])

    def matrix(self, max_items: int = 255) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Numeric columns, then the codes of categorical columns with at most `max_items` items: (X, which are codes).

        The second array is what scikit-learn's histogram gradient boosting takes as `categorical_features` (it
        allows 255 items); columns with more items are left out. Codes follow the data set's own dictionaries, so
        that the two parts of a `split` agree on them.
        """
        columns = [self.features[name].to_numpy() for name in self.numeric]
        for name in self.categorical:
            column = self.features[name].combine_chunks()
            if len(column.dictionary) <= max_items:
                columns.append(column.indices.to_numpy(zero_copy_only=False))
        is_code = np.arange(len(columns)) >= len(self.numeric)
        return np.column_stack(columns).astype(np.float64), is_code
