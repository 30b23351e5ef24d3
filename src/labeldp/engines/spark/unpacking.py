"""Takes packed rows (see `packing`) apart, and sorts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.engines.batches import TEXT
from labeldp.engines.spark.guard import REPEATED, Batches, WorkerError
from labeldp.engines.spark.packing import LENGTHS
from labeldp.engines.spark.rows import ROWS_PER_PART
from labeldp.sampling.text_buffers import text_buffers

SORTED_ROWS = 1 << 16
"""So many sorted rows are in a batch."""


@dataclass(frozen=True)
class UnpackTask:
    """Gives the rows of a part, sorted by their keys.

    Records with one id go to one part, so that a wrong id column could make it larger than memory. A part of more than twice as many
    rows as it should have is searched for repeated ids while it arrives, whenever it has doubled.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns of a row.
    """

    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        found: list[pa.RecordBatch] = []
        rows, most = 0, 2 * ROWS_PER_PART
        for batch in batches:
            found.append(batch)
            rows += self._column([batch], "key").size
            if rows > most:
                order, keys = self._order(found)
                _refuse_repeats([column[order] for column in keys])
                most = 2 * rows
        if found:
            yield from self._sorted(found)

    def _sorted(self, batches: list[pa.RecordBatch]) -> Batches:
        order, _ = self._order(batches)
        columns = {name: self._column(batches, name) for name in self.schema.names if name != "id"}
        texts = _texts(batches) if "id" in self.schema.names else None
        for start in range(0, order.size, SORTED_ROWS):
            rows = order[start : start + SORTED_ROWS]
            yield pa.record_batch(
                [
                    texts.take(pa.array(rows)).cast(field.type)
                    if texts is not None and field.name == "id"
                    else pa.array(columns[field.name][rows], field.type)
                    for field in self.schema
                ],
                schema=self.schema,
            )

    def _order(self, batches: list[pa.RecordBatch]) -> tuple[NDArray[np.int64], list[NDArray[Any]]]:
        """The places of the rows in their order, and the columns that they are sorted by."""
        keys = [self._column(batches, name) for name in ("key", "high") if name in self.schema.names]
        order = np.argsort(keys[0])
        ordered = keys[0][order]
        if (
            len(keys) > 1 and (ordered[1:] == ordered[:-1]).any()
        ):  # with a chance of 2^-25 in a part, unless ids are repeated
            order = np.lexsort(keys[::-1])
        return order, keys

    def _column(self, batches: list[pa.RecordBatch], name: str) -> NDArray[Any]:
        kind = self.schema.field(name).type.to_pandas_dtype()
        return np.concatenate([_content(batch.column(name)).view(kind) for batch in batches])


def _texts(batches: list[pa.RecordBatch]) -> pa.Array:
    content = np.concatenate([_content(batch.column("id")) for batch in batches])
    lengths = np.concatenate([_content(batch.column(LENGTHS)).view(np.int32) for batch in batches])
    ends = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return pa.Array.from_buffers(TEXT, lengths.size, [None, pa.py_buffer(ends), pa.py_buffer(content)])


def _content(values: pa.Array) -> NDArray[np.uint8]:
    """The bytes of all values of a column, one after the other."""
    content, ends = text_buffers(values)
    return content[ends[0] : ends[-1]]


def _refuse_repeats(keys: list[NDArray[Any]]) -> None:
    if np.logical_and.reduce([column[1:] == column[:-1] for column in keys]).any():
        raise WorkerError(REPEATED)
