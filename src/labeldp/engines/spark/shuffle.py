"""Drawing records, shuffling them with Spark, packed by part, and sorting each part and checking it for repeated ids.

A row has a sort key and a code. The key is the same that orders the rows of every message: SplitMix64's bijection of an
integer id, or the keyed BLAKE2b digest of a text, together with its other 32 bits and the text. The leading bits of the
key determine the part to which the row is written. Nothing derived from labels is shuffled, except released codes.

The shuffle also contains notes, rows with codes below zero: the two limbs of the fingerprint and the number of rows
that a worker has read, and the number that it has sent. They have their own part after all others. So the driver learns
about the drawn records from exactly the tasks whose rows were written, even if tasks were repeated, and without an
accumulator.

For Spark, sending a row to a worker, receiving it, shuffling it or sorting it takes longer than the draw itself. So
`PackTask` joins the rows of a worker for a part into one value of bytes per column, and `UnpackTask` unpacks and sorts
them. A part has about a million rows (see `part_bits`), which fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql.types import DataType, IntegerType, ShortType, StructType

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.engines.batches import TEXT, FileTypes, LabelBatch, draw_batch
from labeldp.engines.spark.worker import CHANGED, REPEATED, Batches, RecordReader, WorkerError
from labeldp.mechanisms import FiniteMechanism
from labeldp.sampling import BoundRandomness, IdDigests
from labeldp.sampling.ids import mix, text_buffers, unmix
from labeldp.sampling.multiset import MultisetHash
from labeldp.sampling.randomness import Blocks

ROWS_PER_PART = 1 << 20
TEXT_PER_PART = 1 << 26
"""The size of the ids, in bytes."""
MOST_PART_BITS = 16
MOST_SHORT_CODES = 1 << 15
READ_CODES = (-1, -2, -3)
"""The codes of a worker's notes about its input: the first limb, the second limb, the number of rows."""
SENT_CODE = -4
"""The code of the note with the number of records sent: fewer than were read if the message already contains some."""
NOTE_CODES = (*READ_CODES, SENT_CODE)
_SIGN = np.uint64(1 << 63)
_NO_TYPES = FileTypes("", "")
LEAST_ROWS, MOST_ROWS = 1 << 16, 1 << 20
"""The limits on the number of rows packed at a time, which grows with the number of parts."""
PACKED_ROWS_PER_PART = 64
"""The number of rows per part among them, up to `MOST_ROWS` in total: a value takes about 50 bytes in addition to its rows."""
MOST_BYTES = 1 << 26
"""Fewer rows are packed at a time if they have more bytes."""
LENGTHS = "lengths"
"""The column of packed rows with the length of each text, in bytes."""
SORTED_ROWS = 1 << 16
"""The number of sorted rows in a batch."""


