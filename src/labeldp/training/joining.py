"""Labels from a message to the rows of a features table, by id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.message.reader import Message


@dataclass(frozen=True, eq=False)
class Joined:
    """`rows` of the features table have a private label, `codes` are theirs. The rest is counted, on both sides."""

    rows: NDArray[np.int64]
    codes: NDArray[np.uint32]
    without_label: int
    without_features: int


def join(message: Message, ids: Any) -> Joined:
    """Looks up every id of a features table in the message: one hash table over the message, O(rows) time.

    Each record must occur once on either side: a second row with one id would train on the same draw twice.
    """
    wanted = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if isinstance(wanted, pa.ChunkedArray):  # more text than one array holds
        wanted = pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in wanted.chunks])
    released, codes = _released(message)
    wanted = _alike(wanted, released.type, message)
    if wanted.null_count:
        raise InvalidInput(f"{wanted.null_count} rows of the features have no id: drop or repair them first")
    found = pc.index_in(wanted, value_set=released, skip_nulls=True)
    rows = np.flatnonzero(np.asarray(found.is_valid()))
    places = np.asarray(found.drop_null()).astype(np.int64)
    times = np.bincount(places, minlength=len(released))
    if times.size and times.max() > 1:
        twice = released[int(np.argmax(times))].as_py()
        raise InvalidInput(
            f"the features hold the id {twice!r} {int(times.max())} times: one row for each record is needed. "
            "Aggregate or drop the others first"
        )
    if not rows.size:
        raise InvalidInput(
            f"no id of the features is in {message.path}: is the id column right? The message has ids such as "
            f"{released[0].as_py()!r}, the features {wanted[0].as_py()!r}"
            if len(wanted) and len(released)
            else f"no id of the features is in {message.path}: one of the two is empty"
        )
    return Joined(rows, codes[places], len(wanted) - rows.size, len(released) - rows.size)


def _released(message: Message) -> tuple[pa.Array, NDArray[np.uint32]]:
    batches = list(message.batches())
    chunks = [ids.cast(pa.large_string()) if pa.types.is_string(ids.type) else ids for ids, _ in batches]
    ids = pa.concat_arrays(chunks)
    return ids, np.concatenate([codes for _, codes in batches])


def _alike(ids: pa.Array, kind: pa.DataType, message: Message) -> pa.Array:
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    whole = pa.types.is_integer(ids.type)
    if whole != pa.types.is_integer(kind) or not (whole or _is_text(ids.type)):
        raise InvalidInput(
            f"the features' ids are {ids.type} and those of {message.path} are {kind}: convert them to the same type"
        )
    try:
        return ids.cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"the features' ids do not fit the message's type {kind}: {error}") from error


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
