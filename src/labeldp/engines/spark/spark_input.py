"""`SparkInput`: a frame of labels for a release on a cluster."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that

from labeldp.domain import Domain, OutOfRange
from labeldp.engines.batches import TEXT, check_boolean_bounds, checked_ids, checked_labels, repeated_id
from labeldp.engines.passes import Scan
from labeldp.engines.spark.checking import CheckTask
from labeldp.engines.spark.cluster import check_encryption, check_frame
from labeldp.engines.spark.columns import arrow_type, numbered, place_of
from labeldp.engines.spark.faults import refuse_faults
from labeldp.engines.spark.jobs import IdRepeated, InputChanged, job, nothing_charged
from labeldp.engines.spark.parts import Scratch, check_scratch
from labeldp.engines.spark.pass_one import Found, check_records
from labeldp.engines.spark.pass_two import Draw, write_records
from labeldp.engines.spark.records import RecordReader
from labeldp.errors import InvalidInput, described
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.reader import Message
from labeldp.sampling import KeyedRandomness
from labeldp.sampling.multiset import MultisetHash
from labeldp.tables.files import Progress

EARLY_ROWS = 1 << 23
"""Up to so many rows, repeated ids are found before anything is charged. The driver gets 12 bytes per row for it."""
_HERE = "the frame"


@dataclass(frozen=True)
class SparkInput:
    """A `LabelInput` over a Spark frame. See there for what the methods promise.

    Attributes
    ----------
    frame : DataFrame
        Where the two columns are. It is evaluated twice or three times.
    label_column, id_column : str
        Their names.
    id_type : {"int", "str"}, optional
        What the ids become; by default what the frame says.
    unit : str, optional
        The unit of labels that are durations.
    scratch : str, optional
        A folder, on a file system that all machines of the cluster share, where Spark may write the parts of the message.
        By default Spark writes beside the message.
    """

    frame: DataFrame
    label_column: str
    id_column: str
    id_type: str | None = None
    unit: str | None = None
    scratch: str | None = None
    allow_unencrypted: bool = False
    keeps_order: ClassVar[bool] = False
    least_row_bytes: ClassVar[int] = 1
    """Ids may repeat their neighbours' bytes, and codes compress: more is not certain."""

    def __post_init__(self) -> None:
        check_frame(self.frame)
        for name in (self.label_column, self.id_column):
            place_of(self.frame, name, _HERE)
        if self.id_column.lower() in ("code", "private_label"):  # Spark does not tell Code from code
            raise InvalidInput(
                f"the id column cannot be called {self.id_column!r}, which the message uses itself: rename it"
            )
        if self.id_type not in (None, "int", "str"):
            raise InvalidInput(f'id_type must be "int" or "str", got {described(self.id_type)}')
        if self.id_column == self.label_column:
            raise InvalidInput(
                f"the label column {self.label_column!r} cannot be the id column too: the message shows the ids as they are. Name another id column"
            )

    @property
    def id_name(self) -> str:
        return self.id_column

    def check_places(self, message: Path, key_file: Path | None) -> None:  # noqa: ARG002
        check_encryption(self.frame.sparkSession, allow_unencrypted=self.allow_unencrypted)
        if self.scratch is not None:
            check_scratch(self.frame.sparkSession, self.scratch)

    def in_unit(self, domain: Domain) -> SparkInput:
        ids, labels = (pa.array([], kind) for kind in self._arrow_types)
        checked_labels(labels, self.label_column, 0, _HERE, domain.unit)
        check_boolean_bounds(str(labels.type), domain)
        checked_ids(ids, self.id_column, 0, _HERE, None)
        return replace(self, unit=domain.unit)

    def with_ids_as(self, id_type: pa.DataType) -> SparkInput:
        if pa.types.is_uint64(id_type) and self._id_kind == "int":
            raise InvalidInput(
                "the message's ids are unsigned 64-bit integers, which Spark does not have: add this batch on one machine, with "
                "labeldp apply"
            )
        return self

    def readable_as(self, id_kind: str) -> bool:
        if id_kind == "str":
            return True
        task = CheckTask(RecordReader("int", self.unit), Domain(0, 1), self._fingerprint(os.urandom(32)), None, None)
        with nothing_charged():
            return not check_records(self._records, task, self._rows).totals["not_integers"]

    def row_count(self) -> int | None:
        return self._rows

    def scan(
        self,
        domain: Domain,
        *,
        key: bytes,
        out_of_range: OutOfRange,
        grid: Domain | None = None,
        progress: Progress | None = None,
    ) -> Scan:
        if not self._rows:
            raise InvalidInput("the frame holds no records: there is nothing to randomize")
        repeats = os.urandom(32) if self._rows <= EARLY_ROWS else None
        with nothing_charged():
            found = self._check(domain, key, grid, progress, repeats)
        refuse_faults(found.totals, self.label_column, self.id_column, domain, out_of_range)
        if found.repeated:
            raise repeated_id((), "Nothing was released or charged")
        return Scan(
            found.totals["records"],
            found.totals["clipped"],
            pa.int64() if self._id_kind == "int" else TEXT,
            (self.frame.schema[self.id_column].dataType.simpleString(),),
            found.fingerprint,
            found.totals["id_bytes"],
            grid,
            found.cells,
        )

    def count_cells(
        self, grid: Domain, scanned: Scan, *, key: bytes, advice: str, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        found = self._check(grid, key, grid, progress)
        if found.fingerprint != scanned.input_hmac:
            raise _changed(advice)
        assert found.cells is not None, "a grid was given"
        return found.cells

    def randomize(
        self,
        mechanism: FiniteMechanism,
        domain: Domain,
        scanned: Scan,
        *,
        key: bytes,
        release: bytes,
        advice: str,
        labels: Path,
        work: Path,
        keep_order: bool = False,
        held: Message | None = None,
        progress: Progress | None = None,
    ) -> int:
        assert not keep_order, "refused before: a frame has no order"
        randomness = KeyedRandomness(key, release).bound(mechanism.digest_bytes)
        draw = Draw(self._reader, mechanism, domain, randomness, self._fingerprint(key))
        name = hmac.digest(key, b"labeldp scratch folder\0" + release, "sha256").hex()[
            :32
        ]  # the same when the run is repeated
        scratch = Scratch(self.frame.sparkSession, work, self.scratch, f"labeldp-{name}")
        try:
            return write_records(
                self._records, draw, scanned, self.id_name, labels=labels, scratch=scratch, held=held, progress=progress
            )
        except InputChanged:
            raise _changed(advice) from None
        except IdRepeated:
            raise repeated_id((), "Nothing was released") from None

    @property
    def _records(self) -> DataFrame:
        """The frame's two columns, under names of our own: what the workers read."""
        ids, labels = (str(place_of(self.frame, name, _HERE)) for name in (self.id_column, self.label_column))
        return numbered(self.frame).select(F.col(ids).alias("id"), F.col(labels).alias("label"))

    @cached_property
    def _rows(self) -> int:
        with nothing_charged(), job(self.frame.sparkSession, 0, None):
            return self._records.count()

    @property
    def _arrow_types(self) -> tuple[pa.DataType, pa.DataType]:
        """The Arrow types of the id column and the label column."""
        return arrow_type(self.frame, self.id_column, _HERE), arrow_type(self.frame, self.label_column, _HERE)

    @property
    def _id_kind(self) -> str:
        return self.id_type or ("int" if pa.types.is_integer(self._arrow_types[0]) else "str")

    @property
    def _reader(self) -> RecordReader:
        return RecordReader(self._id_kind, self.unit)

    def _check(
        self,
        domain: Domain,
        key: bytes,
        grid: Domain | None = None,
        progress: Progress | None = None,
        repeats: bytes | None = None,
    ) -> Found:
        task = CheckTask(self._reader, domain, self._fingerprint(key), grid, repeats)
        return check_records(self._records, task, self._rows, progress)

    def _fingerprint(self, key: bytes) -> bytes:
        """The subkeys of the fingerprint of inputs whose columns have these types."""
        types = "\0".join((self._id_kind, *map(str, self._arrow_types)))
        return MultisetHash.subkeys(
            hmac.digest(key, b"labeldp input fingerprint on Spark 1\0" + types.encode(), "sha256")
        )


def _changed(advice: str) -> InvalidInput:
    return InvalidInput(
        "the frame gave other records when it was read again, so nothing was released. If it is computed, save it first and "
        f"read it back. {advice}"
    )
