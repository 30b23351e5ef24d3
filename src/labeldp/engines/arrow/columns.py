"""What may stand in a label column and in an id column: anything else is refused by its row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrays import Floats
from labeldp.engines.arrow.files import first_line
from labeldp.errors import InvalidInput

TEXT = pa.large_string()
"""The one type of text ids here: its 64-bit offsets never overflow, however long the ids."""


def id_kind(kind: pa.DataType) -> str:
    """Of an id column: "int" or "str"."""
    return "int" if pa.types.is_integer(kind) else "str"


def numbers(column: pa.Array, name: str, first: int, file: Path) -> Floats:
    """A label column as finite float64; its first row is row `first` of the input."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InvalidInput(f"{file}: the label column {name!r} holds {kind}, not numbers. Convert it first.")
    if column.null_count:
        rows = np.flatnonzero(np.asarray(column.is_null()))[:3] + first
        raise InvalidInput(
            f"{file}: the label column {name!r} has {column.null_count} missing values near row {', '.join(map(str, rows))} "
            "(rows count from 0). Drop or repair these records first."
        )
    labels = np.asarray(column.cast(pa.float64(), safe=False))
    bad = ~np.isfinite(labels)
    if bad.any():
        shown = ", ".join(f"row {row + first} ({labels[row]})" for row in np.flatnonzero(bad)[:3])
        raise InvalidInput(
            f"{file}: labels must be finite numbers, but {name!r} has {shown}. Drop or repair these records first."
        )
    return labels


def identifiers(
    column: pa.Array, name: str, first: int, file: Path, wanted: str | None, *, text_file: bool = False
) -> pa.Array:
    """An id column as int64, uint64 or `TEXT`, without nulls; `wanted` ("int" or "str") converts where that loses nothing.

    In a text file everything is text, an empty field is no id, and left open the ids are integers if all are written as such.
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
        raise InvalidInput(f"{file}: the id column {name!r} has no id in row {rows[0] + first} (rows count from 0)")
    if wanted == "str":
        return column.cast(TEXT)
    if wanted == "int":
        return _integers(column, name, first, file)
    return _integers_if_all_are(column) if text_file else column


def _integers(column: pa.Array, name: str, first: int, file: Path) -> pa.Array:
    if pa.types.is_integer(column.type):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"{file}: the ids in {name!r} are too large for int: {first_line(error)}. Give --id-type str"
            ) from error
    plain = _written_as_integers(column)
    if not (every := np.asarray(plain)).all():
        row = int(np.flatnonzero(~every)[0])
        raise InvalidInput(
            f"{file}: the id {column[row].as_py()!r} in row {row + first} (rows count from 0) of {name!r} is not a plain "
            "64-bit integer, as the others are. Give --id-type str to read all ids as text."
        )
    return column.cast(pa.int64())


def _integers_if_all_are(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()) if np.asarray(_written_as_integers(column)).all() else column


def _written_as_integers(column: pa.Array) -> pa.Array:
    """Which texts an int64 would give back unchanged: 7 and -7, but not 007, +7, -0, 7.0, or what 64 bits cannot hold."""
    plain = pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,18})$")
    lengths = pc.binary_length(column)
    for limit in ("9223372036854775807", "-9223372036854775808"):  # texts of one length compare as their numbers do
        as_long = pc.equal(lengths, len(limit))
        if pc.any(as_long).as_py():
            too_large = pc.and_(as_long, pc.greater(column, limit))
            plain = pc.and_not(plain, too_large)
    return plain
