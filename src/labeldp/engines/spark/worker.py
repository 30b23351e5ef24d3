"""The work of workers on the records of a partition: read, check and count them, and return results and errors that show no labels.

The rows of a frame are not numbered, so errors are counted, and the driver reports the counts. When a task fails, only
the name of the error leaves the worker. Its message would go into the logs of driver and executor and into the event
log, and the messages of Arrow and NumPy may show a value. Spark can also be configured to show the variables of every
function that the exception passed through (`spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled`), so the error
is raised where no variable contains a label, and tasks do not show their secrets.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from labeldp.arrays import Floats, are_rates, known_positions
from labeldp.domain import Domain
from labeldp.engines.batches import TEXT, class_labels, label_numbers, not_text, outside, written_as_integers
from labeldp.priors import histogram
from labeldp.sampling.ids import digest_ids, text_buffers
from labeldp.sampling.multiset import MultisetHash

Batches = Iterator[pa.RecordBatch]

REPEATED = "labeldp: an id is repeated"
CHANGED = "labeldp: the input is not the one that was checked"
FAILED = "labeldp: a task failed with"
RESULT_DDL = "result binary"
"""The column that returns one encrypted row from a task to the driver."""
_NONCE_BYTES = 12


class WorkerError(Exception):
    """A failure on a worker. Its message is one of the above, which the driver turns into its own errors."""


def without_error_texts(task: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return the task with exceptions that contain no data."""

    def run(batches: Batches) -> Batches:
        try:
            yield from task(batches)
        except WorkerError as error:
            text = str(error)
        except Exception as error:  # noqa: BLE001 - of any kind: its message must not get out
            text = f"{FAILED} {type(error).__name__}"
        else:
            return
        # outside the handlers, so that the first error and its variables are not shown with this one
        raise WorkerError(text)

    return run


class Faults(NamedTuple):
    """Numbers of records that cannot be released, by reason."""

    missing_ids: int = 0
    missing_labels: int = 0
    not_finite: int = 0
    not_integers: int = 0
    not_text: int = 0
    missing_persons: int = 0
    no_class: int = 0
    rates: int = 0

    def __bool__(self) -> bool:
        return any(self)


class Chooser(Protocol):
    """A selector of records of persons."""

    def mask(self, ids: pa.Array, persons: pa.Array) -> NDArray[np.bool_]:
        """Return which records are chosen."""


def read_labels(
    labels: pa.Array, unit: str | None, classes: tuple[str, ...] | None = None
) -> tuple[Floats, dict[str, int]]:
    """Return labels as numbers, and how many are missing, not finite or of no class, by reason. If some are missing, the numbers are empty."""
    if labels.null_count:
        return np.empty(0), {"missing_labels": labels.null_count}
    if classes is None:
        numbers = label_numbers(labels, unit, "the labels")
        return numbers, {"not_finite": int(np.count_nonzero(~np.isfinite(numbers)))}
    given = class_labels(labels)
    numbers = known_positions(given, classes)
    wrong = np.isnan(numbers)
    return numbers, {"rates" if are_rates(given[wrong]) else "no_class": int(wrong.sum())}


@dataclass(frozen=True)
class RecordReader:
    """A reader of batches whose first column has ids, whose second has labels, and whose third, if there is one, has persons.

    Attributes
    ----------
    id_kind : {"int", "str"}
        The type of the resulting ids.
    unit : str or None
        The unit of labels that are durations.
    limits : Limits or None
        Selects records of each person; the others are not returned.
    classes : tuple of str or None
        The names of classes, if labels are classes.
    """

    id_kind: str
    unit: str | None
    limits: Chooser | None = None
    classes: tuple[str, ...] | None = None

    def read(self, batch: pa.RecordBatch) -> tuple[pa.Array, Floats, Faults]:
        """Return the ids as int64 or `TEXT`, the labels as float64, and the errors. If there are errors, both are empty."""
        ids, labels, *persons = batch.columns
        unknown = sum(column.null_count for column in persons)
        faults = Faults(missing_ids=ids.null_count, missing_labels=labels.null_count, missing_persons=unknown)
        if not faults:
            typed, found = self._ids(ids)
            numbers, wrong = read_labels(labels, self.unit, self.classes)
            faults = found._replace(**wrong)
        if faults:
            return pa.array([], pa.int64()), np.empty(0), faults
        if self.limits is not None:
            chosen = self.limits.mask(typed, persons[0].cast(TEXT if self._is_text(persons[0]) else pa.int64()))
            return typed.filter(pa.array(chosen)), numbers[chosen], faults
        return typed, numbers, faults

    def typed_ids(self, ids: pa.Array) -> pa.Array:
        """Return valid ids as int64 or `TEXT`."""
        return self._ids(ids)[0]

    @staticmethod
    def _is_text(column: pa.Array) -> bool:
        return not pa.types.is_integer(column.type)

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


