"""The pass that draws and writes a message: draw, shuffle each row to its part, sort, check for repeated ids, write Parquet.

    frame ─► draw ─► (without held ids) ─► pack by the key's leading bits ─► shuffle ─► sort by key ─► ids and labels ─► Parquet

Labels are drawn before the shuffle, so that its files contain only released values. The parts from Spark's committer
are moved into the message's folder, or fetched from another file system.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark import Broadcast
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from labeldp.artifact.manifest import part_path
from labeldp.artifact.reader import Message
from labeldp.domain import Domain
from labeldp.engines.batches import typed_digest
from labeldp.engines.passes import Scan
from labeldp.engines.spark import shuffle
from labeldp.engines.spark.frames import held_ids
from labeldp.engines.spark.jobs import InputChanged, SparkFailed, job, mapped, tidy
from labeldp.engines.spark.session import SCRATCH, file_uri
from labeldp.engines.spark.shuffle import Chain, DrawTask, OrderTask, PackTask, UnpackTask, packed_schema
from labeldp.engines.spark.worker import RecordReader
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.sampling import BoundRandomness
from labeldp.sampling.multiset import MultisetHash
from labeldp.tables.files import Progress

_PART = re.compile(r"part-(\d+)-.*\.parquet")


def write_parts(rows: DataFrame, place: str) -> None:
    """Write each partition as one Parquet file below `place`, a new folder on any file system that Spark knows."""
    fixed: dict[str, str | int] = {"compression": "snappy", "maxRecordsPerFile": 0, "mapreduce.output.basename": "part"}
    rows.write.options(**fixed).parquet(place)


class Scratch:
    """The folder that Spark writes to: in the working folder, or on a file system that all machines share.

    Parameters
    ----------
    spark : SparkSession
        The session.
    work : Path
        The working folder of the release.
    uri : str or None
        A folder that all machines can write to, if they cannot write to the working folder.
    name : str
        The name of the new folder there. It should be hard to guess.
    """

    def __init__(self, spark: SparkSession, work: Path, uri: str | None, name: str) -> None:
        self._java: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only way to Hadoop's file systems
        self._settings: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._work = work
        self.local = work / "spark" / "parts" if uri is None else None
        self._own = file_uri(work / "spark") if uri is None else f"{uri.rstrip('/')}/{name}"
        self.place = f"{self._own}/parts"

    def make(self) -> None:
        """Make a new parent for Spark's folder. If the file system has permissions, others can neither read nor write it."""
        files, path = self._at(self._own)
        if not files.mkdirs(path, self._java.org.apache.hadoop.fs.permission.FsPermission("700")):
            raise SparkFailed(f"cannot make {self._own}")

    def remove(self) -> None:
        """Remove both folders, which a killed run may have left."""
        files, path = self._at(self._own)
        files.delete(path, True)

    def files(self) -> dict[int, Path]:
        """Return the committed files by partition number, on a disk of this machine."""
        files, path = self._at(self.place)
        names = sorted(status.getPath().getName() for status in files.listStatus(path))
        parts = [(int(match[1]), name) for name in names if (match := _PART.fullmatch(name))]
        if len(dict(parts)) != len(parts):
            raise SparkFailed("Spark wrote a partition more than once")
        return {number: self._fetched(name) for number, name in parts}

    def _fetched(self, name: str) -> Path:
        if self.local is not None:
            return self.local / name
        target = self._work / name
        files, source = self._at(f"{self.place}/{name}")
        files.copyToLocalFile(False, source, self._at(file_uri(target))[1], True)
        return target

    def _at(self, uri: str) -> tuple[Any, Any]:
        """Return Hadoop's file system for a URI, and the path there."""
        path = self._java.org.apache.hadoop.fs.Path(uri)
        return path.getFileSystem(self._settings), path


def check_scratch(spark: SparkSession, uri: str) -> None:
    """Raise `InvalidInput` if the driver cannot write to a scratch folder. The test file is removed."""
    probe = Scratch(spark, Path(), uri, f"labeldp-{uuid.uuid4()}")
    try:
        probe.make()
        probe.remove()
    except (PySparkException, Py4JError, SparkFailed):
        raise InvalidInput(
            f"Spark cannot write to the scratch folder {uri}. Give one on a file system that all machines share, such as "
            "hdfs:///tmp, and that Spark has the libraries and rights for"
        ) from None


def place_parts(files: dict[int, Path], labels: Path) -> int:
    """Move the parts, in the order of their partitions, into the folder of a batch, and return their number of rows.

    Partitions without rows do not become parts.
    """
    labels.mkdir()
    total = part = 0
    for number in sorted(files):
        rows = int(pq.read_metadata(files[number]).num_rows)
        if rows:
            shutil.move(files[number], part_path(labels, part))
            part, total = part + 1, total + rows
    return total


