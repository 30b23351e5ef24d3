"""Pass one on the workers: check, count and fingerprint the records of a partition."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from labeldp.domain import Domain
from labeldp.engines.batches import outside
from labeldp.engines.spark.guard import Batches
from labeldp.engines.spark.records import Faults, RecordReader
from labeldp.engines.spark.sealed import new_key, sealed
from labeldp.priors import histogram
from labeldp.sampling.ids import digest_ids, text_buffers
from labeldp.sampling.multiset import MultisetHash

COUNTED = ("records", "clipped", "not_whole", "id_bytes", *Faults._fields)
"""What is counted in every partition."""

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in (*COUNTED, "limb_0", "limb_1")),
        *((name, pa.binary()) for name in ("cells", "low", "high")),
    ]
)
"""What a task has found. It leaves the worker sealed, in one column."""
DDL = "sealed binary"


@dataclass(frozen=True)
class CheckTask:
    """Gives one sealed row per partition. Its size depends on the grid and on the number of records only: the event log shows it.

    Attributes
    ----------
    reader : RecordReader
        Reads the records.
    domain : Domain
        The bounds.
    fingerprint : bytes
        The subkeys of the input's fingerprint.
    grid : Domain or None
        Where to count, if known.
    repeats : bytes or None
        A key that was drawn for this check. With it, the digests of all ids go to the driver, which looks for equal ones.
    seal : bytes
        The key under which the row goes to the driver. By default a new one.
    """

    reader: RecordReader
    domain: Domain
    fingerprint: bytes = field(repr=False)
    grid: Domain | None
    repeats: bytes | None = field(repr=False)
    seal: bytes = field(default_factory=new_key, repr=False)

    def __call__(self, batches: Batches) -> Batches:
        totals = dict.fromkeys(COUNTED, 0)
        seen = MultisetHash.from_subkeys(self.fingerprint)
        cells = np.zeros(0 if self.grid is None else self.grid.count, np.int64)
        low: list[bytes] = []
        high: list[bytes] = []
        for batch in batches:
            ids, labels, faults = self.reader.read(batch)
            found = {"records": batch.num_rows, "id_bytes": text_bytes(ids)} | faults._asdict()
            found["clipped"] = int(np.count_nonzero(outside(labels, self.domain)))
            if self.domain.whole:
                found["not_whole"] = int(np.count_nonzero(labels != np.rint(labels)))
            for name, count in found.items():
                totals[name] += count
            seen.add(ids, labels)
            if self.grid is not None:
                cells += histogram(labels, self.grid)
            if self.repeats is not None:
                digests = digest_ids(ids, self.repeats)
                low.append(digests.low.tobytes())
                high.append(digests.high.tobytes())
        limbs = np.asarray(seen.limbs, np.uint64).view(np.int64)
        values = [*totals.values(), *limbs.tolist(), cells.tobytes(), b"".join(low), b"".join(high)]
        columns = [pa.array([value], kind) for value, kind in zip(values, SCHEMA.types, strict=True)]
        yield pa.record_batch([[sealed(pa.record_batch(columns, schema=SCHEMA), self.seal)]], names=["sealed"])


def text_bytes(ids: pa.Array) -> int:
    """The bytes of text in ids; integers have none. It depends on the ids alone, not on how a partition was cut into batches."""
    if pa.types.is_integer(ids.type):
        return 0
    _, ends = text_buffers(ids)
    return int(ends[-1] - ends[0])
