"""One join of two files by id. Errors give rows and kinds, and show no id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.artifact.labels_file import id_kind
from labeldp.errors import InvalidInput

_WORDS = {"int": "whole numbers", "str": "text"}


def match_ids(
    wanted: pa.Array, held: pa.Array, wanted_in: object, held_in: object, *, distinct: bool = False
) -> NDArray[np.int64]:
    """Return the row in `held` of each wanted id, or −1. O(rows) time and memory.

    Ids in `held` that are not wanted may repeat. To join a features table to a message, the ids of the message are the wanted ones.

    Parameters
    ----------
    wanted, held : pyarrow.Array
        Ids without nulls, integers or text.
    wanted_in, held_in : object
        What errors call the two files.
    distinct : bool
        Whether the wanted ids are known to be different.

    Raises
    ------
    InvalidInput
        If the ids are of different kinds, or if a wanted id occurs twice in either file.
    """
    kinds = id_kind(wanted.type), id_kind(held.type)
    if kinds[0] != kinds[1]:
        raise InvalidInput(
            f"the ids of {wanted_in} are {_WORDS.get(kinds[0], kinds[0])} and those of {held_in} are {_WORDS.get(kinds[1], kinds[1])}: "
            "convert them to the same type, or give --id-type str"
        )
    if wanted.type != held.type:  # int64 and uint64, of which neither holds the other
        wanted, held = wanted.cast(pa.large_string()), held.cast(pa.large_string())
    if not distinct:
        own = _places(wanted, wanted)
        _refuse_twice(own, np.arange(own.size), wanted_in)
    places = _places(held, wanted)
    rows = np.flatnonzero(places >= 0)
    _refuse_twice(places[rows], rows, held_in)
    found = np.full(len(wanted), -1, np.int64)
    found[places[rows]] = rows
    return found


def _places(ids: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """Return the first place of each id among others, or −1."""
    found = pc.fill_null(pc.index_in(ids, value_set=among), -1)
    return np.asarray(found).astype(np.int64)


def _refuse_twice(places: NDArray[np.int64], rows: NDArray[np.int64], where: object) -> None:
    times = np.bincount(places) if places.size else np.zeros(1, np.int64)
    if times.max() > 1:
        first, second = rows[places == np.argmax(times)][:2]
        raise InvalidInput(
            f"{where}: rows {first} and {second} (rows count from 0) have the same id, and each record must be there once: combine "
            "these rows or drop all but one"
        )
