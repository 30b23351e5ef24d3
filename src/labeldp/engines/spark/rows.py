"""How a drawn record travels through the shuffle, and where it goes.

A row has a sort key and a code. The key is the one that orders the rows of every message: SplitMix64's bijection of an integer
id, or the keyed BLAKE2b digest of a text, whose other 32 bits and whose text go along. The leading bits of the key choose the
part that the row is written to. No label and nothing that follows it travels, only what is released.

Beside the records travel notes, as rows with codes below zero: the two limbs of the fingerprint and the number of rows that a worker
has read, and the number that it has sent. They go to a part of their own after all others. So the driver learns what was drawn
from the very tasks whose rows were written, however often a task was repeated, and without an accumulator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import DataType, IntegerType, LongType, ShortType, StringType, StructField, StructType

from labeldp.sampling import IdDigests
from labeldp.sampling.ids import mix, unmix

ROWS_PER_PART = 1 << 20
TEXT_PER_PART = 1 << 26
"""Bytes of ids."""
MOST_PART_BITS = 16
MOST_SHORT_CODES = 1 << 15
READ_CODES = (-1, -2, -3)
"""The codes of the notes that a worker makes of what it has read: the first limb, the second limb, the number of rows."""
SENT_CODE = -4
"""The code of the note that says how many records a worker has sent: fewer than it has read, if ids are held already."""
NOTE_CODES = (*READ_CODES, SENT_CODE)
_SIGN = np.uint64(1 << 63)


def part_bits(rows: int, id_bytes: int) -> int:
    """How many leading bits of the key choose a part. It depends on the ids and their number only."""
    wide = max(rows // ROWS_PER_PART, id_bytes // TEXT_PER_PART)
    return min(MOST_PART_BITS, wide.bit_length())


def code_type(outputs: int) -> DataType:
    """The smallest of Spark's types for the codes of so many outputs. It has no unsigned ones."""
    return ShortType() if outputs <= MOST_SHORT_CODES else IntegerType()


def row_schema(id_kind: str, outputs: int, *, with_id: bool = False) -> StructType:
    """The columns of a row in the shuffle. Integers come back from their keys, and are sent only if asked for."""
    fields = [StructField("key", LongType(), nullable=False)]
    if id_kind == "str":
        fields += [StructField("high", IntegerType(), nullable=False), StructField("id", StringType())]
    elif with_id:
        fields += [StructField("id", LongType())]
    return StructType([*fields, StructField("code", code_type(outputs), nullable=False)])


def part_numbers(keys: NDArray[np.int64], codes: NDArray[np.integer], bits: int) -> NDArray[np.unsignedinteger]:
    """The part of each row, from its key; rows that are no records go to the one after the last."""
    words = keys.view(np.uint64) ^ _SIGN
    parts = words >> np.uint64(64 - bits) if bits else np.zeros_like(words)
    parts[codes < 0] = 1 << bits
    return parts.astype(np.uint16 if bits < MOST_PART_BITS else np.uint32)  # 16 bits are sorted in linear time


def sort_keys(digests: IdDigests) -> NDArray[np.int64]:
    """The keys of records as signed numbers, which sort as the unsigned ones do."""
    low = np.ascontiguousarray(digests.low)
    words = mix(low) if digests.kind == "int" else low
    return (words ^ _SIGN).view(np.int64)


def integers_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The integer ids that have these keys."""
    return unmix(keys.view(np.uint64) ^ _SIGN).view(np.int64)


def row_batch(
    schema: pa.Schema, keys: NDArray[np.int64], high: NDArray[np.uint32], ids: pa.Array | None, codes: NDArray[np.int64]
) -> pa.RecordBatch:
    """Rows with the columns that the schema asks for."""
    columns = {"key": keys, "high": high.view(np.int32), "id": ids, "code": codes}
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def note_batch(schema: pa.Schema, numbers: Sequence[int], codes: Sequence[int] = READ_CODES) -> pa.RecordBatch:
    """The rows that carry `numbers`, unsigned 64-bit words, as their keys."""
    words = np.asarray(numbers, np.uint64)
    nobody = pa.nulls(words.size, schema.field("id").type) if "id" in schema.names else None
    return row_batch(schema, words.view(np.int64), np.zeros(words.size, np.uint32), nobody, np.asarray(codes))
