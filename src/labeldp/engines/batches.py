"""Checks and draws for one batch of records, shared by all engines: valid id and label columns, errors that name rows, and the fingerprint by which a
release recognises its input.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrays import Floats, are_rates, duration_numbers, known_positions, no_class
from labeldp.artifact.labels_file import code_dtype
from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput, described
from labeldp.formatting import count_of
from labeldp.mechanisms import FiniteMechanism
from labeldp.sampling import BoundRandomness, IdDigests, KeyedRandomness
from labeldp.sampling.ids import numbers_in, text_buffers
from labeldp.sampling.multiset import MultisetHash
from labeldp.sampling.table import Words

TEXT = pa.large_string()
"""The type of all text ids. Its 64-bit offsets do not overflow, even for long ids."""
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
"""The numeric types of label columns, apart from durations."""
_INTEGER_TEXTS = {
    pa.int64(): (r"^(0|-?[1-9][0-9]{0,18})$", ("9223372036854775807", "-9223372036854775808")),
    pa.uint64(): (r"^(0|[1-9][0-9]{0,19})$", ("18446744073709551615",)),
}
"""The text form of an integer of each type, and the limits for the longest ones."""
CACHED_ROWS = 1 << 16
"""The number of rows drawn at a time, so that intermediate results stay in the cache."""


def label_numbers(column: pa.Array, unit: str | None, name: str) -> Floats:
    """Return labels without missing values as float64: numbers unchanged, durations in `unit`, booleans as 0 and 1."""
    if pa.types.is_duration(column.type):
        return duration_numbers(np.asarray(column.to_numpy(zero_copy_only=False)), unit, name)
    return numbers_in(column.cast(pa.float64(), safe=False))


def class_labels(column: pa.Array) -> NDArray[Any]:
    """Return a column of classes as an array: text, numbers, booleans, and None for missing ones."""
    decoded = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return np.array(decoded.to_pylist(), object)


def checked_labels(
    column: pa.Array,
    name: str,
    first: int,
    file: Path | str,
    unit: str | None = None,
    classes: tuple[str, ...] | None = None,
) -> Floats:
    """Return a label column as finite float64. Its first row is row `first` of the input.

    Durations become numbers in `unit`, and plain numbers are assumed to be in it. Booleans become 0 and 1, and
    `classes` become their indices.
    """
    if classes is not None:
        given = class_labels(column)
        found = known_positions(given, classes)
        if (wrong := np.isnan(found)).any():
            shown = ", ".join(f"row {row + first + 1}" for row in np.flatnonzero(wrong)[:3])
            are = f"{shown} (rows count from 1) {'is' if wrong.sum() == 1 else 'are'} {no_class(rates=are_rates(given[wrong]), classes=classes)}"
            raise InvalidInput(f"{file}: the labels in {name!r} must be of {len(classes)} classes: {are}")
        return found
    kind = column.type
    durations = pa.types.is_duration(kind)
    if not (durations or any(is_kind(kind) for is_kind in _NUMBERS)):
        raise InvalidInput(f"{file}: the label column {name!r} contains {kind}, not numbers. Convert it first.")
    if column.null_count:
        rows = np.flatnonzero(np.asarray(column.is_null()))[:3] + first + 1
        raise InvalidInput(
            f"{file}: the label column {name!r} has {count_of(column.null_count, 'missing value')} in row "
            f"{', '.join(map(str, rows))} "
            "(rows count from 1). Drop or repair these records first."
        )
    labels = label_numbers(column, unit, f"{file}: the labels in {name!r}")
    if durations:
        return labels
    bad = ~np.isfinite(labels)
    if bad.any():
        shown = ", ".join(f"row {row + first + 1}" for row in np.flatnonzero(bad)[:3])
        raise InvalidInput(
            f"{file}: labels must be finite numbers, but {name!r} has NaN or infinity in {shown} (rows count from 1). Drop or "
            "repair these records first."
        )
    return labels


def check_columns(label: str, ids: str | None, id_type: str | None, persons: str | None = None) -> None:
    """Raise `InvalidInput` if the label column is also the id or person column, or the id type is unknown."""
    if persons is not None and persons == label:
        raise InvalidInput(
            f"the label column {label!r} cannot be the column of persons too: labels would decide which rows are chosen"
        )
    if id_type is not None and not (isinstance(id_type, str) and id_type in ("int", "str")):
        raise InvalidInput(f'id_type must be "int" or "str", got {described(id_type)}')
    if ids == label:
        raise InvalidInput(
            f"the label column {label!r} cannot be the id column too: the message shows the ids unchanged. Name another id column"
        )


def check_boolean_bounds(kind: str, domain: Domain) -> None:
    """Raise `InvalidInput` if a label column of the type `kind` contains booleans and the bounds are not 0 and 1."""
    if kind == str(pa.bool_()) and (domain.lower, domain.upper) != (0, 1):
        raise InvalidInput(
            f"the labels are booleans, which become 0 and 1, but the bounds are {domain.lower:g} to {domain.upper:g}. Is the label "
            "column the right one? If so, use the bounds 0 and 1 (privatize --integers 0:1)"
        )


def checked_ids(
    column: pa.Array,
    name: str,
    first: int,
    file: Path | str,
    wanted: str | None,
    *,
    text_file: bool = False,
    noun: str = "id",
) -> pa.Array:
    """Return an id column as int64, uint64 or `TEXT`, without nulls. Its first row is row `first` of the input.

    `noun` is the name of an id in errors.

    `wanted` ("int" or "str") converts the ids if that is lossless. A text file contains only text, and an empty field
    in it is a missing id. Without `wanted`, its ids become integers if all of them are written as plain integers.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(TEXT)
    elif pa.types.is_integer(kind):
        column = column if kind == pa.uint64() else column.cast(pa.int64())
    elif not pa.types.is_large_string(kind):
        raise InvalidInput(
            f"{file}: the {noun} column {name!r} contains {kind}; {noun}s must be integers or text. Convert it first."
        )
    missing = column.is_null() if column.null_count else np.diff(text_buffers(column)[1]) == 0 if text_file else None
    if missing is not None and (rows := np.flatnonzero(np.asarray(missing))).size:
        raise InvalidInput(
            f"{file}: the {noun} column {name!r} has no {noun} in row {rows[0] + first + 1} (rows count from 1). Drop or repair these records first"
        )
    if not pa.types.is_integer(column.type) and (bad := not_text(column)).any():
        raise InvalidInput(
            f"{file}: the {noun} in row {int(np.argmax(bad)) + first + 1} (rows count from 1) of {name!r} is not UTF-8 text. "
            "Drop or repair these records first"
        )
    if wanted == "str":
        return column.cast(TEXT)
    if wanted == "int":
        return _integers(column, name, first, file, noun)
    numbers = plain_integers(column) if text_file else None
    return column if numbers is None else numbers


