"""`SparkLabels`: labels in a frame that are matched to public numbers by id. The driver gets exact sums of functions of both, and no label."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that

from labeldp.arrays import Floats
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.batches import outside
from labeldp.engines.passes import ExactFunction, Integers, Matched
from labeldp.engines.spark.jobs import collected, nothing_charged
from labeldp.engines.spark.session import check_encryption
from labeldp.engines.spark.spark_input import SparkInput, refuse_faults
from labeldp.engines.spark.worker import Batches, Faults, RecordReader, encrypted_row, new_result_key
from labeldp.errors import InvalidInput, LabelDPError

MATCH_COUNTS = ("records", "clipped", "not_whole", *Faults._fields)
"""The counts of every partition. Labels outside the bounds and labels that are not whole are counted among matched records only."""
MATCH_SCHEMA = pa.schema([*((name, pa.int64()) for name in MATCH_COUNTS), ("rows", pa.binary()), ("sums", pa.binary())])
"""The row that a task returns, encrypted."""
ROW_BYTES = 8
_GIVEN = "a key that opens exact sums of labels"


@dataclass(frozen=True)
class MatchTask:
    """A task that returns one encrypted row per partition: counts, the matched rows, and sums if they are asked for.

    The columns of a batch are ids, labels, the row of the public numbers (null without a match), their code, and the numbers. The size of the result
    depends on ids only.

    Attributes
    ----------
    reader : RecordReader
        Reads ids and labels.
    domain : Domain
        The bounds.
    exact : callable or None
        What is summed.
    shape : tuple of int
        The shape of its sums.
    result_key : bytes
        The key that encrypts the row for the driver. By default a new one.
    """

    reader: RecordReader
    domain: Domain
    exact: ExactFunction | None = None
    shape: tuple[int, ...] = ()
    result_key: bytes = field(default_factory=new_result_key, repr=False)

    def __call__(self, batches: Batches) -> Batches:
        totals = dict.fromkeys(MATCH_COUNTS, 0)
        sums, places = np.zeros(self.shape, np.int64), [np.empty(0, np.int64)]
        for batch in batches:
            _, labels, faults = self.reader.read(batch.select([0, 1]))
            counts = {"records": batch.num_rows} | faults._asdict()
            if not faults:
                matched = np.asarray(batch.column(2).is_valid())
                chosen = pa.array(np.flatnonzero(matched))
                row, code, *numbers = (column.take(chosen) for column in batch.columns[2:])
                places.append(np.asarray(row))
                own = labels[matched]
                counts["clipped"] = int(np.count_nonzero(outside(own, self.domain)))
                if self.domain.whole:
                    counts["not_whole"] = int(np.count_nonzero(own != np.rint(own)))
                if self.exact is not None and own.size:
                    within = np.clip(own, self.domain.lower, self.domain.upper)
                    sums += self.exact(within, np.stack([np.asarray(one) for one in numbers]), np.asarray(code))
            for name, count in counts.items():
                totals[name] += count
        values = [*totals.values(), np.concatenate(places).tobytes(), sums.tobytes()]
        yield encrypted_row(values, MATCH_SCHEMA, self.result_key)


@dataclass(frozen=True)
class SparkLabels:
    """A `MatchedInput` over a Spark frame. The protocol documents the methods.

    Attributes
    ----------
    source : SparkInput
        The frame and its columns.
    """

    source: SparkInput

    def __post_init__(self) -> None:
        if self.source.person_column is not None:
            raise InvalidInput(
                "Spark does not score persons yet: score them on one machine (--engine arrow), or leave out the column of persons if a record is "
                "the unit of privacy"
            )
        spark = self.source.frame.sparkSession
        check_encryption(spark, allow_unencrypted=self.source.allow_unencrypted, secret=_GIVEN)

    @property
    def id_kind(self) -> str:
        return self.source.id_kind

    def in_unit(self, domain: Domain) -> SparkLabels:
        if domain.classes is not None:
            raise InvalidInput("Spark does not score classes yet: score them on one machine (--engine arrow)")
        return replace(self, source=self.source.in_unit(domain))

    def match(self, ids: pa.Array, domain: Domain, out_of_range: OutOfRange) -> Matched:
        public = pa.table({"id": ids, "row": np.arange(len(ids)), "code": np.zeros(len(ids), np.int64)})
        with nothing_charged():
            totals, rows, _ = self._run(public, MatchTask(self.source.reader(), domain))
        refuse_faults(totals, self.source.label_column, domain, out_of_range, self.source.id_column)
        if np.unique(rows).size < rows.size:
            raise InvalidInput(
                "two records of the frame have the same id, but each record must occur once: combine these records or drop all but one"
            )
        return Matched(np.sort(rows), totals["records"], totals["clipped"])

    def sums(
        self,
        ids: pa.Array,
        numbers: Floats,
        codes: NDArray[np.int64],
        domain: Domain,
        exact: ExactFunction,
        shape: tuple[int, ...],
    ) -> Integers:
        columns = {str(place): column for place, column in enumerate(numbers)}
        public = pa.table({"id": ids, "row": np.arange(len(ids)), "code": codes, **columns})
        totals, rows, sums = self._run(public, MatchTask(self.source.reader(), domain, exact, shape))
        faults = any(totals[name] for name in Faults._fields)
        if faults or rows.size != len(ids) or np.unique(rows).size != rows.size:
            raise LabelDPError(
                "the frame gave other records when it was read again, so nothing was released, but ε was charged. Save it first, and score the saved table"
            )
        return sums

    def _run(self, public: pa.Table, task: MatchTask) -> tuple[dict[str, int], NDArray[np.int64], Integers]:
        """Return the counts, the matched rows and the sums of all partitions. Public numbers go to the workers; labels are not shuffled."""
        spark = self.source.frame.sparkSession
        records, sent = self.source.records, spark.createDataFrame(public).withColumnRenamed("id", "sent")
        typed = records["id"].try_cast("long" if self.id_kind == "int" else "string")  # others are counted as faults
        joined = records.join(F.broadcast(sent), typed == sent["sent"], "left").drop("sent")
        size = ROW_BYTES * (public.num_rows + int(np.prod(task.shape)))
        results = collected(joined, task, MATCH_SCHEMA, size, public.num_rows)
        totals = {name: sum(result[name] for result in results) for name in MATCH_COUNTS}
        rows = np.frombuffer(b"".join(result["rows"] for result in results), np.int64)
        sums = sum(
            (np.frombuffer(result["sums"], np.int64) for result in results), np.zeros(task.shape, np.int64).ravel()
        )
        return totals, rows, sums.reshape(task.shape)