def part_bits(rows: int, id_bytes: int) -> int:
    """Return the number of leading key bits that choose a part. It depends only on the ids and their number."""
    wide = max(rows // ROWS_PER_PART, id_bytes // TEXT_PER_PART)
    return min(MOST_PART_BITS, wide.bit_length())


def code_type(outputs: int) -> DataType:
    """Return the smallest of Spark's types for the codes of `outputs` outputs. Spark lacks unsigned types."""
    return ShortType() if outputs <= MOST_SHORT_CODES else IntegerType()


def row_schema(id_kind: str, outputs: int, *, with_id: bool = False) -> StructType:
    """Return the columns of a row in the shuffle. Integers can be recovered from their keys, and are sent only on request."""
    schema = StructType().add("key", "long", nullable=False)
    if id_kind == "str":
        schema.add("high", "integer", nullable=False).add("id", "string")
    elif with_id:
        schema.add("id", "long")
    return schema.add("code", code_type(outputs), nullable=False)


def part_numbers(keys: NDArray[np.int64], codes: NDArray[np.integer], bits: int) -> NDArray[np.unsignedinteger]:
    """Return the part of each row, from its key. Notes go to the part after the last."""
    words = keys.view(np.uint64) ^ _SIGN
    parts = words >> np.uint64(64 - bits) if bits else np.zeros_like(words)
    parts[codes < 0] = 1 << bits
    return parts.astype(np.uint16 if bits < MOST_PART_BITS else np.uint32)  # 16 bits are sorted in linear time


def sort_keys(digests: IdDigests) -> NDArray[np.int64]:
    """Return the keys of records as signed numbers that sort like the unsigned ones."""
    low = np.ascontiguousarray(digests.low)
    words = mix(low) if digests.kind == "int" else low
    return (words ^ _SIGN).view(np.int64)


def integers_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the integer ids that have these keys."""
    return unmix(keys.view(np.uint64) ^ _SIGN).view(np.int64)


def row_batch(
    schema: pa.Schema, keys: NDArray[np.int64], high: NDArray[np.uint32], ids: pa.Array | None, codes: NDArray[np.int64]
) -> pa.RecordBatch:
    """Return rows with the columns of the schema."""
    columns = {"key": keys, "high": high.view(np.int32), "id": ids, "code": codes}
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def note_batch(schema: pa.Schema, numbers: Sequence[int], codes: Sequence[int] = READ_CODES) -> pa.RecordBatch:
    """Return notes: rows with `numbers`, unsigned 64-bit words, as their keys."""
    words = np.asarray(numbers, np.uint64)
    no_ids = pa.nulls(words.size, schema.field("id").type) if "id" in schema.names else None
    return row_batch(schema, words.view(np.int64), np.zeros(words.size, np.uint32), no_ids, np.asarray(codes))


def mask_codes(
    codes: NDArray[np.integer],
    keys: NDArray[np.int64],
    high: NDArray[np.integer] | None,
    outputs: int,
    mask_key: bytes,
    *,
    undo: bool = False,
) -> NDArray[np.int64]:
    """Return the codes of records with these keys, each shifted by a pad modulo the number of outputs, or shifted back.

    In a later batch, a record that the message already contains is also drawn, because it is only recognised after the
    draw, by its id. If its label has changed, the draw is a second private label, which is dropped and must stay
    secret. So its code is shuffled with a pad: a function of the record and of a key that only the tasks of this run
    have.
    """
    pads = np.empty(keys.size, np.int64)
    blocks = Blocks(mask_key, keys.size)
    for rows in blocks.chunks():
        count = rows.stop - rows.start
        blocks.plain[:count, 0] = keys[rows].view(np.uint64)
        blocks.plain[:count, 1] = 0 if high is None else high[rows].view(np.uint32)
        pads[rows] = blocks.encrypted(count)[:, 0] % np.uint64(outputs)
    return (codes - pads if undo else codes + pads) % outputs


@dataclass(frozen=True)
class DrawTask:
    """A task that draws every record and records what it has read. It has the subkeys of this release but not the key.

    The mechanism is public and may be large, so it is sent as a broadcast, separately from the subkeys.

    Attributes
    ----------
    reader : RecordReader
        Reads the records.
    mechanism : Broadcast of FiniteMechanism
        The mechanism.
    domain : Domain
        The bounds, to which labels are clipped.
    randomness : BoundRandomness
        The release's randomness.
    fingerprint : bytes
        The subkeys of the input's fingerprint.
    schema : pyarrow.Schema
        The columns of a row.
    mask_key : bytes or None
        The key that masks codes until records that the message contains are removed.
    """

    reader: RecordReader
    mechanism: Broadcast[FiniteMechanism]
    domain: Domain
    randomness: BoundRandomness
    fingerprint: bytes = field(repr=False)
    schema: pa.Schema
    mask_key: bytes | None = field(default=None, repr=False)

    def __call__(self, batches: Batches) -> Batches:
        mechanism = self.mechanism.value
        seen = MultisetHash.from_subkeys(self.fingerprint)
        for batch in batches:
            ids, labels, faults = self.reader.read(batch)
            if faults:
                raise WorkerError(CHANGED)
            seen.add(ids, labels)
            digests, codes = draw_batch(LabelBatch(ids, labels, 0, _NO_TYPES), mechanism, self.domain, self.randomness)
            keys = sort_keys(digests)
            if self.mask_key is not None:
                high = digests.high if digests.kind == "str" else None  # integers do not need it
                codes = mask_codes(codes, keys, high, mechanism.outputs.size, self.mask_key)
            yield row_batch(self.schema, keys, digests.high, ids, codes)
        yield note_batch(self.schema, (*seen.limbs, seen.rows))


@dataclass(frozen=True)
class Chain:
    """Two tasks in one worker. The output of the first one does not pass through Spark."""

    first: Callable[[Batches], Batches]
    second: Callable[[Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        return self.second(self.first(batches))


def packed_schema(row: StructType) -> StructType:
    """Return the columns of packed rows: the part, the bytes of each column of a row and, for texts, the bytes of their lengths."""
    schema = StructType().add("part", "integer", nullable=False)
    for name in [*row.names, LENGTHS] if "id" in row.names else row.names:
        schema.add(name, "binary", nullable=False)
    return schema


@dataclass(frozen=True)
class PackTask:
    """A task that packs the rows for each part, and records their number.

    Attributes
    ----------
    bits : int
        The number of leading key bits that choose the part.
    schema : pyarrow.Schema
        The columns of packed rows.
    """

    bits: int
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        sent, row = 0, None
        for batch in joined(batches, min(MOST_ROWS, max(LEAST_ROWS, PACKED_ROWS_PER_PART << self.bits))):
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
        """Return one row for each of these parts, whose rows lie between the bounds."""
        columns: dict[str, NDArray[Any]] = {}
        places: dict[str, NDArray[np.int64]] = {}
        for name in rows.schema.names:
            if name == "id":
                columns[name], ends = text_buffers(rows.column(name).cast(TEXT).fill_null(""))  # notes lack texts
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
    """Return the same rows in batches of about `rows` rows, or of `MOST_BYTES`."""
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
    """Return binary values that begin and end at these offsets of a column's bytes."""
    offsets = places.astype(np.int64 if pa.types.is_large_binary(kind) else np.int32)
    content = np.ascontiguousarray(column).view(np.uint8)
    return pa.Array.from_buffers(kind, places.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(content)])


