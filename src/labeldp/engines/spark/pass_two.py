"""Pass two: draw, send each row to its part, sort, look for repeated ids, write.

    frame ─► draw ─► (without held ids) ─► pack by the key's leading bits ─► shuffle ─► sort by key ─► ids and labels ─► Parquet

Labels are drawn before the shuffle, so that its files hold nothing but what is released.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from labeldp.domain import Domain
from labeldp.engines.passes import Scan
from labeldp.engines.spark import rows
from labeldp.engines.spark.drawing import DrawTask
from labeldp.engines.spark.held_ids import held_ids
from labeldp.engines.spark.jobs import InputChanged, SparkFailed, job, mapped, tidy
from labeldp.engines.spark.ordering import OrderTask
from labeldp.engines.spark.packing import Chain, PackTask, packed_schema
from labeldp.engines.spark.parts import Scratch, place_parts, write_parts
from labeldp.engines.spark.records import RecordReader
from labeldp.engines.spark.unpacking import UnpackTask
from labeldp.engines.spark.veil import new_veil
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.reader import Message
from labeldp.sampling import BoundRandomness
from labeldp.sampling.multiset import MultisetHash
from labeldp.tables.files import Progress


@dataclass(frozen=True)
class Draw:
    """What the workers need to draw the records of a release.

    Attributes
    ----------
    reader : RecordReader
        Reads the records.
    mechanism : FiniteMechanism
        What draws.
    domain : Domain
        The bounds.
    randomness : BoundRandomness
        The release's subkeys.
    fingerprint : bytes
        The subkeys of the input's fingerprint.
    """

    reader: RecordReader
    mechanism: FiniteMechanism
    domain: Domain
    randomness: BoundRandomness
    fingerprint: bytes = field(repr=False)


def packed_rows(
    frame: DataFrame,
    draw: Draw,
    mechanism: Broadcast[FiniteMechanism],
    bits: int,
    held: DataFrame | None = None,
    veil: bytes | None = None,
) -> DataFrame:
    """What goes through the shuffle (see `packing`), lazily and in the frame's partitions, without records whose ids are held."""
    spark, kind, outputs = frame.sparkSession, draw.reader.id_kind, draw.mechanism.outputs.size
    schema = rows.row_schema(kind, outputs, with_id=held is not None)
    arrow = _arrow(spark, schema)
    task = DrawTask(draw.reader, mechanism, draw.domain, draw.randomness, draw.fingerprint, arrow, veil)
    packed = packed_schema(rows.row_schema(kind, outputs))
    pack = PackTask(bits, _arrow(spark, packed))
    if held is None:
        return mapped(frame, Chain(task, pack), packed)
    new = mapped(frame, task, schema).join(held, "id", "left_anti")
    return mapped(new.select(*rows.row_schema(kind, outputs).names), pack, packed)


def message_rows(
    frame: DataFrame, draw: Draw, mechanism: Broadcast[FiniteMechanism], id_name: str, bits: int, held: DataFrame | None
) -> DataFrame:
    """The rows of the message, lazily, in 2^bits partitions and one of notes (see `rows`). Reading them twice gives them twice."""
    spark, kind, outputs = frame.sparkSession, draw.reader.id_kind, draw.mechanism.outputs.size
    veil = None if held is None else new_veil()
    packed = packed_rows(frame, draw, mechanism, bits, held, veil).repartitionById((1 << bits) + 1, "part")
    unpack = UnpackTask(_arrow(spark, rows.row_schema(kind, outputs)))
    schema = StructType(
        [
            StructField(id_name, StringType() if kind == "str" else LongType(), nullable=False),
            StructField("code", rows.code_type(outputs), nullable=False),
            StructField("private_label", DoubleType(), nullable=False),
        ]
    )
    return mapped(packed, Chain(unpack, OrderTask(mechanism, _arrow(spark, schema), veil)), schema)


def write_records(
    frame: DataFrame,
    draw: Draw,
    scanned: Scan,
    id_name: str,
    *,
    labels: Path,
    scratch: Scratch,
    held: Message | None,
    progress: Progress | None,
) -> int:
    """Draws the records of a frame into the parts of a batch; returns the number of rows.

    Raises `InputChanged` if the frame gave other records than those that were scanned, and then no part is at `labels`.
    """
    spark = frame.sparkSession
    bits = rows.part_bits(scanned.records, scanned.id_bytes)
    with ExitStack() as stack:
        with job(spark, 2 * scanned.records, progress):
            scratch.remove()
            scratch.make()
            mechanism = spark.sparkContext.broadcast(draw.mechanism)
            stack.callback(tidy, mechanism.destroy)
            stack.callback(tidy, scratch.remove)
            known = None if held is None else held_ids(spark, held)
            write_parts(message_rows(frame, draw, mechanism, id_name, bits, known), scratch.place)
            files = scratch.files()
        sent = _check_notes(files, 1 << bits, draw, scanned, scratch)
        written = place_parts(files, labels)
    if written != sent or (held is None and written != scanned.records):
        raise SparkFailed(f"Spark wrote {written:,} of {sent:,} rows, or the driver cannot see all of them")
    return written


def _check_notes(files: dict[int, Path], number: int, draw: Draw, scanned: Scan, scratch: Scratch) -> int:
    """Takes the part of notes from the files; returns how many rows were sent.

    Refuses if the workers whose rows were written have read anything else than what was scanned.
    """
    if number not in files:
        if files and not any(pq.read_metadata(file).num_rows for file in files.values()):
            raise InputChanged  # no worker had anything to read
        raise SparkFailed(
            f"the workers did not write to {scratch.place}, or the driver cannot see it. Give scratch (--scratch), a folder on a "
            "file system that all machines share"
        )
    table = pq.read_table(files.pop(number))
    noted = dict(zip(table["code"].to_pylist(), table[0].to_pylist(), strict=True))
    first, second, count, sent = (int(noted[code]) % (1 << 64) for code in rows.NOTE_CODES)
    seen = MultisetHash.from_subkeys(draw.fingerprint)
    seen.merge((first, second), count)
    if seen.hexdigest() != scanned.input_hmac:
        raise InputChanged
    return sent


def _arrow(spark: SparkSession, schema: StructType) -> pa.Schema:
    """What Spark expects of a worker that gives rows of this schema."""
    large = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    return to_arrow_schema(schema, prefers_large_types=large)
