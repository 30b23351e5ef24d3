"""A join of two files by id. Errors give rows and types, but never an id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.errors import InvalidInput


def match_ids(
    wanted: pa.Array, held: pa.Array, wanted_in: object, held_in: object, *, distinct: bool = False
) -> NDArray[np.int64]:
    """Return the row in `held` of each wanted id, or −1. O(rows) time and memory.

    Ids in `held` that are not wanted may repeat. To join features to a message, the ids of the message are the wanted ones.

    Parameters
    ----------
    wanted, held : pyarrow.Array
        Ids without nulls, integers or text.
    wanted_in, held_in : object
        The names of the two files in errors.
    distinct : bool
        Whether the wanted ids are known to be distinct.

    Raises
    ------
    InvalidInput
        If the ids have different types, or if a wanted id occurs twice in either file.
    """
    require_same_kind(wanted.type, held.type, wanted_in, held_in)
    try:
        held = held.cast(wanted.type)
    except pa.ArrowInvalid:  # int64 and uint64: neither includes the other
        wanted, held = wanted.cast(pa.large_string()), held.cast(pa.large_string())
    if not distinct:
        require_distinct(wanted, wanted_in)
    return _found(held, wanted, held_in)


def require_same_kind(wanted: pa.DataType, held: pa.DataType, wanted_in: object, held_in: object) -> None:
    """Raise `InvalidInput` unless two types of ids are of the same kind."""
    kinds = kind_words(wanted), kind_words(held)
    if kinds[0] != kinds[1]:
        raise InvalidInput(
            f"the ids of {wanted_in} are {kinds[0]} and the ids of {held_in} are {kinds[1]}: convert them to the same type. "
            "privatize, cells and sums have --id-type str for that"
        )


def require_distinct(ids: pa.Array, where: object) -> None:
    """Raise `InvalidInput` if an id occurs twice."""
    _found(ids, ids, where)


def _found(ids: pa.Array, among: pa.Array, where: object) -> NDArray[np.int64]:
    """Return the row in `ids` of each id in `among`, or −1. Raise `InvalidInput` if one is in two rows."""
    places = np.asarray(pc.fill_null(pc.index_in(ids, value_set=among), -1)).astype(np.int64)
    rows = np.flatnonzero(places >= 0)
    times = np.bincount(places[rows], minlength=1)
    if times.max() > 1:
        first, second = np.flatnonzero(places == np.argmax(times))[:2]
        raise InvalidInput(
            f"rows {first + 1} and {second + 1} of {where} (rows count from 1) have the same id, which occurs {times.max()} times, but "
            "each record must occur once: combine these rows or drop all but one"
        )
    found = np.full(len(among), -1, np.int64)
    found[places[rows]] = rows
    return found


def kind_words(kind: pa.DataType) -> str:
    """Return the name of an Arrow type of ids in errors."""
    if pa.types.is_integer(kind):
        return "whole numbers"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return "decimal numbers" if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else f"of type {kind}"
