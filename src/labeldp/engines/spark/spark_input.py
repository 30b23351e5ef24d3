"""`SparkInput`: a frame of labels for a release on a cluster. The workers check and count their partitions, and the driver adds up."""

from __future__ import annotations

import hmac
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that

from labeldp.arrays import no_class
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.batches import (
    TEXT,
    check_boolean_bounds,
    check_columns,
    checked_ids,
    checked_labels,
    equal_digests,
    fingerprint_subkeys,
    repeated_id,
    typed_digest,
)
from labeldp.engines.passes import DrawJob, Scan, Selection
from labeldp.engines.spark.frames import arrow_type, by_index, column_index
from labeldp.engines.spark.jobs import IdRepeated, InputChanged, collected, job, mapped, nothing_charged
from labeldp.engines.spark.session import check_encryption, check_frame
from labeldp.engines.spark.worker import Batches, CheckTask, RecordReader
from labeldp.engines.spark.writing import Draw, Scratch, check_scratch, write_records
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of
from labeldp.sampling import EntryChoice, KeyedRandomness
from labeldp.sampling.multiset import MultisetHash
from labeldp.sampling.randomness import MOST_ENTRIES
from labeldp.sampling.table import Words
from labeldp.tables.files import Progress

_REPAIR = "Drop or repair these records first"
EARLY_ROWS = 1 << 23
"""Up to this number of rows, duplicate ids are found before anything is charged. The driver gets 12 bytes per row for this."""
_HERE = "the frame"


def refuse_faults(
    totals: Mapping[str, int], label: str, domain: Domain, out_of_range: OutOfRange, ids: str | None = None
) -> None:
    """Raise `InvalidInput` if a pass found errors, for the worst one first. Nothing is charged yet."""
    found = defaultdict(str, {name: count_of(count, "record") for name, count in totals.items()})
    bounds = f"{domain.lower:g} to {domain.upper:g}"
    sentences = {
        "missing_labels": f"the label column {label!r} is missing in {found['missing_labels']}. {_REPAIR}",
        "not_finite": f"labels must be finite numbers, but {label!r} has NaN or infinity in {found['not_finite']}. {_REPAIR}",
        "not_whole": f"labels must be whole numbers, as the bounds say, but {found['not_whole']} in {label!r} are not. Is it the right "
        f"column? For labels in between, a release is made with Domain({domain.lower:g}, {domain.upper:g}) "
        "(privatize --lower --upper)",
        "clipped": f"labels must lie from {bounds}, but {found['clipped']} in {label!r} do not. Widen the bounds, or move such "
        "labels to them with --out-of-range clip",
        "missing_persons": f"the person column has no person in {found['missing_persons']}. {_REPAIR}",
        "missing_ids": f"the id column {ids!r} has no id in {found['missing_ids']}. {_REPAIR}",
        "not_text": f"the id of {found['not_text']} in {ids!r} is not UTF-8 text. {_REPAIR}",
        "not_integers": f"the id of {found['not_integers']} in {ids!r} is not a plain 64-bit integer. Give --id-type str to read all "
        "ids as text",
    }
    if domain.classes is not None:
        for name in ("no_class", "rates"):
            what = no_class(rates=name == "rates", classes=domain.classes)
            sentences[name] = (
                f"the labels in {label!r} must be of {domain.count} classes. In {found[name]} they are {what}"
            )
    for name, sentence in sentences.items():
        if totals.get(name) and (name != "clipped" or out_of_range == "error"):
            raise InvalidInput(sentence)