@dataclass(frozen=True)
class Draw:
    """The data that workers need to draw the records of a release.

    Attributes
    ----------
    reader : RecordReader
        Reads the records.
    mechanism : FiniteMechanism
        The mechanism.
    domain : Domain
        The bounds.
    randomness : BoundRandomness
        The release's subkeys.
    fingerprint : bytes
        The subkeys of the input's fingerprint.
    types : tuple of str
        The types of the columns, which the fingerprint includes.
    """

    reader: RecordReader
    mechanism: FiniteMechanism
    domain: Domain
    randomness: BoundRandomness
    fingerprint: bytes = field(repr=False)
    types: tuple[str, ...] = ()


def packed_rows(
    frame: DataFrame,
    draw: Draw,
    mechanism: Broadcast[FiniteMechanism],
    bits: int,
    held: DataFrame | None = None,
    mask_key: bytes | None = None,
) -> DataFrame:
    """Return the rows for the shuffle, lazily and in the frame's partitions, without records whose ids are held."""
    spark, kind, outputs = frame.sparkSession, draw.reader.id_kind, draw.mechanism.outputs.size
    schema = shuffle.row_schema(kind, outputs, with_id=held is not None)
    arrow = _arrow(spark, schema)
    task = DrawTask(draw.reader, mechanism, draw.domain, draw.randomness, draw.fingerprint, arrow, mask_key)
    packed = packed_schema(shuffle.row_schema(kind, outputs))
    pack = PackTask(bits, _arrow(spark, packed))
    if held is None:
        return mapped(frame, Chain(task, pack), packed)
    new = mapped(frame, task, schema).join(held, "id", "left_anti")
    return mapped(new.select(*shuffle.row_schema(kind, outputs).names), pack, packed)


def message_rows(
    frame: DataFrame, draw: Draw, mechanism: Broadcast[FiniteMechanism], id_name: str, bits: int, held: DataFrame | None
) -> DataFrame:
    """Return the rows of the message, lazily, in 2^bits partitions and one of notes. Reading them twice draws them twice."""
    spark, kind, outputs = frame.sparkSession, draw.reader.id_kind, draw.mechanism.outputs.size
    mask_key = None if held is None else os.urandom(32)
    packed = packed_rows(frame, draw, mechanism, bits, held, mask_key).repartitionById((1 << bits) + 1, "part")
    unpack = UnpackTask(_arrow(spark, shuffle.row_schema(kind, outputs)))
    schema = StructType().add(id_name, "string" if kind == "str" else "long", nullable=False)
    schema.add("code", shuffle.code_type(outputs), nullable=False).add("private_label", "double", nullable=False)
    return mapped(packed, Chain(unpack, OrderTask(mechanism, _arrow(spark, schema), mask_key)), schema)


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
    """Draw the records of a frame into the parts of a batch, and return the number of rows.

    Raise `InputChanged` if the records of the frame differ from the scan. Then `labels` contains no parts.
    """
    spark = frame.sparkSession
    bits = shuffle.part_bits(scanned.drawn, scanned.id_bytes)
    with ExitStack() as stack:
        with job(spark, 2 * scanned.drawn, progress):
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
    if written != sent or (held is None and written != scanned.drawn):
        raise SparkFailed(f"Spark wrote {written:,} of {sent:,} rows, or the driver cannot see all of them")
    return written


def _check_notes(files: dict[int, Path], number: int, draw: Draw, scanned: Scan, scratch: Scratch) -> int:
    """Remove the part of notes from the files, and return the number of rows sent.

    Raise `InputChanged` if the workers whose rows were written read anything that differs from the scan.
    """
    if number not in files:
        if files and not any(pq.read_metadata(file).num_rows for file in files.values()):
            raise InputChanged  # the workers had nothing to read
        raise SparkFailed(
            f"the workers did not write to {scratch.place}, or the driver cannot see it. Give scratch "
            f"(--conf {SCRATCH}=URI), a folder on a file system that all machines share"
        )
    table = pq.read_table(files.pop(number))
    noted = dict(zip(table["code"].to_pylist(), table[0].to_pylist(), strict=True))
    first, second, count, sent = (int(noted[code]) % (1 << 64) for code in shuffle.NOTE_CODES)
    seen = MultisetHash.from_subkeys(draw.fingerprint)
    seen.merge((first, second), count)
    if typed_digest({draw.types: seen}) != scanned.input_hmac:
        raise InputChanged
    return sent


def _arrow(spark: SparkSession, schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of a worker."""
    large = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    return to_arrow_schema(schema, prefers_large_types=large)
