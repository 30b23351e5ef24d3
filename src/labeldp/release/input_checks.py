"""The input of a release is read several times: this sees to it that it is fit for one, and the same every time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.engines.arrow.fingerprint import InputFingerprint
from labeldp.engines.arrow.source import PARQUET_SUFFIXES, LabelBatch, LabelSource, count_rows
from labeldp.errors import InvalidInput
from labeldp.sampling.ids import digest_ids

EARLY_ROWS = 1 << 23
"""Up to so many rows, duplicates are found before anything is charged: 8 bytes of memory each."""


class Observer(Protocol):
    def see(self, batch: LabelBatch) -> None: ...

    def end(self) -> None:
        """The whole input was read; raises if it may not be used."""


@dataclass(frozen=True)
class ObservedSource(LabelSource):
    """A source that shows every batch to an observer. With `integers`, integer ids come out as that very type."""

    observer: Observer | None = None
    integers: pa.DataType | None = None

    @classmethod
    def of(cls, source: LabelSource, observer: Observer | None = None, integers: pa.DataType | None = None) -> Self:
        known = {field.name: getattr(source, field.name) for field in fields(source)}
        return cls(**known | {"observer": observer, "integers": integers or known.get("integers")})

    def batches(self) -> Iterator[LabelBatch]:
        for batch in super().batches():
            seen = self._typed(batch)
            if self.observer is not None:
                self.observer.see(seen)
            yield seen
        if self.observer is not None:
            self.observer.end()

    def _typed(self, batch: LabelBatch) -> LabelBatch:
        if self.integers is None or not pa.types.is_integer(batch.ids.type):
            return batch
        try:
            return LabelBatch(batch.ids.cast(self.integers), batch.labels, batch.first_row)
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"{self.path}: some ids from row {batch.first_row} on do not fit into {self.integers}, the type of the "
                "message's ids. Only a new release can hold them"
            ) from error


class EarlyDuplicates:
    """Refuses an input with a repeated id while nothing is charged yet, up to `EARLY_ROWS` rows.

    The engine finds duplicates in inputs of any size, but only while it randomizes, which has been paid for by then.
    """

    def __init__(self, source: LabelSource, rows: int | None = None) -> None:
        """`rows` is how many there will be, if known."""
        self._source, self._key = source, os.urandom(32)
        self._words: list[NDArray[np.uint64]] = []
        self._rows, self._known = 0, rows or 0

    def see(self, batch: LabelBatch) -> None:
        self._rows += len(batch.ids)
        if max(self._rows, self._known) > EARLY_ROWS:
            self._words.clear()
        elif self._source.id_column is not None:
            self._words.append(digest_ids(batch.ids, self._key).low)

    def end(self) -> None:
        if not self._words:
            return
        words = np.sort(np.concatenate(self._words))
        self._words.clear()
        repeated = words[1:][words[1:] == words[:-1]]
        if repeated.size:
            self._refuse(np.unique(repeated))

    def _refuse(self, suspects: NDArray[np.uint64]) -> None:
        """64 bits of two text ids may agree by chance: the ids themselves decide, read once more."""
        rows: dict[object, int] = {}
        for batch in self._source.batches():
            for index in np.flatnonzero(np.isin(digest_ids(batch.ids, self._key).low, suspects)).tolist():
                value, row = batch.ids[index].as_py(), batch.first_row + index
                if value in rows:
                    raise InvalidInput(
                        f"ids must be unique, but {value!r} stands in rows {rows[value]} and {row} (rows count from 0). Two "
                        "records with one id would share their randomness and reveal whether their labels differ; remove "
                        "or combine them. Nothing was released or charged"
                    )
                rows[value] = row


class SameInput:
    """Refuses an input that is no longer the one that was scanned, before anything drawn from it can be published.

    Under one release an id must never be drawn with two labels. The scan's HMAC is what a release is resumed by, so the
    labels that are randomized must be the labels that were scanned, even if somebody writes to the file in between.
    """

    def __init__(self, path: Path, records: int, key: bytes | None, input_hmac: str | None) -> None:
        self._path, self._expected = path, (records, input_hmac)
        self._fingerprint = None if key is None or input_hmac is None else InputFingerprint(key)
        self._records = 0

    def see(self, batch: LabelBatch) -> None:
        self._records += len(batch.ids)
        if self._fingerprint is not None:
            self._fingerprint.add(batch.ids, batch.labels)

    def end(self) -> None:
        read = None if self._fingerprint is None else self._fingerprint.hexdigest()
        if (self._records, read) != self._expected:
            raise InvalidInput(
                f"{self._path} changed while it was read. Nothing was released. Run again when nobody writes to it: what "
                "was charged is resumed only if the file is again as it was at the beginning"
            )


def check_places(source: LabelSource, message: Path, key_file: Path | None) -> None:
    """Refuses what would mix up input, message and key, before anything is read."""
    if source.path.exists() and not source.path.is_file() and not source.path.is_dir():
        raise InvalidInput(
            f"{source.path} is not a file or a folder, and the input is read more than once: save it to a file first"
        )
    if source.id_name in ("code", "private_label"):
        raise InvalidInput(f"the id column cannot be called {source.id_name!r}, the message uses that name: rename it")
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
            f"the key file {key_file} is inside the message {message} and would be sent along with it; whoever has both can "
            "undo the noise. Move it out first"
        )


def quick_row_count(source: LabelSource) -> int | None:
    """How many records there are, where Parquet's metadata say so; text and streams would have to be read for it."""
    if all(file.suffix.lower() in PARQUET_SUFFIXES for file in source.files()):
        return count_rows(source)
    return None
