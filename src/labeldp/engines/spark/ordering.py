"""Pass two on the workers, after the shuffle: the sorted rows of a part become rows of the message."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast

from labeldp.arrays import Floats
from labeldp.engines.spark.guard import REPEATED, Batches, WorkerError
from labeldp.engines.spark.rows import NOTE_CODES, integers_of
from labeldp.engines.spark.veil import shown
from labeldp.mechanisms import FiniteMechanism


@dataclass(frozen=True)
class OrderTask:
    """Refuses equal neighbours, which are repeated ids, and gives each row its id, code and private label.

    A part holds either records or notes. Notes of one kind become one row, whose id is their sum modulo 2^64.

    Attributes
    ----------
    mechanism : Broadcast of FiniteMechanism
        Knows the private label of each code.
    schema : pyarrow.Schema
        The columns of the message.
    veil : bytes or None
        What the codes are hidden by.
    """

    mechanism: Broadcast[FiniteMechanism]
    schema: pa.Schema
    veil: bytes | None = field(default=None, repr=False)

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
            last = _refuse_repeats(batch, last)
            if self.veil is not None:
                high = np.asarray(batch.column("high")) if self._text else None
                codes = shown(codes, keys, high, outputs.size, self.veil)
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


def _refuse_repeats(batch: pa.RecordBatch, last: tuple[object, ...]) -> tuple[object, ...]:
    """The key of the last row, for the next batch. `last` is that of the batch before."""
    keys = [np.asarray(batch.column(name)) for name in ("key", "high") if name in batch.schema.names]
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in keys])
    if same.any() or last == tuple(column[0] for column in keys):
        raise WorkerError(REPEATED)
    return tuple(column[-1] for column in keys)
