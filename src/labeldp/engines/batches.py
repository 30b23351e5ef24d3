"""What every engine does with one batch of records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.columns import check_boolean_bounds
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.labels_file import code_dtype
from labeldp.sampling import BoundRandomness, IdDigests, KeyedRandomness

CACHED_ROWS = 1 << 16
"""So many rows at a time go from their labels to their codes, so that what lies between stays in the cache."""


class FileTypes(NamedTuple):
    """The exact Arrow types of the id column and the label column as the input file has them, by name.

    Checked ids and labels have few types, so that inputs that differ can look alike: the 64 bits of an int64 id are those of
    another uint64 id. The names tell such inputs apart.
    """

    ids: str
    labels: str


@dataclass(frozen=True)
class LabelBatch:
    """Consecutive records with checked ids and labels (see `columns`).

    Attributes
    ----------
    ids : pyarrow.Array
        One id per record, without nulls: int64, uint64 or large_string.
    labels : array of float64
        One finite label per record.
    first_row : int
        The number of the first record in the whole input, from 0.
    types : FileTypes
        What the two columns are in the file.
    """

    ids: pa.Array
    labels: Floats
    first_row: int
    types: FileTypes


def repeated_id(rows: Sequence[int], outcome: str) -> InvalidInput:
    """The error for an id that occurs in these rows, if they are known. It does not show the id, which may be a label by mistake."""
    where = (
        f"rows {rows[0] + 1} and {rows[1] + 1} have the same one (rows count from 1)"
        if len(rows) > 1
        else "one is repeated"
    )
    return InvalidInput(
        f"ids must be unique, but {where}. Two records with one id would share their randomness and reveal whether their labels "
        f"differ: remove or combine them. {outcome}"
    )


def outside(labels: Floats, domain: Domain) -> NDArray[np.bool_]:
    """Which labels lie outside the bounds."""
    return (labels < domain.lower) | (labels > domain.upper)


def count_outside(batch: LabelBatch, domain: Domain, out_of_range: OutOfRange) -> int:
    """How many labels lie outside the bounds; with `out_of_range="error"`, the first of them is refused.

    Labels between whole numbers are refused where the bounds say that there are none.
    """
    check_boolean_bounds(batch.types.labels, domain)
    domain.require_whole(batch.labels, batch.first_row)
    beyond = outside(batch.labels, domain)
    if out_of_range == "error" and beyond.any():
        row = int(np.argmax(beyond))
        raise InvalidInput(
            f"labels must lie from {domain.lower:g} to {domain.upper:g}, but that in row {batch.first_row + row + 1} (rows "
            "count from 1) does not. Widen the bounds, or move such labels to them with --out-of-range clip."
        )
    return int(np.count_nonzero(beyond))


def draw_batch(
    batch: LabelBatch, mechanism: FiniteMechanism, domain: Domain, randomness: KeyedRandomness | BoundRandomness
) -> tuple[IdDigests, NDArray[Any]]:
    """The digests of the ids and one code per record.

    Privacy: the engine must refuse the whole release if two digests are equal, in this batch or across batches. They
    are not compared here.
    """
    digests = randomness.id_digests(batch.ids, digest=mechanism.digest_bytes)
    unchecked = IdDigests(digests.high, digests.low, digests.kind, distinct=True)
    codes = np.empty(batch.labels.size, code_dtype(mechanism.outputs.size))
    for start in range(0, codes.size, CACHED_ROWS):
        rows = slice(start, start + CACHED_ROWS)
        labels = np.clip(batch.labels[rows], domain.lower, domain.upper)
        codes[rows] = mechanism.draw(labels, randomness, unchecked[rows])
    return digests, codes
