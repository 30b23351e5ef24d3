"""What an engine learns of an input when it first reads it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.domain import Domain
from labeldp.message.labels_file import id_kind

Progress = Callable[[int], None]
"""Called with the number of rows done since the last call."""


@dataclass(frozen=True, eq=False)
class Scan:
    """What the first pass learns. `clipped`, `input_hmac` and `counts` are as private as the labels: never released.

    Attributes
    ----------
    records : int
        The number of records.
    clipped : int
        How many labels lie outside the bounds.
    id_type : pyarrow.DataType
        The type of the ids.
    id_types : tuple of str
        The types that the id column has in the input, each once, in the order in which they come.
    input_hmac : str
        The input's fingerprint.
    id_bytes : int
        The size of all ids in memory.
    grid : Domain or None
        The grid of `counts`.
    counts : array of int64 or None
        Exact counts per cell of `grid`, if a grid was given.
    """

    records: int
    clipped: int
    id_type: pa.DataType
    id_types: tuple[str, ...]
    input_hmac: str
    id_bytes: int = 0
    grid: Domain | None = None
    counts: NDArray[np.int64] | None = None

    @property
    def id_kind(self) -> str:
        """What the ids are: "int" or "str"."""
        return id_kind(self.id_type)
