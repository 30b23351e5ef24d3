"""What a label column and an id column may hold. Anything else is refused, by its row."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrays import Floats, duration_numbers
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of
from labeldp.sampling.ids import numbers_in

TEXT = pa.large_string()
"""The type of all text ids. Its 64-bit offsets do not overflow, however long the ids are."""
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
"""The types of label columns that are numbers, besides durations."""
_INTEGER_TEXTS = {
    pa.int64(): (r"^(0|-?[1-9][0-9]{0,18})$", ("9223372036854775807", "-9223372036854775808")),
    pa.uint64(): (r"^(0|[1-9][0-9]{0,19})$", ("18446744073709551615",)),
}
"""How an integer of each type is written, and the limits among the longest of them."""


def label_numbers(column: pa.Array, unit: str | None, name: str) -> Floats:
    """Return labels without missing values as float64: numbers as they are, durations in `unit`, booleans as 0 and 1."""
    if pa.types.is_duration(column.type):
        return duration_numbers(np.asarray(column.to_numpy(zero_copy_only=False)), unit, name)
    return numbers_in(column.cast(pa.float64(), safe=False))


def checked_labels(column: pa.Array, name: str, first: int, file: Path | str, unit: str | None = None) -> Floats:
    """Return a label column as finite float64. Its first row is row `first` of the input.

    Durations become numbers in `unit`, and plain numbers are taken to be in it. Booleans become 0 and 1.
    """
    kind = column.type
    durations = pa.types.is_duration(kind)
    if not (durations or any(is_kind(kind) for is_kind in _NUMBERS)):
        raise InvalidInput(f"{file}: the label column {name!r} holds {kind}, not numbers. Convert it first.")
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


def check_boolean_bounds(kind: str, domain: Domain) -> None:
    """Raise `InvalidInput` if a label column of the type `kind` has booleans and the bounds are not 0 and 1."""
    if kind == str(pa.bool_()) and (domain.lower, domain.upper) != (0, 1):
        raise InvalidInput(
            f"the labels are booleans, which become 0 and 1, but the bounds are {domain.lower:g} to {domain.upper:g}. Is the label "
            "column the right one? If so, use the bounds 0 and 1 (privatize --integers 0:1)"
        )


def checked_ids(
    column: pa.Array, name: str, first: int, file: Path | str, wanted: str | None, *, text_file: bool = False
) -> pa.Array:
    """An id column as int64, uint64 or `TEXT`, without nulls. Its first row is row `first` of the input.

    `wanted` ("int" or "str") converts the ids if that loses nothing. A text file holds only text, and an empty field in
    it is a missing id. Without `wanted`, its ids become integers if all of them are written as plain integers.
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
            f"{file}: the id column {name!r} holds {kind}; ids must be integers or text. Convert it first."
        )
    missing = column.is_null() if column.null_count else pc.equal(column, "") if text_file else None
    if missing is not None and (rows := np.flatnonzero(np.asarray(missing))).size:
        raise InvalidInput(
            f"{file}: the id column {name!r} has no id in row {rows[0] + first + 1} (rows count from 1). Drop or repair these records first"
        )
    if not pa.types.is_integer(column.type) and (bad := not_text(column)).any():
        raise InvalidInput(
            f"{file}: the id in row {int(np.argmax(bad)) + first + 1} (rows count from 1) of {name!r} is not UTF-8 text, so nobody "
            "could read it. Drop or repair these records first"
        )
    if wanted == "str":
        return column.cast(TEXT)
    if wanted == "int":
        return _integers(column, name, first, file)
    numbers = plain_integers(column) if text_file else None
    return column if numbers is None else numbers


def not_text(ids: pa.Array) -> NDArray[np.bool_]:
    """Which ids are not UTF-8. Parquet and Spark take any bytes for text, and whoever reads the message would stumble over them."""
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
    """The texts as int64 if that gives all of them back unchanged, else None."""
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if numbers.cast(texts.type).equals(texts) else None


def written_as_integers(column: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Which texts an integer of the type `kind`, int64 or uint64, gives back unchanged. By default it is int64.

    7 and -7, but not 007, +7, -0, 7.0, or what 64 bits cannot hold.
    """
    pattern, limits = _INTEGER_TEXTS[pa.int64() if kind is None else kind]
    plain = pc.match_substring_regex(column, pattern)
    lengths = pc.binary_length(column)
    for limit in limits:  # texts of one length compare as their numbers do
        as_long = pc.equal(lengths, len(limit))
        if pc.any(as_long).as_py():
            too_large = pc.and_(as_long, pc.greater(column, limit))
            plain = pc.and_not(plain, too_large)
    return plain


def _integers(column: pa.Array, name: str, first: int, file: Path | str) -> pa.Array:
    if pa.types.is_integer(column.type):
        fits = np.asarray(column) <= np.iinfo(np.int64).max
        if not fits.all():
            raise InvalidInput(
                f"{file}: the id in row {int(np.argmin(fits)) + first + 1} (rows count from 1) of {name!r} is too large for int. "
                "Give --id-type str"
            )
        return column.cast(pa.int64())
    numbers = plain_integers(column)
    if numbers is None:
        row = int(np.argmin(np.asarray(written_as_integers(column))))
        raise InvalidInput(
            f"{file}: the id in row {row + first + 1} (rows count from 1) of {name!r} is not a plain "
            "64-bit integer, as the others are. Give --id-type str to read all ids as text."
        )
    return numbers
