"""A report of all errors in an input: what is wrong, on which lines or rows, and what to do.

A pass over the input stops at the first error. Only then does `reported_together` read the input again to find all
errors. The report contains no labels and no ids.
"""

import csv
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrays import Floats, are_rates, known_positions, no_class
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow.source import DECIDING_ROWS, LabelSource
from labeldp.engines.batches import (
    TEXT,
    checked_ids,
    checked_labels,
    class_labels,
    equal_digests,
    label_numbers,
    not_text,
    outside,
    written_as_integers,
)
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of
from labeldp.sampling.ids import digest_ids
from labeldp.tables import csv_text
from labeldp.tables.files import is_text, read_columns, require_columns

EARLY_ROWS = 1 << 23
"""Up to this number of rows, duplicate ids are found before anything is charged. This takes 8 bytes of memory per row."""
_MOST_LINES = 20
"""The maximum number of errors in the list."""
_MOST_PLACES = 3
"""The maximum number of lines or rows given for one error."""
_NOTHING = "Nothing was released or charged"
_REPAIR = "Drop or repair these records"
_NO_NUMBER = "Labels must be numbers, with a {mark} for decimals and no separator for thousands"
Marks = NDArray[np.bool_]


@contextmanager
def reported_together(source: LabelSource, domain: Domain, out_of_range: OutOfRange) -> Iterator[None]:
    """Raise one `InvalidInput` that lists all errors of the input, if the block raises one.

    An error that is not about records, such as a missing column, is raised unchanged.
    """
    try:
        yield
    except InvalidInput:
        report = _Report(source, domain, out_of_range)
        try:
            report.read()
        except (InvalidInput, csv.Error, pa.ArrowException, OSError, EOFError, zlib.error):
            report.faults.clear()  # the file itself is damaged, which the first error reports
        if not report.faults:
            raise
        raise InvalidInput(report.message()) from None


@dataclass
class _Fault:
    """Records of one file with the same error: their number and the first locations. An error of a whole column has neither."""

    count: int = 0
    places: list[str] = field(default_factory=list)

    def sentence(self, what: str, hint: str) -> str:
        """Return the error and what to do about it."""
        if not self.count:
            return what
        rest = self.count - len(self.places)
        listed = ", ".join(self.places) + (f" and {rest:,} more" if rest else "")
        rows = " (rows count from 1)" if any(place.startswith("row") for place in self.places) else ""
        return f"{count_of(self.count, 'record')} with {what}: {listed}{rows}. {hint}"


@dataclass(frozen=True)
class _Chunk:
    """Some records of a file: the label column, the ids, and the line or row of each record, counted from 1."""

    file: Path
    labels: pa.Array
    ids: pa.Array | None
    numbers: NDArray[np.int64]
    is_text: bool


