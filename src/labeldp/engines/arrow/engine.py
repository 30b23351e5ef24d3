"""The streaming engine: two passes over the input in bounded memory, the second one into a message's labels file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow.fingerprint import InputFingerprint
from labeldp.engines.arrow.source import LabelBatch, LabelSource, id_kind
from labeldp.engines.arrow.spill import Spill, open_spill, spill_rows
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.labels_file import LabelsWriter, code_dtype
from labeldp.sampling import IdDigests, KeyedRandomness

Progress = Callable[[int], None]
"""Called with the number of rows done since the last call."""


@dataclass(frozen=True, eq=False)
class Scan:
    """What the first pass learns. `clipped`, `input_hmac` and `counts` are as private as the labels: never released."""

    records: int
    clipped: int
    id_type: pa.DataType
    input_hmac: str | None
    id_bytes: int = 0
    grid: Domain | None = None
    counts: NDArray[np.int64] | None = None
    """Exact counts per cell of `grid`, where one was given."""

    @property
    def id_kind(self) -> str:
        return id_kind(self.id_type)


def scan(
    source: LabelSource,
    domain: Domain,
    *,
    out_of_range: OutOfRange = "clip",
    key: bytes | None = None,
    grid: Domain | None = None,
    progress: Progress | None = None,
) -> Scan:
    """Validates every record and counts them, per cell too if the grid is known; with a key, the HMAC of ids and labels."""
    fingerprint = InputFingerprint(key) if key is not None else None
    counts = None if grid is None else np.zeros(len(grid.grid), np.int64)
    records = clipped = id_bytes = 0
    id_type: pa.DataType | None = None
    for batch in source.batches():
        if id_type is not None and batch.ids.type != id_type:
            raise _mixed_types(id_type, batch.ids.type, batch.first_row)
        id_type = batch.ids.type
        outside = int(np.count_nonzero((batch.labels < domain.lower) | (batch.labels > domain.upper)))
        if outside and out_of_range == "error":
            raise _outside(domain, batch)
        clipped += outside
        if counts is not None and grid is not None:
            counts += np.bincount(grid.cell(batch.labels), minlength=counts.size)
        if fingerprint is not None:
            fingerprint.add(batch.ids, batch.labels)
        records += batch.labels.size
        id_bytes += batch.ids.nbytes
        if progress is not None:
            progress(batch.labels.size)
    assert id_type is not None, "a source yields at least one batch"
    return Scan(
        records, clipped, id_type, None if fingerprint is None else fingerprint.hexdigest(), id_bytes, grid, counts
    )


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
    held: Callable[[Path, int], Spill] | None = None,
    held_rows: int = 0,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Draws every label and writes the labels file; returns (rows written, rows left out because the message holds them).

    `work` is a folder for nameless working files on the same disk. `held` opens a spill there, for as many rows as it is
    told, and adds the ids that are released already, `held_rows` of them. Refuses duplicates: then nothing of the labels
    file may be used. Memory is bounded by a batch and a partition, whatever the number of rows.
    """
    assert held is None or not keep_order, "rows in the order of the input are written before held ones are known"
    code_type = code_dtype(mechanism.outputs.size)
    room = spill_rows(scanned.records, scanned.id_bytes, held_rows)
    left_out = 0
    with ExitStack() as stack:
        spill = stack.enter_context(open_spill(work / "rows", scanned.id_type, room, code_type))
        writer = stack.enter_context(LabelsWriter(labels_file, source.id_name, scanned.id_type, mechanism))
        for batch in source.batches():
            records = randomness.id_digests(batch.ids, digest=mechanism.digest_bytes)
            distinct = IdDigests(records.high, records.low, records.kind, distinct=True)  # the spill tests them all
            labels = np.clip(batch.labels, domain.lower, domain.upper)
            codes = mechanism.draw(labels, randomness, distinct).astype(code_type)
            spill.add(batch.ids, records, codes)
            if keep_order:
                writer.write(batch.ids, codes)
            if progress is not None:
                progress(batch.labels.size)
        released = None if held is None else stack.enter_context(held(work / "held", room))
        for part in spill.partitions(released):
            left_out += part.left_out
            if not keep_order:
                writer.write(part.ids, part.codes)
            if progress is not None:
                progress(len(part.ids) + part.left_out)
    return scanned.records - left_out, left_out


def _outside(domain: Domain, batch: LabelBatch) -> InvalidInput:
    row = int(np.flatnonzero((batch.labels < domain.lower) | (batch.labels > domain.upper))[0])
    return InvalidInput(
        f"labels must lie from {domain.lower:g} to {domain.upper:g}, and row {batch.first_row + row} (rows count from 0) has "
        f"{batch.labels[row]:g}. Widen the bounds, or move such labels to them with --out-of-range clip."
    )


def _mixed_types(before: pa.DataType, after: pa.DataType, row: int) -> InvalidInput:
    hint = (
        "convert them to one type first, or give --id-type str"
        if id_kind(before) == id_kind(after)
        else "give --id-type str to read all ids as text"
    )
    return InvalidInput(f"ids change their type from {before} to {after} at row {row} (rows count from 0): {hint}")
