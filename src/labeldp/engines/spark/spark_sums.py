"""Frames of labels of which the driver gets exact sums, and no label: `SparkSums` over public columns of the frame, and `SparkLabels` of functions of
labels and public numbers that are matched to them by id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that

from labeldp.arrays import Floats
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.batches import check_boolean_bounds, checked_labels
from labeldp.engines.passes import (
    ExactFunction,
    ExactSums,
    Integers,
    Matched,
    add_over_cells,
    centre_of,
    signed_sums,
    units_of,
)
from labeldp.engines.spark.frames import arrow_type, by_index, column_index
from labeldp.engines.spark.jobs import collected, job, nothing_charged
from labeldp.engines.spark.session import check_encryption, check_frame
from labeldp.engines.spark.spark_input import SparkInput, refuse_faults
from labeldp.engines.spark.worker import Batches, CountingTask, Faults, RecordReader, label_counts, read_labels
from labeldp.errors import InvalidInput, LabelDPError, described
from labeldp.formatting import count_of

_HERE = "the frame"
_GIVEN = "a key that opens exact sums of labels"


@dataclass(frozen=True)
class SumTask(CountingTask):
    """A task that sums labels over cells and against signs. The size of its row depends only on the numbers of cells and columns.

    Its arrays are tables of two rows of int64: sums and counts of cells, sums and counts of signs, and for every public column the
    numbers of records where it is missing or invalid.

    The first column of a batch contains labels, followed by the columns of cells and the columns of signs.

    Attributes
    ----------
    grid : Domain
        The bounds and the grid.
    lower, upper : int
        The range to which units are clipped.
    sizes : tuple of int
        The number of cells of each column of cells.
    signs : int
        The number of columns of signs.
    """

    COUNTS = ("records", "clipped", "not_whole", "missing_labels", "not_finite")
    ARRAYS = ("cells", "signs", "faults")
    grid: Domain
    lower: int
    upper: int
    sizes: tuple[int, ...]
    signs: int

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The shapes of the arrays."""
        columns = (sum(self.sizes), self.signs, len(self.sizes) + self.signs)
        return {name: (2, number) for name, number in zip(self.ARRAYS, columns, strict=True)}

    def __call__(self, batches: Batches) -> Batches:
        totals = Counter[str]()
        tables = {name: np.zeros(shape, np.int64) for name, shape in self.shapes.items()}
        for batch in batches:
            labels, wrong = read_labels(batch.column(0), self.grid.unit)
            totals.update({"records": batch.num_rows} | wrong)
            public, faults = self._public(batch.columns[1:])
            tables["faults"] += faults
            if not any(wrong.values()):
                totals.update(label_counts(labels, self.grid))
                if not faults.any():
                    self._add(labels, public, tables)
        yield self.row(totals, *tables.values())

    def _public(self, columns: Sequence[pa.Array]) -> tuple[list[NDArray[np.integer]], Integers]:
        """Return cells and signs as numbers, and the number of missing and invalid ones in each column."""
        faults = np.zeros(self.shapes["faults"], np.int64)
        faults[0] = [column.null_count for column in columns]
        if faults.any():
            return [], faults
        numbers: list[NDArray[np.integer]] = [np.asarray(column) for column in columns]
        for place, column in enumerate(numbers):
            if place < len(self.sizes):
                bad = (column < 0) | (column >= self.sizes[place])
            else:
                bad = (column != 1) & (column != -1)
            faults[1, place] = np.count_nonzero(bad)
        return numbers, faults

    def _add(self, labels: Floats, public: list[NDArray[np.integer]], tables: dict[str, Integers]) -> None:
        units = units_of(labels, self.grid, self.lower, self.upper)
        sums, counts = tables["cells"]
        ends = np.cumsum(self.sizes, dtype=np.int64).tolist()
        for codes, size, end in zip(public, self.sizes, ends, strict=False):
            add_over_cells(sums[end - size : end], codes, units, self.lower)
            np.add.at(counts[end - size : end], codes.astype(np.intp), 1)
        if self.signs:
            signs = np.stack(public[len(self.sizes) :], axis=1).astype(np.int8)
            tables["signs"] += signed_sums(units, signs, centre_of(self.lower, self.upper))


