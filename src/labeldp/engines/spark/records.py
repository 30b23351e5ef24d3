"""How a worker reads the two columns of a batch, and what it finds wrong with them: numbers of records, never a value.

On one machine an error names the rows. A frame's rows have no numbers, so here the faults are counted, and the driver
says how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.engines.batches import TEXT, label_numbers, not_text, written_as_integers


class Faults(NamedTuple):
    """How many records cannot be released, by what is wrong with them."""

    missing_ids: int = 0
    missing_labels: int = 0
    not_finite: int = 0
    not_integers: int = 0
    not_text: int = 0

    def __bool__(self) -> bool:
        return any(self)


@dataclass(frozen=True)
class RecordReader:
    """Reads batches whose first column holds ids and whose second holds labels.

    Attributes
    ----------
    id_kind : {"int", "str"}
        What the ids become.
    unit : str or None
        The unit of labels that are durations.
    """

    id_kind: str
    unit: str | None

    def read(self, batch: pa.RecordBatch) -> tuple[pa.Array, Floats, Faults]:
        """The ids as int64 or `TEXT`, the labels as float64, and what is wrong. With faults, both are empty."""
        ids, labels = batch.columns
        faults = Faults(missing_ids=ids.null_count, missing_labels=labels.null_count)
        if not faults:
            typed, found = self._ids(ids)
            numbers = label_numbers(labels, self.unit, "the labels")
            faults = found._replace(not_finite=int(np.count_nonzero(~np.isfinite(numbers))))
        if faults:
            return pa.array([], pa.int64()), np.empty(0), faults
        return typed, numbers, faults

    def _ids(self, ids: pa.Array) -> tuple[pa.Array, Faults]:
        if pa.types.is_integer(ids.type):
            return ids.cast(TEXT if self.id_kind == "str" else pa.int64()), Faults()
        text = ids.cast(TEXT)
        if bad := int(np.count_nonzero(not_text(text))):
            return text, Faults(not_text=bad)
        if self.id_kind == "str":
            return text, Faults()
        bad = int(np.count_nonzero(~np.asarray(written_as_integers(text))))
        return text if bad else text.cast(pa.int64()), Faults(not_integers=bad)