@dataclass(frozen=True)
class UnpackTask:
    """A task that unpacks the rows of a part and sorts them by their keys.

    Records with the same id go to the same part, so a wrong id column could make it larger than memory. A part with
    more than twice the expected number of rows is searched for repeated ids while it arrives, each time it has doubled.

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
                refuse_repeats([column[order] for column in keys])
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
        """Return the indices that sort the rows, and the columns by which they are sorted."""
        keys = [self._column(batches, name) for name in ("key", "high") if name in self.schema.names]
        order = np.argsort(keys[0])
        ordered = keys[0][order]
        # with probability 2^-25 in a part, unless ids are repeated
        if len(keys) > 1 and (ordered[1:] == ordered[:-1]).any():
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
    """Return the bytes of all values of a column, one after the other."""
    content, ends = text_buffers(values)
    return content[ends[0] : ends[-1]]


@dataclass(frozen=True)
class OrderTask:
    """A task that raises an error for repeated ids in a sorted part, and gives each row its id, code and private label.

    A part has either records or notes. Notes of one kind become one row, whose id is their sum modulo 2^64.

    Attributes
    ----------
    mechanism : Broadcast of FiniteMechanism
        The source of the private label of each code.
    schema : pyarrow.Schema
        The columns of the message.
    mask_key : bytes or None
        The key with which the codes are masked.
    """

    mechanism: Broadcast[FiniteMechanism]
    schema: pa.Schema
    mask_key: bytes | None = field(default=None, repr=False)

    def __call__(self, batches: Batches) -> Batches:
        outputs = self.mechanism.value.outputs
        sums = np.zeros(len(NOTE_CODES), np.uint64)
        last: tuple[object, ...] = ()
        noted = False
        for batch in batches:
            codes = np.asarray(batch.column("code"))
            if not codes.size:
                continue
            keys = np.asarray(batch.column("key"))
            if codes[0] < 0:
                noted = True
                words = keys.view(np.uint64)
                sums += np.asarray([words[codes == code].sum(dtype=np.uint64) for code in NOTE_CODES])
                continue
            names = [name for name in ("key", "high") if name in batch.schema.names]
            last = refuse_repeats([np.asarray(batch.column(name)) for name in names], last)
            if self.mask_key is not None:
                high = np.asarray(batch.column("high")) if self._text else None
                codes = mask_codes(codes, keys, high, outputs.size, self.mask_key, undo=True)
            yield self._rows(batch.column("id") if self._text else integers_of(keys), codes, outputs[codes])
        if noted:
            ids = [str(number) for number in sums.tolist()] if self._text else sums.view(np.int64)
            yield self._rows(ids, np.asarray(NOTE_CODES), np.zeros(sums.size))

    @property
    def _text(self) -> bool:
        return not pa.types.is_integer(self.schema.types[0])

    def _rows(self, ids: object, codes: NDArray[np.integer], values: Floats) -> pa.RecordBatch:
        columns = zip((ids, codes, values), self.schema.types, strict=True)
        return pa.record_batch([pa.array(column, kind) for column, kind in columns], schema=self.schema)


def refuse_repeats(keys: Sequence[NDArray[Any]], last: tuple[object, ...] = ()) -> tuple[object, ...]:
    """Raise `WorkerError` if two rows of a sorted part have the same key, and return the last key.

    `keys` are the columns of the key, and `last` is the last key of the batch before.
    """
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in keys])
    if same.any() or last == tuple(column[0] for column in keys):
        raise WorkerError(REPEATED)
    return tuple(column[-1] for column in keys)
