"""Rows travel through the shuffle many at a time, and are sorted where they arrive.

Spark takes longer to hand a row to a worker, take it back, shuffle it or sort it than a worker takes to draw it. So a worker joins
the rows that it has for a part into one value of bytes per column, and the worker that gets them takes them apart and sorts them
(`unpacking`). A part has about a million rows (see `rows.part_bits`), which fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from labeldp.engines.batches import TEXT
from labeldp.engines.spark.guard import Batches
from labeldp.engines.spark.rows import SENT_CODE, note_batch, part_numbers
from labeldp.sampling.text_buffers import text_buffers

LEAST_ROWS, MOST_ROWS = 1 << 16, 1 << 20
"""So many rows are packed at a time, more where there are more parts."""
ROWS_PER_PART = 64
"""So many of them are for each part, up to `MOST_ROWS` in all: a value takes some 50 bytes beside its rows."""
MOST_BYTES = 1 << 26
"""Fewer rows are packed at a time if they have more bytes."""
LENGTHS = "lengths"
"""The column of packed rows that says how long each text is, in bytes."""


@dataclass(frozen=True)
class Chain:
    """Two tasks in one worker: what the first one gives does not pass through Spark."""

    first: Callable[[Batches], Batches]
    second: Callable[[Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        return self.second(self.first(batches))


def packed_schema(row: StructType) -> StructType:
    """The columns of packed rows: the part, the bytes of each column of a row and, for texts, the bytes of their lengths."""
    names = [*row.names, LENGTHS] if "id" in row.names else row.names
    return StructType(
        [
            StructField("part", IntegerType(), nullable=False),
            *(StructField(name, BinaryType(), nullable=False) for name in names),
        ]
    )


@dataclass(frozen=True)
class PackTask:
    """Packs the rows for each part, and notes how many records there were.

    Attributes
    ----------
    bits : int
        How many leading bits of a key choose the part.
    schema : pyarrow.Schema
        The columns of packed rows.
    """

    bits: int
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        sent, row = 0, None
        for batch in joined(batches, min(MOST_ROWS, max(LEAST_ROWS, ROWS_PER_PART << self.bits))):
            codes = np.asarray(batch.column("code"))
            sent, row = sent + int(np.count_nonzero(codes >= 0)), batch.schema
            parts = part_numbers(np.asarray(batch.column("key")), codes, self.bits)
            order = np.argsort(parts, kind="stable")
            numbers, firsts = np.unique(parts[order], return_index=True)
            yield self._packed(batch.take(pa.array(order)), numbers, np.append(firsts, parts.size))
        if row is not None:
            note = note_batch(row, (sent,), (SENT_CODE,))
            yield self._packed(note, np.asarray([1 << self.bits]), np.asarray([0, 1]))

    def _packed(self, rows: pa.RecordBatch, parts: NDArray[Any], bounds: NDArray[np.int64]) -> pa.RecordBatch:
        """One row for each of these parts, whose rows lie between the bounds."""
        columns: dict[str, NDArray[Any]] = {}
        places: dict[str, NDArray[np.int64]] = {}
        for name in rows.schema.names:
            if name == "id":
                columns[name], ends = text_buffers(rows.column(name).cast(TEXT).fill_null(""))  # notes have none
                places[name] = ends[bounds]
                columns[LENGTHS] = np.diff(ends).astype(np.int32)
            else:
                columns[name] = np.asarray(rows.column(name))
        values = [
            _values(columns[field.name], places.get(field.name, columns[field.name].itemsize * bounds), field.type)
            for field in self.schema
            if field.name != "part"
        ]
        return pa.record_batch([pa.array(parts, pa.int32()), *values], schema=self.schema)


def joined(batches: Batches, rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about so many, or of `MOST_BYTES`."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if held and sum(one.nbytes for one in held) + batch.nbytes > MOST_BYTES:
            yield pa.concat_batches(held)
            held = []
        if batch.num_rows:
            held.append(batch)
        if sum(one.num_rows for one in held) >= rows:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def _values(column: NDArray[Any], places: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Binary values that begin and end at these places of a column's bytes."""
    offsets = places.astype(np.int64 if pa.types.is_large_binary(kind) else np.int32)
    content = np.ascontiguousarray(column).view(np.uint8)
    return pa.Array.from_buffers(kind, places.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(content)])
