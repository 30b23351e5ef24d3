"""Pass two on the workers, before the shuffle: draw the records of a partition."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import Broadcast

from labeldp.domain import Domain
from labeldp.engines.batches import FileTypes, LabelBatch, draw_batch
from labeldp.engines.spark.guard import CHANGED, Batches, WorkerError
from labeldp.engines.spark.records import RecordReader
from labeldp.engines.spark.rows import note_batch, row_batch, sort_keys
from labeldp.engines.spark.veil import hidden
from labeldp.mechanisms import FiniteMechanism
from labeldp.sampling import BoundRandomness
from labeldp.sampling.multiset import MultisetHash

_NO_TYPES = FileTypes("", "")


@dataclass(frozen=True)
class DrawTask:
    """Draws every record and notes what it has read. It holds subkeys, which draw this release and no other, and no key.

    The mechanism is public and may be large, so it comes as a broadcast, apart from the subkeys.

    Attributes
    ----------
    reader : RecordReader
        Reads the records.
    mechanism : Broadcast of FiniteMechanism
        What draws.
    domain : Domain
        The bounds, to which labels are moved.
    randomness : BoundRandomness
        The release's randomness.
    fingerprint : bytes
        The subkeys of the input's fingerprint.
    schema : pyarrow.Schema
        The columns of a row.
    veil : bytes or None
        What hides the codes until records that the message holds are gone.
    """

    reader: RecordReader
    mechanism: Broadcast[FiniteMechanism]
    domain: Domain
    randomness: BoundRandomness
    fingerprint: bytes = field(repr=False)
    schema: pa.Schema
    veil: bytes | None = field(default=None, repr=False)

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
            if self.veil is not None:
                high = digests.high if digests.kind == "str" else None  # integers travel without it
                codes = hidden(codes, keys, high, mechanism.outputs.size, self.veil)
            yield row_batch(self.schema, keys, digests.high, ids, codes)
        yield note_batch(self.schema, (*seen.limbs, seen.rows))
