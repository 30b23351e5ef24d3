"""The engine's passes over the input, in bounded memory: `scan` checks and counts, `randomize` writes the labels file.

Each pass uses two threads: one reads a batch, or sorts a partition, while the other one uses the one before.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow.ahead import ahead
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.arrow.spill import RepeatedIdError, Spill, open_spill, spill_rows
from labeldp.engines.batches import count_outside, draw_batch, repeated_id
from labeldp.engines.fingerprint import InputFingerprint
from labeldp.engines.scan import Progress, Scan
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.labels_file import LabelsWriter, code_dtype, id_kind
from labeldp.priors import histogram
from labeldp.sampling import KeyedRandomness


def scan(
    source: LabelSource,
    domain: Domain,
    *,
    key: bytes,
    out_of_range: OutOfRange = "clip",
    grid: Domain | None = None,
    progress: Progress | None = None,
) -> Scan:
    """Checks, fingerprints (under `key`) and counts all records: per cell if a grid is given."""
    fingerprint = InputFingerprint(key)
    counts = None if grid is None else np.zeros(grid.count, np.int64)
    records = clipped = id_bytes = 0
    id_type: pa.DataType | None = None
    id_types: dict[str, None] = {}
    with ahead(source.batches) as batches:
        for batch in batches:
            if id_type is not None and batch.ids.type != id_type:
                raise _mixed_types(id_type, batch.ids.type, batch.first_row)
            id_type = batch.ids.type
            id_types[batch.types.ids] = None
            clipped += count_outside(batch, domain, out_of_range)
            if counts is not None and grid is not None:
                counts += histogram(batch.labels, grid)
            fingerprint.add(batch)
            records += batch.labels.size
            id_bytes += batch.ids.nbytes
            if progress is not None:
                progress(batch.labels.size)
    assert id_type is not None, "a source yields at least one batch"
    return Scan(records, clipped, id_type, tuple(id_types), fingerprint.hexdigest(), id_bytes, grid, counts)


def count_cells(source: LabelSource, grid: Domain, *, progress: Progress | None = None) -> NDArray[np.int64]:
    """Exact counts of the labels per cell of a grid, for an input that was scanned when the grid was not known yet."""
    counts = np.zeros(grid.count, np.int64)
    with ahead(source.batches) as batches:
        for batch in batches:
            counts += histogram(batch.labels, grid)
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
    released: Callable[[Path, int], Spill] | None = None,
    released_rows: int = 0,
    progress: Progress | None = None,
) -> int:
    """Draws every label and writes the labels file; returns the number of rows written.

    `work` is a folder on the same disk, for nameless working files. A later batch gives `released`: a function that opens
    a spill in the folder it is given, of the size it is given, and fills it with the `released_rows` ids that the message
    holds already. Rows with these ids are skipped. If ids repeat, this raises, and the labels file must not be used.
    Memory is bounded by a batch and a partition.
    """
    assert released is None or not keep_order, "with keep_order, rows are written before released ids are known"
    size = spill_rows(scanned.records, scanned.id_bytes, released_rows)
    skipped = 0
    with ExitStack() as stack:
        code_type = code_dtype(mechanism.outputs.size)
        spill = stack.enter_context(open_spill(work / "rows", scanned.id_type, size, code_type))
        writer = stack.enter_context(LabelsWriter(labels_file, source.id_name, scanned.id_type, mechanism))
        with ahead(source.batches) as batches:
            for batch in batches:
                digests, codes = draw_batch(batch, mechanism, domain, randomness)
                spill.add(batch.ids, digests, codes)  # which finds equal digests
                if keep_order:
                    writer.write(batch.ids, codes)
                if progress is not None:
                    progress(batch.labels.size)
        known = None if released is None else stack.enter_context(released(work / "held", size))
        try:
            with ahead(lambda: spill.partitions(known)) as parts:
                for part in parts:
                    skipped += part.skipped
                    if not keep_order:
                        writer.write(part.ids, part.codes)
                    if progress is not None:
                        progress(len(part.ids) + part.skipped)
        except RepeatedIdError as found:
            raise repeated_id(_first_rows(source, found.id), "Nothing was released") from None
    return scanned.records - skipped


def _first_rows(source: LabelSource, wanted: pa.Array, most: int = 2) -> list[int]:
    """The first rows that have this id. The spill does not know rows, so the input is read once more."""
    rows: list[int] = []
    for batch in source.batches():
        same = pc.equal(batch.ids, wanted.cast(batch.ids.type)[0])
        rows += (np.flatnonzero(np.asarray(same)) + batch.first_row).tolist()
        if len(rows) >= most:
            break
    return rows[:most]


def _mixed_types(before: pa.DataType, after: pa.DataType, row: int) -> InvalidInput:
    hint = (
        "convert them to one type first, or give --id-type str"
        if id_kind(before) == id_kind(after)
        else "give --id-type str to read all ids as text"
    )
    return InvalidInput(f"ids change their type from {before} to {after} at row {row + 1} (rows count from 1): {hint}")