@dataclass
class _Report:
    """The errors of an input, by file and kind, in the order of detection."""

    source: LabelSource
    domain: Domain
    out_of_range: OutOfRange
    faults: dict[tuple[Path, str, str], _Fault] = field(default_factory=dict)
    records: int = 0
    clipped: int = 0
    plain: bool = True
    """Whether all deciding ids of text files are written as integers."""

    def read(self) -> None:
        """Read the whole input."""
        key = os.urandom(32)
        digests: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []
        places: list[tuple[Path, bool, NDArray[np.int64]]] = []
        for chunk in self._chunks():
            self._check_labels(chunk)
            if chunk.ids is not None:
                good = self._check_ids(chunk)
                if good is not None and self.records <= EARLY_ROWS:
                    found = digest_ids(chunk.ids.filter(pa.array(good)), key)
                    digests.append((found.low, found.high))
                    places.append((chunk.file, chunk.is_text, chunk.numbers[good]))
            self.records += chunk.numbers.size
        if digests and self.records <= EARLY_ROWS:
            self._check_repeated(digests, places)

    def message(self) -> str:
        """Return the whole report."""
        lines = [f"{file}: {fault.sentence(what, hint)}" for (file, what, hint), fault in self.faults.items()]
        if self.out_of_range == "clip":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    self.domain.judge_clipping(self.clipped, self.records)
                except InvalidInput as refusal:
                    lines.append(str(refusal))
        if len(lines) == 1:
            return f"{lines[0].rstrip('.')}. {_NOTHING}"
        more = [f"and {len(lines) - _MOST_LINES:,} more"] if len(lines) > _MOST_LINES else []
        return "\n".join([f"the input has {len(lines):,} faults. {_NOTHING}:", *lines[:_MOST_LINES], *more])

    def _note(self, file: Path, what: str, hint: str = "", places: Sequence[str] = (), count: int = 0) -> None:
        """Note records of a file, or an error of a whole column."""
        fault = self.faults.setdefault((file, what, hint), _Fault())
        fault.count += count
        fault.places += places[: _MOST_PLACES - len(fault.places)]

    def _add(self, chunk: _Chunk, marks: Marks, what: str, hint: str = _REPAIR) -> None:
        """Note the marked records."""
        if count := int(np.count_nonzero(marks)):
            noun = "line" if chunk.is_text else "row"
            found = [f"{noun} {number}" for number in chunk.numbers[marks][:_MOST_PLACES].tolist()]
            self._note(chunk.file, what, hint, found, count)

    def _check_labels(self, chunk: _Chunk) -> None:
        name = repr(self.source.label_column)
        if self.source.classes is not None:
            given = class_labels(chunk.labels)
            wrong = np.isnan(known_positions(given, self.source.classes))
            what = no_class(rates=are_rates(given[wrong]), classes=self.source.classes)
            self._add(chunk, wrong, f"a label in {name} that is of no class", f"They are {what}")
            return
        if chunk.is_text:
            values, usable = self._check_label_texts(chunk, name)
        else:
            try:
                checked_labels(chunk.labels[:0], self.source.label_column, 0, chunk.file, self.source.unit)
            except InvalidInput as refusal:  # about the type of the column
                self._note(chunk.file, str(refusal).removeprefix(f"{chunk.file}: "))
                return
            usable = np.asarray(chunk.labels.is_valid())
            self._add(chunk, ~usable, f"a missing label in {name}")
            values = np.zeros(usable.size)
            values[usable] = label_numbers(chunk.labels.drop_null(), self.source.unit, name)
        finite = np.isfinite(values)
        self._add(chunk, ~finite, f"a label in {name} that is not finite (NaN or infinity)")
        usable &= finite
        if self.domain.whole:
            between = usable & (values != np.rint(values))
            hint = (
                "The bounds are whole numbers. Is it the right column? For other numbers, use privatize --lower --upper"
            )
            self._add(chunk, between, f"a label in {name} that is not a whole number", hint)
        beyond = usable & outside(values, self.domain)
        self.clipped += int(np.count_nonzero(beyond))
        if self.out_of_range == "error":
            bounds = f"{self.domain.lower:g} to {self.domain.upper:g}"
            hint = "Widen the bounds, or move such labels to them with --out-of-range clip"
            self._add(chunk, beyond, f"a label in {name} outside the bounds {bounds}", hint)

    def _check_label_texts(self, chunk: _Chunk, name: str) -> tuple[Floats, Marks]:
        found = csv_text.parse_numbers(chunk.labels, self.source.decimal)
        self._add(chunk, found.missing, f"a missing label in {name}")
        hint = "Give --decimal , or write decimals with a point"
        self._add(chunk, found.comma, f"a decimal comma in {name}", hint)
        hint = _NO_NUMBER.format(mark="comma" if self.source.decimal == "," else "point")
        self._add(chunk, found.other, f"a label in {name} that is not a number", hint)
        values = found.values
        if found.comma.any():  # parsed as after the suggested fix, so that one report is enough
            values = np.where(found.comma, csv_text.parse_numbers(chunk.labels, ",").values, values)
        return values, ~(found.missing | found.other)

    def _check_ids(self, chunk: _Chunk) -> Marks | None:
        """Note the errors of the ids and return which ids are valid. Return None if the column cannot contain ids."""
        assert chunk.ids is not None
        assert self.source.id_column is not None
        name = repr(self.source.id_column)
        try:
            checked_ids(chunk.ids[:0], self.source.id_column, 0, chunk.file, None)
        except InvalidInput as refusal:  # about the type of the column
            self._note(chunk.file, str(refusal).removeprefix(f"{chunk.file}: "))
            return None
        good = np.asarray(chunk.ids.is_valid())
        if chunk.is_text:
            good &= np.asarray(pc.not_equal(chunk.ids, ""))
        self._add(chunk, ~good, f"no id in {name}")
        if pa.types.is_integer(chunk.ids.type):
            return good
        strange = np.zeros(good.size, np.bool_)
        strange[good] = not_text(chunk.ids.filter(pa.array(good)).cast(TEXT))
        if chunk.is_text:  # the file was decoded with a replacement for such bytes
            strange |= np.asarray(pc.match_substring(chunk.ids, "\ufffd"))
        self._add(chunk, good & strange, f"an id in {name} that is not UTF-8 text")
        good &= ~strange
        self._check_integers(chunk, good, name)
        return good

    def _check_integers(self, chunk: _Chunk, good: Marks, name: str) -> None:
        broken = good.copy()
        broken[good] = ~np.asarray(written_as_integers(chunk.ids.filter(pa.array(good)).cast(TEXT)))  # type: ignore[union-attr]
        deciding = self.source.id_type is None and self.records < DECIDING_ROWS
        if deciding:
            self.plain &= chunk.is_text and not broken.any()
        elif self.source.id_type == "int" or (self.source.id_type is None and self.plain):
            hint = "Give --id-type str to read all ids as text"
            self._add(chunk, broken, f"an id in {name} that is not a plain 64-bit integer", hint)

    def _check_repeated(
        self,
        digests: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]],
        places: list[tuple[Path, bool, NDArray[np.int64]]],
    ) -> None:
        low, high = (np.concatenate(words) for words in zip(*digests, strict=True))
        pairs = equal_digests(low, high)
        ends = np.cumsum([numbers.size for _, _, numbers in places])

        def place(record: int) -> tuple[Path, str]:
            part = int(np.searchsorted(ends, record, side="right"))
            file, is_text, numbers = places[part]
            number = int(numbers[record - (int(ends[part - 1]) if part else 0)])
            return file, f"{'line' if is_text else 'row'} {number}"

        what = f"an id in {self.source.id_column!r} that an earlier record has too"
        hint = "Two records with one id would share their randomness and reveal whether their labels differ. Remove or combine them"
        for later, earlier in pairs:
            (file, here), (other, there) = place(later), place(earlier)
            first = there if other == file else f"{there} of {other}"
            self._note(file, what, hint, [f"{here} (as {first})"], 1)

    def _chunks(self) -> Iterator[_Chunk]:
        source = self.source
        wanted = [source.label_column] if source.id_column is None else [source.label_column, source.id_column]
        for file in source.files():
            if is_text(file):
                yield from self._text_chunks(file, wanted)
                continue
            first = 1
            for batch in read_columns(file, wanted, None):
                numbers = np.arange(first, first + batch.num_rows)
                ids = None if source.id_column is None else batch.column(source.id_column)
                if ids is not None and pa.types.is_dictionary(ids.type):
                    ids = ids.dictionary_decode()
                yield _Chunk(file, batch.column(source.label_column), ids, numbers, is_text=False)
                first += batch.num_rows

    def _text_chunks(self, file: Path, wanted: list[str]) -> Iterator[_Chunk]:
        sign = csv_text.delimiter_of(file) if self.source.delimiter is None else self.source.delimiter
        names = csv_text.header(file, sign)
        require_columns(wanted, names, file)
        for columns, lines, ragged in csv_text.numbered_records(file, sign, wanted):
            if ragged:
                what = f"more or fewer columns than the header line, which has {len(names):,}"
                split = (
                    "A decimal comma splits a number in two: quote it or use another delimiter. " if sign == "," else ""
                )
                hint = f"{split}Every row needs the columns of the header line"
                self._note(file, what, hint, [f"line {one}" for one in ragged], len(ragged))
            yield _Chunk(file, columns[0], columns[1] if len(columns) > 1 else None, lines, is_text=True)