@dataclass(frozen=True)
class SparkInput:
    """A `LabelInput` over a Spark frame. The protocol documents the methods.

    Attributes
    ----------
    frame : DataFrame
        The frame of the two columns. It is evaluated twice or three times.
    label_column, id_column : str
        Their names.
    id_type : {"int", "str"}, optional
        The kind of the ids; by default the kind in the frame.
    unit : str, optional
        The unit of labels that are durations.
    scratch : str, optional
        A folder, on a file system that all machines of the cluster share, where Spark may write the parts of the message.
        By default Spark writes next to the message.
    person_column : str, optional
        The name of the column of persons, if the unit of privacy is a person.
    classes : tuple of str, optional
        The names of classes, if labels are classes.
    """

    frame: DataFrame
    label_column: str
    id_column: str
    id_type: str | None = None
    unit: str | None = None
    scratch: str | None = None
    allow_unencrypted: bool = False
    person_column: str | None = None
    classes: tuple[str, ...] | None = None
    keeps_order: ClassVar[bool] = False
    least_row_bytes: ClassVar[int] = 1
    """A lower bound: ids may repeat their neighbours' bytes, and codes compress."""

    def __post_init__(self) -> None:
        check_frame(self.frame)
        for name in (self.label_column, self.id_column, *([] if self.person_column is None else [self.person_column])):
            column_index(self.frame, name, _HERE)
        if self.id_column.lower() in ("code", "private_label"):  # Spark does not distinguish Code from code
            raise InvalidInput(
                f"the id column cannot be called {self.id_column!r}, which is the name of another column of the message: rename it"
            )
        check_columns(self.label_column, self.id_column, self.id_type, self.person_column)

    @property
    def id_name(self) -> str:
        return self.id_column

    def check_places(self, message: Path, key_file: Path | None) -> None:  # noqa: ARG002
        check_encryption(self.frame.sparkSession, allow_unencrypted=self.allow_unencrypted)
        if self.scratch is not None:
            check_scratch(self.frame.sparkSession, self.scratch)

    def in_unit(self, domain: Domain) -> SparkInput:
        ids, labels = (pa.array([], kind) for kind in self._arrow_types)
        checked_labels(labels, self.label_column, 0, _HERE, domain.unit, domain.classes)
        check_boolean_bounds(str(labels.type), domain)
        checked_ids(ids, self.id_column, 0, _HERE, None)
        if self.person_column is not None:
            persons = pa.array([], arrow_type(self.frame, self.person_column, _HERE))
            checked_ids(persons, self.person_column, 0, _HERE, None, noun="person")
        return replace(self, unit=domain.unit, classes=domain.classes)

    def with_ids_as(self, id_type: pa.DataType) -> SparkInput:
        if pa.types.is_uint64(id_type) and self.id_kind == "int":
            raise InvalidInput(
                "the message's ids are unsigned 64-bit integers, which Spark does not have: add this batch on one machine, with "
                "labeldp apply"
            )
        return self

    def readable_as(self, id_kind: str) -> bool:
        if id_kind == "str":
            return True
        task = CheckTask(
            replace(self.reader(), id_kind="int"), Domain(0, 1), fingerprint_subkeys(os.urandom(32)), None, None
        )
        with nothing_charged():
            return not check_records(self.records, task, self._rows).totals["not_integers"]

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
            raise InvalidInput("the frame contains no records: there is nothing to randomize")
        repeats = os.urandom(32) if self._rows <= EARLY_ROWS else None
        with nothing_charged():
            found = self._check(domain, key, grid, progress, repeats)
        refuse_faults(found.totals, self.label_column, domain, out_of_range, self.id_column)
        if found.repeated:
            raise repeated_id((), "Nothing was released or charged")
        return Scan(
            found.totals["records"],
            found.totals["clipped"],
            self._id_arrow_type,
            (self.frame.schema[self.id_column].dataType.simpleString(),),
            self._digest(found),
            found.totals["id_bytes"],
            grid,
            found.cells,
            self._persons(domain, key),
        )

    def count_persons(self) -> NDArray[np.int64] | None:
        """Return the number of persons by their number of rows, if there is a column of persons. Labels are not read."""
        found = self._persons(Domain(0, 1), os.urandom(32))
        return None if found is None else found.sizes()

    def _persons(self, domain: Domain, key: bytes) -> SparkPersons | None:
        """Return the rows of each person, which are chosen later."""
        if self.person_column is None:
            return None
        kind = "int" if pa.types.is_integer(arrow_type(self.frame, self.person_column, _HERE)) else "str"

        def fingerprinted(limits: Limits) -> Selection:
            with nothing_charged():
                found = self._check(domain, key, limits=limits)
            return Selection(np.empty(0, np.uint8), found.totals["records"], 0, limits, self._digest(found))

        task = RankTask(EntryChoice(key), self.reader(None))
        return SparkPersons(self.records.select("id", "person"), kind, task, fingerprinted)

    def count_cells(
        self, grid: Domain, scanned: Scan, *, key: bytes, advice: str, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        found = self._check(grid, key, grid, progress, limits=_limits(scanned))
        if self._digest(found) != scanned.input_hmac:
            raise _changed(advice)
        assert found.cells is not None, "a grid was given"
        return found.cells

    def randomize(self, job: DrawJob, scanned: Scan, progress: Progress | None = None) -> int:
        assert not job.keep_order, "rejected earlier: the rows of a frame are unordered"
        randomness = KeyedRandomness(job.key, job.release).bound(job.mechanism.digest_bytes)
        reader, subkeys = self.reader(_limits(scanned)), fingerprint_subkeys(job.key)
        draw = Draw(reader, job.mechanism, job.domain, randomness, subkeys, self._types)
        name = hmac.digest(
            job.key, b"labeldp scratch folder\0" + job.release, "sha256"
        ).hex()  # the same in a repeated run
        scratch = Scratch(self.frame.sparkSession, job.work, self.scratch, f"labeldp-{name[:32]}")
        try:
            return write_records(
                self.records,
                draw,
                scanned,
                self.id_name,
                labels=job.labels,
                scratch=scratch,
                held=job.held,
                progress=progress,
            )
        except InputChanged:
            raise _changed(job.advice) from None
        except IdRepeated:
            raise repeated_id((), "Nothing was released") from None

    @property
    def records(self) -> DataFrame:
        """The two or three columns that the workers read, renamed."""
        named = {"id": self.id_column, "label": self.label_column, "person": self.person_column}
        places = {name: column_index(self.frame, column, _HERE) for name, column in named.items() if column is not None}
        return by_index(self.frame).select(*(F.col(str(place)).alias(name) for name, place in places.items()))

    @cached_property
    def _rows(self) -> int:
        with nothing_charged(), job(self.frame.sparkSession, 0, None):
            return self.records.count()

    @property
    def _arrow_types(self) -> tuple[pa.DataType, pa.DataType]:
        """The Arrow types of the id column and the label column."""
        return arrow_type(self.frame, self.id_column, _HERE), arrow_type(self.frame, self.label_column, _HERE)

    @property
    def id_kind(self) -> str:
        """The kind of the ids, "int" or "str"."""
        return self.id_type or ("int" if pa.types.is_integer(self._arrow_types[0]) else "str")

    def reader(self, limits: Limits | None = None) -> RecordReader:
        """Return the reader of the records for workers."""
        return RecordReader(self.id_kind, self.unit, limits, self.classes)

    def _check(
        self,
        domain: Domain,
        key: bytes,
        grid: Domain | None = None,
        progress: Progress | None = None,
        repeats: bytes | None = None,
        limits: Limits | None = None,
    ) -> Found:
        task = CheckTask(self.reader(limits), domain, fingerprint_subkeys(key), grid, repeats)
        return check_records(self.records, task, self._rows, progress)

    @property
    def _id_arrow_type(self) -> pa.DataType:
        return pa.int64() if self.id_kind == "int" else TEXT

    @property
    def _types(self) -> tuple[str, ...]:
        """The types under which the fingerprint hashes the records."""
        return tuple(map(str, (self._id_arrow_type, *self._arrow_types)))

    def _digest(self, found: Found) -> str:
        return typed_digest({self._types: found.records})


@dataclass(frozen=True, eq=False)
class Found:
    """The results of the first pass. They are as sensitive as the labels.

    Attributes
    ----------
    totals : dict
        The counts of `CheckTask`.
    records : MultisetHash
        The hash of all records.
    cells : array of int64 or None
        Exact counts per cell, if a grid was given.
    repeated : bool
        Whether two ids are equal, if the task checked this.
    """

    totals: dict[str, int]
    records: MultisetHash
    cells: NDArray[np.int64] | None
    repeated: bool


def check_records(frame: DataFrame, task: CheckTask, rows: int, progress: Progress | None = None) -> Found:
    """Run the task over a frame of about `rows` rows. The exact counts go from worker to driver without a shuffle."""
    cells = 0 if task.grid is None else task.grid.count
    found = collected(frame, task, 8 * cells, rows, progress)
    whole = MultisetHash.from_subkeys(task.fingerprint)
    first, second = found.summed("limbs", 2, np.uint64).tolist()
    whole.merge((first, second), found.totals["records"])
    counts = None if task.grid is None else found.summed("cells", cells)
    repeated = equal_digests(found.joined("low", np.uint64), found.joined("high", np.uint32))
    return Found(found.totals, whole, counts, bool(repeated))


def _limits(scanned: Scan) -> Limits | None:
    """Return the limits by which workers choose, after rows of persons were chosen."""
    found = None if scanned.selection is None else scanned.selection.limits
    assert (scanned.persons is None) == (found is None), "rows of persons are chosen before they are drawn"
    return found if isinstance(found, Limits) else None


def _changed(advice: str) -> InvalidInput:
    return InvalidInput(
        "the frame gave other records when it was read again, so nothing was released. If it is computed, save it first and "
        f"read it back. {advice}"
    )


MOST_PERSONS = 1 << 23
"""The maximum number of persons: the limits of more would not fit into every worker."""
_SIGN = np.uint64(1 << 63)
_RANKED = "person long, rank long"


@dataclass(frozen=True)
class Limits:
    """A selector of rows on a worker: it chooses rows whose ranks are below the limit of their person.

    Attributes
    ----------
    choice : EntryChoice
        The keyed function that chooses.
    limits : Broadcast
        The sorted words of persons, their limits, and whether all rows of a person are chosen.
    """

    choice: EntryChoice = field(repr=False)
    limits: Broadcast[tuple[Words, Words, NDArray[np.bool_]]]

    def mask(self, ids: pa.Array, persons: pa.Array) -> NDArray[np.bool_]:
        """Return which records are chosen. Records of persons without a limit are not chosen."""
        known, limits, everything = self.limits.value
        words = self.choice.persons(persons)
        places = np.minimum(np.searchsorted(known, words), known.size - 1)
        below = (self.choice.ranks(words, ids) < limits[places]) | everything[places]
        return np.asarray(below & (known[places] == words), np.bool_)


@dataclass(frozen=True)
class RankTask:
    """A task that returns the word of the person and the rank of each record, as signed numbers that sort like the unsigned ones."""

    choice: EntryChoice = field(repr=False)
    reader: RecordReader

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            ids = self.reader.typed_ids(batch.column(0))
            words = self.choice.persons(typed_persons(batch.column(1)))
            columns = [(each ^ _SIGN).view(np.int64) for each in (words, self.choice.ranks(words, ids))]
            yield pa.record_batch([pa.array(each) for each in columns], ["person", "rank"])


def typed_persons(persons: pa.Array) -> pa.Array:
    """Return persons as int64 or text, like the engine for files."""
    return persons.cast(pa.int64() if pa.types.is_integer(persons.type) else pa.large_string())


@dataclass(frozen=True)
class SparkPersons:
    """The `PersonEntries` of a frame with the columns id and person. One aggregation finds the ranks below which rows are chosen.

    Workers compute the words of persons and the ranks of rows, which do not depend on labels, and Spark groups them. The
    driver gets one limit for each person and broadcasts all of them. So workers choose rows where they read them, and
    labels are never shuffled.

    Attributes
    ----------
    frame : DataFrame
        The ids and the persons.
    kind : str
        The type of the persons: "int" or "str".
    task : RankTask
        Ranks records.
    fingerprinted : callable
        Returns the selection of chosen rows, from their limits, after a pass over the frame.
    """

    frame: DataFrame
    kind: str
    task: RankTask
    fingerprinted: Callable[[Limits], Selection]

    @property
    def fingerprint(self) -> str:
        raise InvalidInput("several labels are not possible on Spark: use labeldp.release.several on files")

    def sizes(self) -> NDArray[np.int64]:
        counted = self._ranked().groupBy("person").count()
        found = counted.groupBy(F.least("count", F.lit(MOST_ENTRIES)).alias("entries")).count()
        with nothing_charged(), job(self.frame.sparkSession, 0, None):
            rows = found.collect()
        sizes = np.zeros(MOST_ENTRIES + 1, np.int64)
        for entries, count in rows:
            sizes[entries] = count
        if sizes.sum() > MOST_PERSONS:
            raise InvalidInput(
                f"there are {sizes.sum():,} persons, and Spark releases labels of at most {MOST_PERSONS:,}: use labeldp.privatize on files"
            )
        return sizes

    def choose(self, entries: int, served: Sequence[Words] = ()) -> Selection:
        ranks = F.sort_array(F.collect_list("rank"))
        limit = F.when(F.count("rank") > entries, F.get(ranks, entries)).alias("limit")
        with nothing_charged(), job(self.frame.sparkSession, 0, None):
            rows = self._ranked().groupBy("person").agg(limit).collect()
        known = np.array([person for person, _ in rows], np.int64).view(np.uint64) ^ _SIGN
        everything = np.array([found is None for _, found in rows], np.bool_)
        limits = np.array([found or 0 for _, found in rows], np.int64).view(np.uint64) ^ _SIGN
        for words in served:
            before = np.isin(known, words)
            everything[before], limits[before] = False, 0
        order = np.argsort(known)
        sent = self.frame.sparkSession.sparkContext.broadcast((known[order], limits[order], everything[order]))
        return self.fingerprinted(Limits(self.task.choice, sent))

    def words(self, served: Sequence[Words] = ()) -> Iterator[Words]:
        with nothing_charged(), job(self.frame.sparkSession, 0, None):
            rows = self._ranked().select("person").distinct().collect()
        found = np.sort(np.array([person for (person,) in rows], np.int64).view(np.uint64) ^ _SIGN)
        for words in served:
            found = found[~np.isin(found, words)]
        yield found

    def _ranked(self) -> DataFrame:
        return mapped(self.frame, self.task, _RANKED)
