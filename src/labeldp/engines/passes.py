"""The interface between a release and an engine: passes over records, and their results.

`LabelInput` and `SumInput` are the protocols. `Scan` is the result of the first pass over labels, `ExactSums` is the
result of the pass over labels and public columns. The functions below them sum labels exactly, in whole numbers, and
every engine uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.artifact.labels_file import id_kind
from labeldp.artifact.reader import Message
from labeldp.domain import Domain, OutOfRange
from labeldp.mechanisms import FiniteMechanism
from labeldp.sampling.table import Words
from labeldp.tables.files import Progress

_ROWS = 1 << 14
"""The number of rows summed at a time. A sum of 2^14 numbers below 2^33 stays below 2^53, where floats are exact."""
_ENTRIES = 1 << 16
"""The number of signs multiplied at a time. This is few enough that BLAS does not start threads, which take 100 times as long on shared machines."""
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Selection:
    """The rows whose labels are randomized, if the unit of privacy is a person. They do not depend on labels.

    Attributes
    ----------
    bits : array of uint8
        One bit for each row of the input, the first row in the lowest bit. Empty for engines without row numbers.
    records : int
        The number of chosen rows.
    check : int
        The sum of their ranks modulo 2^64, by which a pass detects another order of the rows.
    limits : object
        The criterion of engines without row numbers.
    input_hmac : str or None
        The fingerprint of the chosen rows, if the engine recognises them by it.
    """

    bits: NDArray[np.uint8]
    records: int
    check: int = 0
    limits: object = None
    input_hmac: str | None = None

    def mask(self, first: int, rows: int) -> NDArray[np.bool_]:
        """Return which of these consecutive rows are chosen."""
        skipped = first % 8
        bits = np.unpackbits(self.bits[first // 8 : (first + rows + 7) // 8], bitorder="little")
        return bits[skipped : skipped + rows].astype(np.bool_)


class PersonEntries(Protocol):
    """The rows of each person, found by a scan."""

    @property
    def kind(self) -> str:
        """The type of the persons: "int" or "str"."""

    @property
    def fingerprint(self) -> str:
        """A keyed hash of all persons and ids, independent of their order, if label columns share them."""

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of persons by their number of rows, as `person_sizes` does."""

    def choose(self, entries: int, served: Sequence[Words] = ()) -> Selection:
        """Choose at most `entries` rows of each person who is not in one of the sorted arrays of words `served`."""

    def words(self, served: Sequence[Words] = ()) -> Iterator[Words]:
        """Yield the words of all other persons, in ascending order."""


@dataclass(frozen=True, eq=False)
class Scan:
    """The result of the first pass. `clipped`, `input_hmac` and `counts` are as sensitive as the labels and never released.

    Attributes
    ----------
    records : int
        The number of records.
    clipped : int
        The number of labels outside the bounds.
    id_type : pyarrow.DataType
        The type of the ids.
    id_types : tuple of str
        The distinct types of the id column in the input, in order of appearance.
    input_hmac : str
        The input's fingerprint.
    id_bytes : int
        The size of all ids in memory.
    grid : Domain or None
        The grid of `counts`.
    counts : array of int64 or None
        Exact counts per cell of `grid`, if a grid was given.
    persons : PersonEntries or None
        The rows of each person, if the input has a column of persons.
    selection : Selection or None
        The chosen rows, after `choose`. Later passes count and draw only these.
    """

    records: int
    clipped: int
    id_type: pa.DataType
    id_types: tuple[str, ...]
    input_hmac: str
    id_bytes: int = 0
    grid: Domain | None = None
    counts: NDArray[np.int64] | None = None
    persons: PersonEntries | None = None
    selection: Selection | None = None

    @property
    def drawn(self) -> int:
        """The number of records that get private labels."""
        return self.records if self.selection is None else self.selection.records

    def choose(self, entries: int, served: Sequence[Words] = ()) -> Scan:
        """Return the scan with chosen rows: at most `entries` of each person, without persons who were served before."""
        assert self.persons is not None, "the input has persons"
        selection = self.persons.choose(entries, served)
        return replace(self, selection=selection, input_hmac=selection.input_hmac or self.input_hmac)

    @property
    def id_kind(self) -> str:
        """The type of the ids: "int" or "str"."""
        return id_kind(self.id_type)


