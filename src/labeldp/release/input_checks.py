"""Checks of a release's input: ids are unique, the input is the same each time it is read, and the paths make sense."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.engines.arrow.engine import Scan
from labeldp.engines.arrow.source import PARQUET_SUFFIXES, LabelSource, count_rows
from labeldp.engines.batches import LabelBatch
from labeldp.engines.fingerprint import InputFingerprint
from labeldp.errors import InvalidInput
from labeldp.message.labels_file import check_id_name
from labeldp.sampling.ids import digest_ids

EARLY_ROWS = 1 << 23
"""Up to so many rows, repeated ids are found before anything is charged. It takes 8 bytes of memory per row."""


class InputCheck(Protocol):
    """A check that sees every batch of an input."""

    def add(self, batch: LabelBatch) -> None:
        """Looks at the next batch."""

    def finish(self) -> None:
        """Called when the whole input was read; raises if the input must not be used."""


@dataclass(frozen=True)
class CheckedSource(LabelSource):
    """A source whose batches pass a new check each time it is read. Integer ids are cast to `integer_type`, if given."""

    new_check: Callable[[], InputCheck] | None = None
    integer_type: pa.DataType | None = None

    @classmethod
    def of(
        cls,
        source: LabelSource,
        new_check: Callable[[], InputCheck] | None = None,
        *,
        integer_type: pa.DataType | None = None,
    ) -> Self:
        """`source` with another check, and with another integer type if one is given."""
        known = {field.name: getattr(source, field.name) for field in fields(source)}
        return cls(**known | {"new_check": new_check, "integer_type": integer_type or known.get("integer_type")})

    def batches(self) -> Iterator[LabelBatch]:
        check = None if self.new_check is None else self.new_check()
        for batch in super().batches():
            typed = self._typed(batch)
            if check is not None:
                check.add(typed)
            yield typed
        if check is not None:
            check.finish()

    def _typed(self, batch: LabelBatch) -> LabelBatch:
        if self.integer_type is None or not pa.types.is_integer(batch.ids.type):
            return batch
        try:
            return LabelBatch(batch.ids.cast(self.integer_type), batch.labels, batch.first_row)
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"{self.path}: some ids from row {batch.first_row} on do not fit into {self.integer_type}, the type of the "
                "message's ids. Only a new release can hold them"
            ) from error


def without_duplicates(source: LabelSource, rows: int | None) -> LabelSource:
    """The source, which refuses repeated ids early. `rows` is its number of rows, if known."""
    return CheckedSource.of(source, lambda: DuplicateCheck(source, rows or 0))


def unchanged(source: LabelSource, scanned: Scan, key: bytes) -> LabelSource:
    """The source that was scanned, which refuses if its records are no longer the same."""
    return CheckedSource.of(source, lambda: UnchangedCheck(source.path, scanned, key))


class DuplicateCheck:
    """Refuses an input with a repeated id before anything is charged, if it has at most `EARLY_ROWS` rows.

    The engine finds repeated ids in inputs of any size, but only while it randomizes. By then the release is charged.
    """

    def __init__(self, source: LabelSource, expected_rows: int) -> None:
        self._source, self._key = source, os.urandom(32)
        self._words: list[NDArray[np.uint64]] = []
        self._rows, self._expected_rows = 0, expected_rows

    def add(self, batch: LabelBatch) -> None:
        """Keeps 64 bits of each id's digest, unless there are too many rows."""
        self._rows += len(batch.ids)
        if max(self._rows, self._expected_rows) > EARLY_ROWS:
            self._words.clear()
        elif self._source.id_column is not None:
            self._words.append(digest_ids(batch.ids, self._key).low)

    def finish(self) -> None:
        """Looks for equal digests."""
        if not self._words:
            return
        words = np.sort(np.concatenate(self._words))
        self._words.clear()
        repeated = words[1:][words[1:] == words[:-1]]
        if repeated.size:
            self._compare_ids(np.unique(repeated))

    def _compare_ids(self, suspects: NDArray[np.uint64]) -> None:
        """Reads the ids again and compares them, since 64 bits of two text ids may agree by chance."""
        rows: dict[object, int] = {}
        for batch in self._source.batches():
            for index in np.flatnonzero(np.isin(digest_ids(batch.ids, self._key).low, suspects)).tolist():
                value, row = batch.ids[index].as_py(), batch.first_row + index
                if value in rows:
                    raise InvalidInput(
                        f"ids must be unique, but {value!r} stands in rows {rows[value]} and {row} (rows count from 0). Two "
                        "records with one id would share their randomness and reveal whether their labels differ: remove "
                        "or combine them. Nothing was released or charged"
                    )
                rows[value] = row


class UnchangedCheck:
    """Refuses an input that differs from the one that was scanned, before anything drawn from it can be published.

    Under one release, an id must never be drawn with two labels. A release is resumed by the fingerprint from its scan, so
    the labels that are randomized must be those that were scanned, even if somebody writes to the file in between.
    """

    def __init__(self, path: Path, scanned: Scan, key: bytes) -> None:
        self._path, self._expected = path, (scanned.records, scanned.input_hmac)
        self._fingerprint = None if scanned.input_hmac is None else InputFingerprint(key)
        self._records = 0

    def add(self, batch: LabelBatch) -> None:
        """Counts the records and adds them to the fingerprint."""
        self._records += len(batch.ids)
        if self._fingerprint is not None:
            self._fingerprint.add(batch.ids, batch.labels)

    def finish(self) -> None:
        """Compares with the scan."""
        read = None if self._fingerprint is None else self._fingerprint.hexdigest()
        if (self._records, read) != self._expected:
            raise InvalidInput(
                f"{self._path} changed while it was read. Nothing was released. Run again when nobody writes to the file. A "
                "release that was charged is resumed only if the file is again as it was at the beginning"
            )


def check_paths(source: LabelSource, message: Path, key_file: Path | None) -> None:
    """Refuses paths that would mix up input, message and key, before anything is read."""
    if source.path.exists() and not source.path.is_file() and not source.path.is_dir():
        raise InvalidInput(
            f"{source.path} is not a file or a folder, and the input is read more than once: save it to a file first"
        )
    check_id_name(source.id_name)
    folder = message.absolute().parent
    if not folder.is_dir():
        raise InvalidInput(f"the folder {folder} for the message does not exist: make it first")
    place = folder.resolve() / message.name
    if source.path.is_dir() and place.is_relative_to(source.path.resolve()):
        raise InvalidInput(
            f"the message {message} would lie inside the input folder {source.path} and be read as labels next time: "
            "choose a place outside"
        )
    if key_file is not None and key_file.resolve().is_relative_to(place):
        raise InvalidInput(
            f"the key file {key_file} is inside the message {message} and would be sent along with it. Whoever has both can "
            "undo the noise: move the key file out first"
        )


def quick_row_count(source: LabelSource) -> int | None:
    """The number of records if Parquet's metadata tell it, else None. Other formats would have to be read for it."""
    if all(file.suffix.lower() in PARQUET_SUFFIXES for file in source.files()):
        return count_rows(source)
    return None