def not_text(ids: pa.Array) -> NDArray[np.bool_]:
    """Return which ids are not UTF-8. Parquet and Spark accept any bytes as text, and readers of the message could not decode them."""
    bad = np.zeros(len(ids), np.bool_)
    try:
        ids.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(ids.cast(pa.large_binary()).to_pylist()):
            try:
                value.decode()
            except UnicodeDecodeError:
                bad[row] = True
    return bad


def plain_integers(texts: pa.Array) -> pa.Array | None:
    """Return the texts as int64 if the conversion is lossless for all of them, else None."""
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if numbers.cast(texts.type).equals(texts) else None


def written_as_integers(column: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Return which texts convert without loss to an integer of the type `kind`, int64 (the default) or uint64.

    7 and -7 do, but not 007, +7, -0, 7.0, or numbers beyond 64 bits.
    """
    pattern, limits = _INTEGER_TEXTS[pa.int64() if kind is None else kind]
    plain = pc.match_substring_regex(column, pattern)
    lengths = pc.binary_length(column)
    for limit in limits:  # texts of equal length compare like their numbers
        as_long = pc.equal(lengths, len(limit))
        if pc.any(as_long).as_py():
            too_large = pc.and_(as_long, pc.greater(column, limit))
            plain = pc.and_not(plain, too_large)
    return plain


def _integers(column: pa.Array, name: str, first: int, file: Path | str, noun: str) -> pa.Array:
    if pa.types.is_integer(column.type):
        fits = np.asarray(column) <= np.iinfo(np.int64).max
        if not fits.all():
            raise InvalidInput(
                f"{file}: the {noun} in row {int(np.argmin(fits)) + first + 1} (rows count from 1) of {name!r} is too large for int. "
                "Give --id-type str"
            )
        return column.cast(pa.int64())
    numbers = plain_integers(column)
    if numbers is None:
        row = int(np.argmin(np.asarray(written_as_integers(column))))
        raise InvalidInput(
            f"{file}: the {noun} in row {row + first + 1} (rows count from 1) of {name!r} is not a plain 64-bit integer, as the others "
            f"are. {'Give --id-type str to read all ids as text.' if noun == 'id' else 'Write all of them in one way first.'}"
        )
    return numbers


class FileTypes(NamedTuple):
    """The exact Arrow types of the id and label columns in the input file, by name.

    Checked ids and labels have few types, so different inputs can look equal: an int64 id and another uint64 id have
    the same 64 bits. The names distinguish such inputs.
    """

    ids: str
    labels: str


@dataclass(frozen=True)
class LabelBatch:
    """Consecutive records with checked ids and labels (see `columns`).

    Attributes
    ----------
    ids : pyarrow.Array
        One id per record, without nulls: int64, uint64 or large_string.
    labels : array of float64
        One finite label per record.
    first_row : int
        The number of the first record in the whole input, from 0.
    types : FileTypes
        The types of the two columns in the file.
    persons : pyarrow.Array or None
        The person of each record, if there is a column of persons: like ids, but repeated.
    """

    ids: pa.Array
    labels: Floats
    first_row: int
    types: FileTypes
    persons: pa.Array | None = None

    def chosen(self, mask: NDArray[np.bool_]) -> "LabelBatch":
        """Return the records of the mask, without persons."""
        return LabelBatch(self.ids.filter(pa.array(mask)), self.labels[mask], self.first_row, self.types)


def repeated_id(rows: Sequence[int], outcome: str) -> InvalidInput:
    """Return the error for an id that occurs in these rows, if they are known. It hides the id, which may be a label by mistake."""
    where = (
        f"rows {rows[0] + 1} and {rows[1] + 1} have the same one (rows count from 1)"
        if len(rows) > 1
        else "one is repeated"
    )
    return InvalidInput(
        f"ids must be unique, but {where}. Two records with the same id would share their randomness and reveal whether their labels "
        f"differ: remove or combine them. {outcome}"
    )


def equal_digests(low: NDArray[np.uint64], high: NDArray[np.uint32]) -> list[tuple[int, int]]:
    """Return the pairs (later, earlier) of records whose ids have the same 96 bits, in the order of the later ones.

    Two different texts have the same bits with a probability of about 2^-50 among 2^23 ids.
    """
    order = np.argsort(low, kind="stable")
    if not (low[order[1:]] == low[order[:-1]]).any():
        return []
    order = np.lexsort((high, low))  # stable, so the first record with an id comes first
    same = np.flatnonzero((low[order[1:]] == low[order[:-1]]) & (high[order[1:]] == high[order[:-1]]))
    return sorted((int(order[one + 1]), int(order[one])) for one in same.tolist())


def outside(labels: Floats, domain: Domain) -> NDArray[np.bool_]:
    """Return which labels lie outside the bounds."""
    return (labels < domain.lower) | (labels > domain.upper)


def count_outside(batch: LabelBatch, domain: Domain, out_of_range: OutOfRange) -> int:
    """Return the number of labels outside the bounds. With `out_of_range="error"`, raise `InvalidInput` for the first of them.

    Raise `InvalidInput` also for labels between whole numbers, if the bounds are whole numbers.
    """
    check_boolean_bounds(batch.types.labels, domain)
    domain.require_whole(batch.labels, batch.first_row)
    beyond = outside(batch.labels, domain)
    if out_of_range == "error" and beyond.any():
        row = int(np.argmax(beyond))
        raise InvalidInput(
            f"labels must lie from {domain.lower:g} to {domain.upper:g}, but the one in row {batch.first_row + row + 1} (rows "
            "count from 1) does not. Widen the bounds, or move such labels to them with --out-of-range clip."
        )
    return int(np.count_nonzero(beyond))


def draw_batch(
    batch: LabelBatch, mechanism: FiniteMechanism, domain: Domain, randomness: KeyedRandomness | BoundRandomness
) -> tuple[IdDigests, NDArray[Any]]:
    """Return the digests of the ids and one code per record.

    Privacy: the engine must abort the whole release if two digests are equal, in this batch or across batches. They are
    not compared here.
    """
    digests = randomness.id_digests(batch.ids, digest=mechanism.digest_bytes)
    unchecked = IdDigests(digests.high, digests.low, digests.kind, distinct=True)
    codes = np.empty(batch.labels.size, code_dtype(mechanism.outputs.size))
    for start in range(0, codes.size, CACHED_ROWS):
        rows = slice(start, start + CACHED_ROWS)
        labels = np.clip(batch.labels[rows], domain.lower, domain.upper)
        codes[rows] = mechanism.draw(labels, randomness, unchecked[rows])
    return digests, codes


class InputFingerprint:
    """A keyed hash of ids, labels and their exact types. Equal records give equal results, in any order and in any batches.

    The order does not matter: every draw is a function of the key, the release and the record, so the same records in
    another order are the same release. The fingerprint is as sensitive as the labels and never released. Inputs whose draws differ have different fingerprints: −1 as int64 and 2^64 − 1
    as uint64 have the same 64 bits, but `MultisetHash` distinguishes them. The types in the file are hashed together
    with their records.
    """

    def __init__(self, key: bytes) -> None:
        self._subkeys = fingerprint_subkeys(key)
        self._hashes: dict[tuple[str, ...], MultisetHash] = {}

    def add(self, batch: LabelBatch, persons: Words | None = None) -> IdDigests:
        """Add records, with the words of their persons if there are any. Return the digests of their ids under a key of this fingerprint."""
        types = (str(batch.ids.type), *batch.types, *(() if persons is None else ("persons",)))
        if types not in self._hashes:
            self._hashes[types] = MultisetHash.from_subkeys(self._subkeys)
        return self._hashes[types].add(batch.ids, batch.labels, persons)

    def digests(self, ids: Any) -> IdDigests:
        """Return the digests that `add` returns for these ids."""
        return MultisetHash.from_subkeys(self._subkeys).digests(ids)

    def hexdigest(self) -> str:
        """Return the fingerprint of all records so far."""
        return typed_digest(self._hashes)


def fingerprint_subkeys(key: bytes) -> bytes:
    """Return the subkeys with which a worker can hash its part of an input. They do not reveal the key."""
    return MultisetHash.subkeys(hmac.digest(key, b"labeldp input fingerprint 1", "sha256"))


def typed_digest(hashes: Mapping[tuple[str, ...], MultisetHash]) -> str:
    """Return one digest of hashes of records by their types. It reveals nothing without the key, because each part is an HMAC."""
    parts = sorted((*types, records.hexdigest()) for types, records in hashes.items() if records.rows)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