@dataclass(frozen=True, eq=False, kw_only=True)
class DrawJob:
    """The inputs of a draw, and where the labels are written.

    Attributes
    ----------
    mechanism : FiniteMechanism
        The mechanism that randomizes each label.
    domain : Domain
        The bounds to which labels are clipped.
    key, release : bytes
        The key and the release id. Draws depend on these and on id, label and mechanism.
    labels : Path
        The new file or folder to write.
    work : Path
        An empty folder on the same disk, which is removed later.
    advice : str
        The end of the error message for an input that changed after the scan.
    keep_order : bool
        Whether to write rows in the order of the input. Otherwise their order depends only on their ids.
    held : Message or None
        Rows with ids in this message are drawn but not written. Cannot be combined with `keep_order`.
    """

    mechanism: FiniteMechanism
    domain: Domain
    key: bytes = field(repr=False)
    release: bytes
    labels: Path
    work: Path
    advice: str = ""
    keep_order: bool = False
    held: Message | None = None


class LabelInput(Protocol):
    """Labels and their ids, which an engine reads more than once: one pass checks, one may count, one randomizes.

    `release/` controls the order of steps and writes everything except the labels. It calls `check_places` and
    `in_unit` first, then `scan`, and only after the release is charged `count_cells` and `randomize`. It passes the
    same `key` to all of them. Equal keys, ids, labels and mechanisms give equal private labels on every engine.

    Errors name files and rows and never show a label or an id. An engine raises `InvalidInput` for an input that cannot
    be released and `OSError` or `MemoryError` for a failure of the machine; `release/` then reports what was charged
    and how to continue.
    """

    @property
    def label_column(self) -> str:
        """The name of the label column."""

    @property
    def id_column(self) -> str | None:
        """The name of the id column, or None if row numbers are the ids."""

    @property
    def id_name(self) -> str:
        """The name of the id column in the message."""

    @property
    def person_column(self) -> str | None:
        """The name of the column of persons, or None if a record is the unit of privacy."""

    @property
    def keeps_order(self) -> bool:
        """Whether `randomize` can write the rows in the order of the input."""

    @property
    def least_row_bytes(self) -> int:
        """The minimum disk space per row while it is randomized, in addition to the message, to detect a full disk in time."""

    def check_places(self, message: Path, key_file: Path | None) -> None:
        """Raise `InvalidInput` if the input cannot be read twice, or if the message or the key file would become a part of it.

        The input is not read. `release/` does the checks that do not depend on the engine.
        """

    def in_unit(self, domain: Domain) -> LabelInput:
        """Return the input with durations in the unit of the domain. Raise `InvalidInput` if it names another unit."""

    def with_ids_as(self, id_type: pa.DataType) -> LabelInput:
        """Return the input with ids of the type used in a message, for a later batch.

        Integers outside the range of the type are errors. Ids of another kind are not converted, which `Scan.id_kind` shows.
        """

    def readable_as(self, id_kind: str) -> bool:
        """Return whether all ids could be read as "int" or "str". Reads the input; only an error's advice depends on it."""

    def row_count(self) -> int | None:
        """Return the number of records if it can be found without parsing them, else None. It may be wrong: `scan` counts."""

    def scan(
        self,
        domain: Domain,
        *,
        key: bytes,
        out_of_range: OutOfRange,
        grid: Domain | None = None,
        progress: Progress | None = None,
    ) -> Scan:
        """Check, fingerprint (under `key`) and count all records: per cell if a grid is given.

        Duplicate ids raise `InvalidInput` as far as memory allows, because nothing is charged yet. `randomize` detects
        the others. If the input has persons, they are in the fingerprint and in `Scan.persons`; `count_cells` and
        `randomize` then need a scan with chosen rows.
        """

    def count_cells(
        self, grid: Domain, scanned: Scan, *, key: bytes, advice: str, progress: Progress | None = None
    ) -> NDArray[np.int64]:
        """Return exact counts of the labels per cell of a grid that was not known at the scan.

        Raise `InvalidInput`, with `advice` at the end, if the input differs from the scan.
        """

    def randomize(self, job: DrawJob, scanned: Scan, progress: Progress | None = None) -> int:
        """Draw every label, write the new ones, and return the number written. `progress` counts every record twice.

        Privacy: labels are drawn with `KeyedRandomness(job.key, job.release)`, so a record that is drawn again gets the
        same draw. If the input differs from the scan, or an id is repeated, this raises an error, and the written files
        must not be used.
        """


@dataclass(frozen=True, eq=False, repr=False)
class Matched:
    """Records whose ids were asked for. `clipped` is as sensitive as the labels; the rest is public.

    Attributes
    ----------
    rows : array of int64
        Which of the ids have a label, in ascending order.
    labels : int
        The number of labels, with and without a match.
    clipped : int
        The number of matched labels outside the bounds.
    """

    rows: NDArray[np.int64]
    labels: int
    clipped: int