@dataclass(frozen=True)
class SparkSums:
    """A `SumInput` over a Spark frame. The protocol documents the methods.

    Attributes
    ----------
    frame : DataFrame
        The frame with the columns.
    label_column : str
        The name of the label column.
    cells : mapping of str to int or None
        The columns of cell numbers, and the number of cells of each, if given.
    signs : tuple of str
        The columns of signs.
    """

    frame: DataFrame
    label_column: str
    cells: Mapping[str, int | None]
    signs: tuple[str, ...]
    allow_unencrypted: bool = False

    def __post_init__(self) -> None:
        check_frame(self.frame)
        if not self.cells and not self.signs:
            raise InvalidInput("there is nothing to sum over: give columns of cell numbers (cells) or of signs (signs)")
        for name in (self.label_column, *self._public):
            column_index(self.frame, name, _HERE)
        if self.label_column in self._public:
            raise InvalidInput(
                f"the label column {self.label_column!r} cannot be a column of cells or signs too: these are public"
            )
        for name in self._public:
            kind = arrow_type(self.frame, name, _HERE)
            if not pa.types.is_integer(kind):
                what = "cell numbers" if name in self.cells else "signs"
                raise InvalidInput(
                    f"{_HERE}: the column {name!r} contains {kind}, and {what} are whole numbers of an integer type. Convert it first"
                )
        for name, size in self.cells.items():
            if size is not None and (isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1):
                raise InvalidInput(
                    f"the number of cells of {name!r} must be a whole number of at least 1, got {described(size)}"
                )
        check_encryption(self.frame.sparkSession, allow_unencrypted=self.allow_unencrypted, secret=_GIVEN)

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        label: str,
        cells: str | Sequence[str] | Mapping[str, int],
        signs: str | Sequence[str],
        *,
        allow_unencrypted: bool,
    ) -> SparkSums:
        """Make one from the user's columns: one name, several, or for cells the numbers of cells by name."""
        sizes = cells if isinstance(cells, Mapping) else dict.fromkeys(_names(cells, "cells"))
        return cls(frame, label, sizes, _names(signs, "signs"), allow_unencrypted)

    @property
    def sign_columns(self) -> int:
        return len(self.signs)

    def sizes(self) -> tuple[int, ...]:
        unknown = [name for name, size in self.cells.items() if size is None]
        found: dict[str, int] = {}
        if unknown:
            largest = self._select(unknown).agg(*(F.max(str(place)) for place in range(len(unknown))))
            with nothing_charged(), job(self.frame.sparkSession, 0, None):
                row = largest.collect()[0]
            # a column without cell numbers raises an error when its records are read
            found = {
                name: max(-1 if number is None else number, 0) + 1 for name, number in zip(unknown, row, strict=True)
            }
        return tuple(int(found[name] if size is None else size) for name, size in self.cells.items())

    def sum_labels(
        self, grid: Domain, lower: int, upper: int, sizes: tuple[int, ...], out_of_range: OutOfRange
    ) -> ExactSums:
        labels = pa.array([], arrow_type(self.frame, self.label_column, _HERE))
        checked_labels(labels, self.label_column, 0, _HERE, grid.unit)
        check_boolean_bounds(str(labels.type), grid)
        task = SumTask(grid, lower, upper, sizes, len(self.signs))
        with nothing_charged():
            result_bytes = sum(8 * rows * columns for rows, columns in task.shapes.values())
            found = collected(self._select([self.label_column, *self._public]), task, result_bytes)
        totals = found.totals
        refuse_faults(totals, self.label_column, grid, out_of_range)
        cells, signs, faults = (found.summed(name, shape) for name, shape in task.shapes.items())
        self._refuse_public(faults, sizes)
        return ExactSums(grid, lower, upper, totals["records"], totals["clipped"], sizes, *cells, *signs)

    @property
    def _public(self) -> tuple[str, ...]:
        return (*self.cells, *self.signs)

    def _select(self, names: Sequence[str]) -> DataFrame:
        """Return these columns, named by their index in the list."""
        places = [str(column_index(self.frame, name, _HERE)) for name in names]
        return by_index(self.frame).select(*(F.col(old).alias(str(new)) for new, old in enumerate(places)))

    def _refuse_public(self, faults: Integers, sizes: tuple[int, ...]) -> None:
        repair = "Drop or repair these records first"
        for place, name in enumerate(self._public):
            missing, bad = (int(count) for count in faults[:, place])
            if missing:
                raise InvalidInput(f"the column {name!r} is missing in {count_of(missing, 'record')}. {repair}")
            if bad and place < len(sizes):
                raise InvalidInput(
                    f"cell numbers in {name!r} must be from 0 to {sizes[place] - 1:,}, the number of cells minus one, but the values of "
                    f"{count_of(bad, 'record')} are not. {repair}"
                )
            if bad:
                raise InvalidInput(
                    f"signs must be +1 or −1, but the signs of {count_of(bad, 'record')} in {name!r} are not. {repair}"
                )


def _names(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"{what} must be names of columns, got {described(given)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{what} names the column {twice!r} twice")
    return tuple(names)


@dataclass(frozen=True)
class MatchTask(CountingTask):
    """A task that returns counts, the matched rows, and sums if they are asked for. Counts of labels outside the bounds and of labels that are not whole are of matched records.

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
    """

    COUNTS = ("records", "clipped", "not_whole", *Faults._fields)
    ARRAYS = ("rows", "sums")
    reader: RecordReader
    domain: Domain
    exact: ExactFunction | None = None
    shape: tuple[int, ...] = ()

    def __call__(self, batches: Batches) -> Batches:
        totals = Counter[str]()
        sums, places = np.zeros(self.shape, np.int64), [np.empty(0, np.int64)]
        for batch in batches:
            _, labels, faults = self.reader.read(batch.select([0, 1]))
            totals.update({"records": batch.num_rows} | faults._asdict())
            if not faults:
                matched = np.asarray(batch.column(2).is_valid())
                chosen = pa.array(np.flatnonzero(matched))
                row, code, *numbers = (column.take(chosen) for column in batch.columns[2:])
                places.append(np.asarray(row))
                own = labels[matched]
                totals.update(label_counts(own, self.domain))
                if self.exact is not None and own.size:
                    within = np.clip(own, self.domain.lower, self.domain.upper)
                    sums += self.exact(within, np.stack([np.asarray(one) for one in numbers]), np.asarray(code))
        yield self.row(totals, np.concatenate(places), sums)


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
        size = 8 * (public.num_rows + int(np.prod(task.shape)))
        found = collected(joined, task, size, public.num_rows)
        return found.totals, found.joined("rows", np.int64), found.summed("sums", task.shape)
