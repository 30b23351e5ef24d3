"""Checks of a release's input: ids are unique, the input is the same each time it is read, and the paths make sense."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.domain import Domain
from labeldp.engines.arrow.engine import Scan
from labeldp.engines.arrow.source import PARQUET_SUFFIXES, LabelSource, count_rows
from labeldp.engines.batches import LabelBatch, repeated_id
from labeldp.engines.fingerprint import InputFingerprint
from labeldp.errors import InvalidInput
from labeldp.message.labels_file import check_id_name
from labeldp.sampling.ids import digest_ids

EARLY_ROWS = 1 << 23
"""Up to so many rows, repeated ids are found before anything is charged. It takes 8 bytes of memory per row."""


Step = Callable[[Iterator[LabelBatch]], Iterator[LabelBatch]]
"""Something that is done with the batches as they are read. A check passes them on and raises if it finds a fault."""


@dataclass(frozen=True)
class SourceWithSteps(LabelSource):
    """A source whose batches go through some steps, anew each time it is read."""

    steps: tuple[Step, ...] = ()

    def batches(self) -> Iterator[LabelBatch]:
        batches = super().batches()
        for step in self.steps:
            batches = step(batches)
        return batches


def with_step(source: LabelSource, step: Step) -> LabelSource:
    """`source` with one more step."""
    known = {field.name: getattr(source, field.name) for field in fields(source)}
    return SourceWithSteps(**known | {"steps": (*known.get("steps", ()), step)})


def with_integer_type(source: LabelSource, kind: pa.DataType) -> LabelSource:
    """The source with integer ids cast to `kind`, the type that they have in the message."""

    def cast(batches: Iterator[LabelBatch]) -> Iterator[LabelBatch]:
        for batch in batches:
            try:
                ids = batch.ids.cast(kind) if pa.types.is_integer(batch.ids.type) else batch.ids
            except pa.ArrowInvalid:
                raise InvalidInput(
                    f"{source.path}: some ids from row {batch.first_row} on do not fit into {kind}, the type of the "
                    "message's ids. Only a new release can hold them"
                ) from None  # it shows an id
            yield replace(batch, ids=ids)

    return with_step(source, cast)


def in_unit(source: LabelSource, domain: Domain) -> LabelSource:
    """The source, which reads durations in the unit of the domain."""
    if source.unit not in (None, domain.unit):
        raise InvalidInput(
            f"the source's unit is {source.unit}, but that of the bounds is {domain.unit or 'not named'}: name it once, in the "
            f'domain, as in Domain({domain.lower:g}, {domain.upper:g}, unit="{source.unit}")'
        )
    return replace(source, unit=domain.unit)


def without_duplicates(source: LabelSource, rows: int | None) -> LabelSource:
    """The source, which refuses repeated ids before anything is charged, if it has at most `EARLY_ROWS` rows.

    The engine finds repeated ids in inputs of any size, but only while it randomizes. By then the release is charged.
    `rows` is the number of rows, if known.
    """

    def check(batches: Iterator[LabelBatch]) -> Iterator[LabelBatch]:
        key, seen = os.urandom(32), 0
        words: list[NDArray[np.uint64]] = []
        for batch in batches:
            seen += len(batch.ids)
            if max(seen, rows or 0) > EARLY_ROWS:
                words.clear()
            else:
                words.append(digest_ids(batch.ids, key).low)
            yield batch
        ordered = np.sort(np.concatenate(words or [np.empty(0, np.uint64)]))
        words.clear()
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if repeated.size:
            _refuse_duplicates(source, key, np.unique(repeated))

    return source if source.id_column is None else with_step(source, check)


def _refuse_duplicates(source: LabelSource, key: bytes, suspects: NDArray[np.uint64]) -> None:
    """Reads the ids again and compares them, since 64 bits of two text ids may agree by chance."""
    rows: dict[object, int] = {}
    for batch in source.batches():
        for index in np.flatnonzero(np.isin(digest_ids(batch.ids, key).low, suspects)).tolist():
            value, row = batch.ids[index].as_py(), batch.first_row + index
            if value in rows:
                raise repeated_id([rows[value], row], "Nothing was released or charged")
            rows[value] = row


def unchanged(source: LabelSource, scanned: Scan, key: bytes, advice: str) -> LabelSource:
    """The source, which refuses if it differs from what was scanned, before anything drawn from it can be published.

    Under one release, an id must never be drawn with two labels. A release is resumed by the fingerprint from its scan, so
    the labels that are randomized must be those that were scanned, even if somebody writes to the file in between. The same
    goes for the labels that are counted: a prior of other labels than those that are checked is not what was asked for.
    `key` is the key of the scan, and `advice` says what to do after a refusal.
    """

    def check(batches: Iterator[LabelBatch]) -> Iterator[LabelBatch]:
        changed = InvalidInput(f"{source.path} changed while it was read. Nothing was released. {advice}")
        fingerprint = InputFingerprint(key)
        for batch in batches:
            if batch.ids.type != scanned.id_type:  # what comes next was made for the type that was scanned
                raise changed
            fingerprint.add(batch)
            yield batch
        if fingerprint.hexdigest() != scanned.input_hmac:
            raise changed

    return with_step(source, check)


def check_paths(source: LabelSource, message: Path, key_file: Path | None) -> None:
    """Refuses paths that would mix up input, message and key, before anything is read."""
    given = Path(source.path)
    if given.exists() and not given.is_file() and not given.is_dir():
        raise InvalidInput(
            f"{given} is not a file or a folder, and the input is read more than once: save it to a file first"
        )
    check_id_name(source.id_name)
    folder = message.absolute().parent
    if not folder.is_dir():
        raise InvalidInput(f"the folder {folder} for the message does not exist: make it first")
    place = folder.resolve() / message.name
    if given.is_dir() and place.is_relative_to(given.resolve()):
        raise InvalidInput(
            f"the message {message} would lie inside the input folder {given} and be read as labels next time: "
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