ExactFunction = Callable[[Floats, Floats, Integers], Integers]
"""Exact sums for labels within the bounds, public numbers with a row for each column, and the code of each record. They add up over batches."""


class MatchedInput(Protocol):
    """Labels by id on a cluster. Only their exact sums reach the driver."""

    @property
    def id_kind(self) -> str:
        """The kind of the ids, "int" or "str"."""

    def in_unit(self, domain: Domain) -> MatchedInput:
        """Return the labels in the unit of a domain. Raise `InvalidInput` for columns that cannot be read."""

    def match(self, ids: pa.Array, domain: Domain, out_of_range: OutOfRange) -> Matched:
        """Return which of the ids have a label, after a check of all records."""

    def sums(
        self,
        ids: pa.Array,
        numbers: Floats,
        codes: Integers,
        domain: Domain,
        exact: ExactFunction,
        shape: tuple[int, ...],
    ) -> Integers:
        """Return exact sums of a function of labels and public numbers, for ids that all have a label."""


@dataclass(frozen=True, eq=False, repr=False)
class ExactSums:
    """The sums of an engine. `clipped` and both sums are as sensitive as the labels; the rest is public.

    Attributes
    ----------
    domain : Domain
        The grid.
    lower, upper : int
        The range to which units were clipped.
    records : int
        The number of labels.
    clipped : int
        The number of labels outside the domain.
    sizes : tuple of int
        The number of cells of each partition.
    cell_sums, cell_counts : array of int64
        For each cell the sum of (unit − lower) and the number of records, one partition after the other.
    sign_sums, sign_counts : array of int64
        For each column of signs the sum of sign·(unit − centre) and the sum of the signs.
    """

    domain: Domain
    lower: int
    upper: int
    records: int
    clipped: int
    sizes: tuple[int, ...]
    cell_sums: Integers
    cell_counts: Integers
    sign_sums: Integers
    sign_counts: Integers
    weight: ClassVar[int] = 1
    """A record is the unit of privacy."""

    @property
    def total(self) -> int:
        """The weight of all records."""
        return self.records


class SumInput(Protocol):
    """Labels and public columns that an engine reads. Errors name columns and numbers of records, but never show a label."""

    @property
    def sign_columns(self) -> int:
        """The number of columns of signs."""

    def sizes(self) -> tuple[int, ...]:
        """Return the number of cells of each partition: the given number, or the largest cell number plus one. Labels are not read."""

    def sum_labels(
        self, grid: Domain, lower: int, upper: int, sizes: tuple[int, ...], out_of_range: OutOfRange
    ) -> ExactSums:
        """Return all sums, from one pass over the labels. Raise `InvalidInput` for labels, cells and signs that cannot be summed."""


def units_of(labels: Floats, grid: Domain, lower: int, upper: int) -> Integers:
    """Return finite labels in grid units, clipped."""
    return np.clip(grid.cell(labels).astype(np.int64), lower, upper)


def add_over_cells(sums: Integers, codes: NDArray[np.integer], units: Integers, lower: int) -> None:
    """Add (unit − lower) of every record to the sum of its cell."""
    for start in range(0, units.size, _ROWS):
        rows = slice(start, start + _ROWS)
        np.add.at(sums, codes[rows].astype(np.intp), units[rows] - lower)


def signed_sums(units: Integers, signs: NDArray[np.integer], centre: int, weights: Integers | None = None) -> Integers:
    """Return two rows: for each column the sum of sign·(unit − centre), and the sum of the signs, which must be ±1. Rows may have weights.

    Each product is a float and exact: a partial sum is a whole number of at most 2^14·2^38 < 2^53 in size. The sums of blocks of
    rows are added as integers.
    """
    totals = np.zeros((2, signs.shape[1]), np.int64)
    for rows in row_blocks(*signs.shape):
        numbers = np.ones((2, units[rows].size))
        numbers[0] = units[rows] - centre
        if weights is not None:
            numbers *= weights[rows]
        totals += (numbers @ signs[rows].astype(np.float64)).astype(np.int64)
    return totals


def row_blocks(records: int, columns: int) -> list[slice]:
    """Return the rows of a table of signs, cut so that a block is summed exactly and in little memory."""
    rows = max(1, min(_ROWS, _ENTRIES // columns))
    return [slice(start, start + rows) for start in range(0, records, rows)]


def centre_of(lower: int, upper: int) -> int:
    """Return the whole number that signed sums subtract from each unit."""
    return (lower + upper) // 2
