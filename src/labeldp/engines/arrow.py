"""The streaming engine: two passes over the input in bounded memory, the second one into a message's labels file."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.domain import Domain, OutOfRange
from labeldp.engines.source import LabelSource, id_kind
from labeldp.engines.spill import open_spill
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.sampling import IdDigests, KeyedRandomness

Progress = Callable[[int], None]
"""Called with the number of rows done since the last call."""


@dataclass(frozen=True)
class Scan:
    """What the first pass learns. `clipped` and `input_hmac` are as private as the labels: never released."""

    records: int
    clipped: int
    id_type: pa.DataType
    input_hmac: str | None

    @property
    def id_kind(self) -> str:
        return id_kind(self.id_type)


def scan(
    source: LabelSource,
    domain: Domain,
    *,
    out_of_range: OutOfRange = "clip",
    key: bytes | None = None,
    progress: Progress | None = None,
) -> Scan:
    """Validates every record and counts them; with a key, also the HMAC of all ids and labels."""
    fingerprint = InputFingerprint(key) if key is not None else None
    records = clipped = 0
    id_type: pa.DataType | None = None
    for batch in source.batches():
        if id_type is not None and batch.ids.type != id_type:
            raise InvalidInput(
                f"ids change their type from {id_type} to {batch.ids.type} at row {batch.first_row}: give --id-type"
            )
        id_type = batch.ids.type
        outside = int(np.count_nonzero((batch.labels < domain.lower) | (batch.labels > domain.upper)))
        if outside and out_of_range == "error":
            domain.check(batch.labels, "error")
        clipped += outside
        if fingerprint is not None:
            fingerprint.add(batch.ids, batch.labels)
        records += batch.labels.size
        if progress is not None:
            progress(batch.labels.size)
    assert id_type is not None, "a source yields at least one batch"
    return Scan(records, clipped, id_type, None if fingerprint is None else fingerprint.hexdigest())


def count(source: LabelSource, grid: Domain, *, progress: Progress | None = None) -> NDArray[np.int64]:
    """Exact counts per cell: as private as the labels, for `LabelRandomizer.design` only."""
    cells = len(grid.grid)
    counts = np.zeros(cells, np.int64)
    for batch in source.batches():
        counts += np.bincount(grid.cell(batch.labels), minlength=cells)
        if progress is not None:
            progress(batch.labels.size)
    return counts


def randomize(
    source: LabelSource,
    mechanism: FiniteMechanism,
    domain: Domain,
    randomness: KeyedRandomness,
    scanned: Scan,
    *,
    labels_file: Path,
    work: Path,
    keep_order: bool = False,
    held: Callable[[Path, int], Any] | None = None,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Draws every label and writes the labels file; returns (rows written, rows left out because the message holds them).

    `work` is a folder for spilled partitions on the same disk. `held` fills a spill with ids that are released already.
    Refuses duplicates: then nothing of the labels file may be used.
    """
    code_type = code_dtype(mechanism.outputs.size)
    rows = scanned.records
    spill = open_spill(work / "rows", scanned.id_type, rows, code_type)
    writer = LabelsWriter(labels_file, source.id_name, scanned.id_type, mechanism)
    with writer:
        for batch in source.batches():
            records = randomness.id_digests(batch.ids, digest=mechanism.digest_bytes)
            known = IdDigests(
                records.high, records.low, records.kind, distinct=True
            )  # tested by the spill, over all rows
            labels = np.clip(batch.labels, domain.lower, domain.upper)
            codes = mechanism.draw(labels, randomness, known).astype(code_type)
            spill.add(batch.ids, records, codes)
            if keep_order:
                writer.write(batch.ids, codes)
            if progress is not None:
                progress(batch.labels.size)
        released = None if held is None else held(work / "held", rows)
        left_out = 0
        for ids, codes, skipped in spill.partitions(released):
            left_out += skipped
            if not keep_order:
                writer.write(ids, codes)
            if progress is not None:
                progress(len(ids))
    return rows - left_out, left_out


class LabelsWriter:
    """The Parquet file of a message: id, code, private label. Its schema carries nothing of the input's but the id's name and type."""

    def __init__(self, path: Path, id_name: str, id_type: pa.DataType, mechanism: FiniteMechanism) -> None:
        import pyarrow.parquet as pq

        if id_name in ("code", "private_label"):
            raise InvalidInput(f"the id column cannot be called {id_name!r}, the message uses that name; rename it")
        self._outputs = mechanism.outputs
        code_type = pa.from_numpy_dtype(code_dtype(mechanism.outputs.size))
        self.schema = pa.schema([(id_name, id_type), ("code", code_type), ("private_label", pa.float64())])
        self._writer = pq.ParquetWriter(
            path, self.schema, use_dictionary=["code", "private_label"], compression="snappy", store_schema=False
        )

    def write(self, ids: pa.Array, codes: NDArray[Any]) -> None:
        columns = [ids, pa.array(codes), pa.array(self._outputs[codes])]
        self._writer.write_batch(pa.record_batch(columns, schema=self.schema), row_group_size=1 << 20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


class InputFingerprint:
    """HMAC-SHA256 over ids and labels, the same for the same records in the same order however they are batched."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, b"labeldp input fingerprint 1", "sha256")
        self._streams = [hmac.new(self._key, name, "sha256") for name in (b"labels", b"ids", b"lengths")]

    def add(self, ids: pa.Array, labels: NDArray[np.float64]) -> None:
        label_stream, id_stream, length_stream = self._streams
        label_stream.update(np.asarray(labels, "<f8").tobytes())
        if pa.types.is_integer(ids.type):
            id_stream.update(np.asarray(ids, f"<{'i' if pa.types.is_signed_integer(ids.type) else 'u'}8").tobytes())
            return
        lengths = pa.compute.binary_length(ids)
        length_stream.update(np.asarray(lengths, "<i8").tobytes())
        offsets = np.frombuffer(ids.buffers()[1], np.int32)[ids.offset : ids.offset + len(ids) + 1]
        if (data := ids.buffers()[2]) is not None:
            id_stream.update(memoryview(data)[int(offsets[0]) : int(offsets[-1])])

    def hexdigest(self) -> str:
        joined = hmac.new(self._key, b"all", hashlib.sha256)
        for stream in self._streams:
            joined.update(stream.digest())
        return joined.hexdigest()


def code_dtype(outputs: int) -> Any:
    """The smallest unsigned type that holds every code: it depends on the mechanism only."""
    return np.uint8 if outputs <= 1 << 8 else np.uint16 if outputs <= 1 << 16 else np.uint32