def encrypted_row(values: Sequence[Any], schema: pa.Schema, key: bytes) -> pa.RecordBatch:
    """Return one row of `schema` as one encrypted value. Its size should not depend on labels.

    Spark compresses the results of a task, and the event log shows the number of bytes. Plain counts of labels would
    compress better if they fill fewer cells; encrypted ones do not compress. Copies in Spark's temporary folders do not
    reveal them either.
    """
    columns = [pa.array([value], kind) for value, kind in zip(values, schema.types, strict=True)]
    return pa.record_batch(
        [[encrypt(pa.record_batch(columns, schema=schema).serialize().to_pybytes(), key)]], ["result"]
    )


def encrypt(data: bytes, key: bytes) -> bytes:
    """Return a nonce and the data, encrypted with AES-GCM."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, None)


def label_counts(labels: Floats, domain: Domain) -> dict[str, int]:
    """Return the numbers of labels outside the bounds, and of labels that are not whole where the bounds are."""
    between = np.count_nonzero(labels != np.rint(labels)) if domain.whole else 0
    return {"clipped": int(np.count_nonzero(outside(labels, domain))), "not_whole": int(between)}


@dataclass(frozen=True)
class CountingTask(ABC):
    """A task that returns one encrypted row per partition: counts of records, and arrays. `jobs.collected` adds up these rows.

    The event log shows the size of a row, which depends only on public numbers.

    Attributes
    ----------
    result_key : bytes
        The key that encrypts the rows for the driver. By default a new one. Every task of the pass encrypts with it, so nonces are random.
    """

    COUNTS: ClassVar[tuple[str, ...]]
    ARRAYS: ClassVar[tuple[str, ...]]
    result_key: bytes = field(default_factory=lambda: os.urandom(32), repr=False, kw_only=True)

    @abstractmethod
    def __call__(self, batches: Batches) -> Batches:
        """Yield one row for all batches of a partition."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the row."""
        return pa.schema(
            [*((name, pa.int64()) for name in self.COUNTS), *((name, pa.binary()) for name in self.ARRAYS)]
        )

    def row(self, totals: Counter[str], *arrays: Any) -> pa.RecordBatch:
        """Return these counts and arrays, in the order of `ARRAYS`, as one encrypted value."""
        values = [*(totals[name] for name in self.COUNTS), *(array.tobytes() for array in arrays)]
        return encrypted_row(values, self.schema, self.result_key)

    def opened(self, data: bytes) -> dict[str, Any]:
        """Return the row that was encrypted."""
        plain = AESGCM(self.result_key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], None)
        row: dict[str, Any] = pa.ipc.read_record_batch(pa.py_buffer(plain), self.schema).to_pylist()[0]
        return row


@dataclass(frozen=True)
class CheckTask(CountingTask):
    """A task that checks, hashes and counts the records. The size of its row depends only on the grid and the number of records.

    Attributes
    ----------
    reader : RecordReader
        Reads the records.
    domain : Domain
        The bounds.
    fingerprint : bytes
        The subkeys of the input's fingerprint.
    grid : Domain or None
        The grid for counts, if known.
    repeats : bytes or None
        A key drawn for this check. With it, the digests of all ids go to the driver, which checks for equal ones.
    """

    COUNTS = ("records", "clipped", "not_whole", "id_bytes", *Faults._fields)
    ARRAYS = ("limbs", "cells", "low", "high")
    reader: RecordReader
    domain: Domain
    fingerprint: bytes = field(repr=False)
    grid: Domain | None
    repeats: bytes | None = field(repr=False)

    def __call__(self, batches: Batches) -> Batches:
        totals, seen = Counter[str](), MultisetHash.from_subkeys(self.fingerprint)
        cells = np.zeros(0 if self.grid is None else self.grid.count, np.int64)
        low, high = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
        for batch in batches:
            ids, labels, faults = self.reader.read(batch)
            records = batch.num_rows if faults or self.reader.limits is None else labels.size
            totals.update({"records": records, "id_bytes": text_bytes(ids)})
            totals.update(faults._asdict())
            totals.update(label_counts(labels, self.domain))
            seen.add(ids, labels)
            if self.grid is not None:
                cells += histogram(labels, self.grid)
            if self.repeats is not None:
                digests = digest_ids(ids, self.repeats)
                low.append(digests.low)
                high.append(digests.high)
        limbs = np.asarray(seen.limbs, np.uint64)
        yield self.row(totals, limbs, cells, np.concatenate(low), np.concatenate(high))


def text_bytes(ids: pa.Array) -> int:
    """Return the number of bytes of text in ids, 0 for integers. It depends only on the ids, not on the batches of a partition."""
    if pa.types.is_integer(ids.type):
        return 0
    _, ends = text_buffers(ids)
    return int(ends[-1] - ends[0])
