"""Find the private label of each row of a features table by its id."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.errors import InvalidInput, expect
from labeldp.features.tables import FeatureTable, is_text, one_array
from labeldp.message.reader import Message


@dataclass(frozen=True, eq=False)
class Joined:
    """The rows of a features table that have a private label in a message; made by `join`.

    Attributes
    ----------
    rows : array of int
        The positions of these rows in the table, in increasing order.
    codes : array of int
        The private code of each of them.
    without_label : int
        The number of rows without a private label.
    without_features : int
        The number of private labels without features.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Joined
    >>> Joined(np.array([0, 2]), np.array([1, 1]), without_label=1, without_features=0).rows
    array([0, 2])

    """

    rows: NDArray[np.int64]
    codes: NDArray[np.uint32]
    without_label: int
    without_features: int


def join(message: Message, ids: Any) -> Joined:
    """Look up every id of a features table in a message. O(rows) time and memory.

    Each record must occur once on either side: a second row with the same id would train on the same draw twice.

    Parameters
    ----------
    message : Message
        The message from the labels party.
    ids : array-like
        The ids of the features table, in its row order: an Arrow, NumPy or pandas column, or a list. If the message was made
        without ids (`message.header.row_numbers`), these are the row numbers of the labels, from 0.

    Returns
    -------
    Joined
        The rows that have a private label, and their codes.

    Raises
    ------
    InvalidInput
        If an id is missing or occurs twice, if the ids have another type than those of the message, or if none is found.
        The text gives row numbers and kinds, and shows no id.

    Privacy
    -------
    Costs nothing: it reads the message, which is private already.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource, Message, Prior, code_values, join, privatize
    >>> randomizer = LabelRandomizer(1, (0, 4), prior=Prior([0, 1, 2, 3, 4], [1, 1, 1, 1, 1]))
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     pq.write_table(pa.table({"order": [1, 2, 3], "amount": [0.0, 2.0, 4.0]}), folder / "labels.parquet")
    ...     outcome = privatize(LabelSource(folder / "labels.parquet", "amount", "order"), randomizer, folder / "message")
    ...     message = Message.open(folder / "message")
    ...     joined = join(message, [3, 7, 1])
    >>> joined.rows, joined.without_label, joined.without_features
    (array([0, 2]), 1, 1)
    >>> targets = code_values(message.mechanism, "auto")[joined.codes]

    """
    expect(message, Message, "message", "read one with Message.open(folder)")
    batches = list(message.batches())
    released = one_array(pa.chunked_array([ids for ids, _ in batches]))
    codes = np.concatenate([codes for _, codes in batches])
    wanted = _of_type(released.type, _one_column(ids), message)
    if wanted.null_count:
        one = wanted.null_count == 1
        lack = "1 row of the features has" if one else f"{wanted.null_count:,} rows of the features have"
        raise InvalidInput(f"{lack} no id: drop or repair {'it' if one else 'them'}")
    found = pc.index_in(wanted, value_set=released, skip_nulls=True)
    rows = np.flatnonzero(np.asarray(found.is_valid()))
    places = np.asarray(found.drop_null()).astype(np.int64)
    times = np.bincount(places, minlength=len(released))
    if times.size and times.max() > 1:
        first, second = rows[places == np.argmax(times)][:2]
        raise InvalidInput(
            f"rows {first} and {second} of the features (rows count from 0) have the same id, which they hold "
            f"{int(times.max())} times, but there is one label for it: combine these rows or drop all but one"
        )
    if not rows.size:
        raise InvalidInput(
            f"no id of the features is in {message.path}: is the id column right? The message's ids are "
            f"{_shape(released)}, those of the features {_shape(wanted)}"
            if len(wanted) and len(released)
            else f"no id of the features is in {message.path}: one of the two is empty"
        )
    return Joined(rows, codes[places], len(wanted) - rows.size, len(released) - rows.size)


def _one_column(ids: Any) -> pa.Array:
    """What the caller gave as ids, as one Arrow array."""
    if FeatureTable.is_frame(ids):
        raise InvalidInput(
            f'ids must be one column, got a table ({type(ids).__name__}): give its id column, as in join(message, table["id"])'
        )
    try:
        column = one_array(ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # whose text shows an id
        raise InvalidInput("ids must be one column, all whole numbers or all text, but these are neither") from None
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _of_type(kind: pa.DataType, ids: pa.Array, message: Message) -> pa.Array:
    whole = pa.types.is_integer(ids.type)
    if whole != pa.types.is_integer(kind) or not (whole or is_text(ids.type)):
        raise InvalidInput(
            f"the features' ids are {_kind(ids.type)} and those of {message.path} are {_kind(kind)}: convert them to the same "
            "type"
        )
    try:
        return ids.cast(kind)
    except pa.ArrowInvalid:  # whose text shows an id
        raise InvalidInput(
            f"some of the features' ids do not fit {kind}, the type of the message's ids: is the id column right?"
        ) from None


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "whole numbers"
    if is_text(kind):
        return "text"
    return "decimal numbers" if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else f"of type {kind}"


def _shape(ids: pa.Array) -> str:
    """What ids look like, without one of them: "text of 11 characters"."""
    text = pc.replace_substring(ids.cast(pa.large_string()), "-", "", max_replacements=1)
    ends = pc.min_max(pc.utf8_length(text if pa.types.is_integer(ids.type) else ids)).as_py()
    least, most = ends["min"], ends["max"]
    unit = ("digit" if pa.types.is_integer(ids.type) else "character") + ("" if most == 1 else "s")
    return f"{_kind(ids.type)} of {most if least == most else f'{least} to {most}'} {unit}"
