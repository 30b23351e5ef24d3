"""Features joined with private labels by id, from a table or from a file that is read in batches.

`join` finds the private label of each row, `joined_features` reads the rows that have one, and `read_features` reads all rows with
their ids, for cells and sums. Likely mistakes are warned about: an index of pandas, ids or the label itself among the features, or most records
without a partner.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.artifact.id_join import kind_words, match_ids
from labeldp.artifact.reader import Message
from labeldp.engines.batches import checked_ids, written_as_integers
from labeldp.errors import InvalidInput, expect
from labeldp.learn.feature_tables import CompactTable, FeatureTable, expect_list, is_text, one_array
from labeldp.tables.feature_file import FeatureFile, pandas_index
from labeldp.tables.files import Phase, require_columns


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
    >>> from labeldp.learn import Joined
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
        If an id is missing or occurs twice, if the types of the ids differ from the message, or if none is found. The
        error gives row numbers and types, but no ids.

    Privacy
    -------
    Costs nothing: it reads the message, which is private already.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource, Message, Prior, privatize
    >>> from labeldp.learn import join
    >>> from labeldp.mechanisms import code_values
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
    wanted = _one_column(ids)
    if wanted.null_count:
        one = wanted.null_count == 1
        lack = "1 row of the features has" if one else f"{wanted.null_count:,} rows of the features have"
        raise InvalidInput(f"{lack} no id: drop or repair {'it' if one else 'them'}")
    found = match_ids(released, wanted, message.path, "the features", distinct=True)
    labels = np.flatnonzero(found >= 0)
    if not labels.size:
        raise InvalidInput(
            f"no id of the features is in {message.path}: is the id column right? The message's ids are "
            f"{_shape(released)}, the ids of the features are {_shape(wanted)}"
            if len(wanted) and len(released)
            else f"no id of the features is in {message.path}: one of the two is empty"
        )
    of_row = np.full(len(wanted), -1, np.int64)
    of_row[found[labels]] = labels
    rows = np.flatnonzero(of_row >= 0)
    return Joined(rows, codes[of_row[rows]], len(wanted) - rows.size, len(released) - rows.size)


def _one_column(ids: Any) -> pa.Array:
    """Return what the caller gave as ids, as one Arrow array."""
    if FeatureTable.is_frame(ids):
        raise InvalidInput(
            f'ids must be one column, got a table ({type(ids).__name__}): give its id column, as in join(message, table["id"])'
        )
    try:
        column = one_array(ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # whose text shows an id
        raise InvalidInput("ids must be one column, all whole numbers or all text, but these are neither") from None
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _shape(ids: pa.Array) -> str:
    """Return what ids look like, without one of them: "text of 11 characters"."""
    text = pc.replace_substring(ids.cast(pa.large_string()), "-", "", max_replacements=1)
    ends = pc.min_max(pc.utf8_length(text if pa.types.is_integer(ids.type) else ids)).as_py()
    least, most = ends["min"], ends["max"]
    unit = ("digit" if pa.types.is_integer(ids.type) else "character") + ("" if most == 1 else "s")
    return f"{kind_words(ids.type)} of {most if least == most else f'{least} to {most}'} {unit}"


@dataclass(frozen=True, eq=False)
class JoinedFeatures:
    """Features and private labels of the same records; made by `joined_features`.

    Attributes
    ----------
    table : pyarrow.Table
        The columns to learn from, a row for each record.
    joined : Joined
        The private codes of these records, and what had no partner.
    index : list of str
        The index columns of pandas, which were left out.
    """

    table: pa.Table
    joined: Joined
    index: list[str]


def joined_features(
    message: Message,
    features: pa.Table | str | Path,
    id_column: str,
    *,
    exclude: Sequence[str] = (),
    categorical: Collection[str | int] = (),
    numeric: Collection[str | int] = (),
    delimiter: str | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> JoinedFeatures:
    """Join features with a message by id.

    Of a file only the columns to learn from are read, in batches, and only rows with a private label are kept, in a
    `CompactTable`. Index columns of pandas are left out unless `categorical` or `numeric` names them.
    """
    named = {*categorical, *numeric}
    if isinstance(features, pa.Table):
        where, schema = "the table of features", features.schema
        key = _key(message, id_column, schema.names)
        used, index = feature_columns(schema.names, pandas_index(schema), where, key, exclude, named)
        ids = _row_numbers(message, where, features.num_rows) if key is None else features.column(key)
        joined = join(message, ids)
        return JoinedFeatures(features.select(used).take(joined.rows), joined, index)
    file = FeatureFile.open(features, delimiter)
    key = _key(message, id_column, file.names)
    used, index = feature_columns(file.names, file.index_columns, file.path, key, exclude, named)
    table = _compact(file, used, categorical, phase)
    joined = join(message, _ids(file, key, used[0], message, phase))
    first = 0
    for batch in file.batches(used, phase("reading", file.rows)):
        begin, end = np.searchsorted(joined.rows, [first, first + batch.num_rows])
        whole = end - begin == batch.num_rows
        table.add(batch, None if whole else joined.rows[begin:end] - first)
        first += batch.num_rows
    return JoinedFeatures(table.finish(), joined, index)


@dataclass(frozen=True, eq=False)
class IdentifiedFeatures:
    """The columns of a file to learn from, and the id of each row; made by `read_features`.

    Attributes
    ----------
    path : Path
        The file.
    ids : pyarrow.Array
        The ids: int64, uint64 or text.
    table : pyarrow.Table
        The columns.
    index : list of str
        The index columns of pandas, which were left out.
    """

    path: Path
    ids: pa.Array
    table: pa.Table
    index: list[str]


def read_features(
    path: Path,
    id_column: str,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    id_type: str | None = None,
    delimiter: str | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> IdentifiedFeatures:
    """Read a file of features with its ids. By default all columns but the id and the index of pandas are features."""
    file = FeatureFile.open(path, delimiter)
    file.require(id_column)
    used, index = list(columns or ()), list[str]()
    if columns is None:
        named = {*categorical, *numeric}
        used, index = feature_columns(file.names, file.index_columns, file.path, id_column, exclude, named)
    for name in used:
        file.require(name)
    table = _compact(file, used, categorical, phase)
    ids = []
    for batch in file.batches(used, phase("reading", file.rows), as_written=id_column):
        table.add(batch.select(range(len(used))))
        ids.append(batch.column(len(used)))
    whole = one_array(pa.chunked_array(ids, file.type_as_written(id_column)))
    if not len(whole):
        raise InvalidInput(f"{path} contains no records: give the features of the records in the message")
    checked = checked_ids(whole, id_column, 0, path, id_type, text_file=file.delimiter is not None)
    return IdentifiedFeatures(file.path, checked, table.finish(), index)


def _compact(file: FeatureFile, used: list[str], categorical: Collection[str | int], phase: Phase) -> CompactTable:
    """Return an empty table for these columns of a file."""
    categories = FeatureTable(None, used, 0).resolve(categorical, "categorical")
    file.prepare(used, phase)
    return CompactTable(file.schema(used), categories)


def _key(message: Message, id_column: str, names: Sequence[str]) -> str | None:
    """Return the id column; None if the message's ids are row numbers, which do not need a column."""
    header = message.header
    if header.row_numbers and id_column != header.id_column:
        raise InvalidInput(
            f"the ids of this message are row numbers: give --id {header.id_column}. Ids of another kind, as perhaps in "
            f"{id_column!r}, would get the labels of other records"
        )
    return None if header.row_numbers and id_column not in names else id_column


def _ids(file: FeatureFile, key: str | None, some: str, message: Message, phase: Phase) -> pa.ChunkedArray | pa.Array:
    """Return the ids of a file, read in batches. Row numbers are counted in `some` column if the file does not state the number of rows."""
    tick = phase("joining", file.rows) if key is not None or file.rows is None else None
    if key is None:
        rows = sum(batch.num_rows for batch in file.batches([some], tick)) if file.rows is None else file.rows
        return _row_numbers(message, file.path, rows)
    parts = [batch.column(0) for batch in file.batches([], tick, as_written=key)]
    ids = pa.chunked_array(parts, file.type_as_written(key))
    return ids if file.delimiter is None else _from_text(ids, key, file, message.id_type)


def _from_text(ids: pa.ChunkedArray, key: str, file: FeatureFile, kind: pa.DataType) -> pa.ChunkedArray:
    """Return the ids of a text file as the message has them: integers if its ids are, and that loses nothing, or text."""
    ids = pc.if_else(pc.equal(ids, ""), None, ids)  # an empty field is a missing id
    if not pa.types.is_integer(kind):
        return ids
    wide = pa.uint64() if kind == pa.uint64() else pa.int64()
    plain = pc.fill_null(written_as_integers(ids, wide), fill_value=True)
    row = pc.index(plain, value=False).as_py()
    if row >= 0:
        raise InvalidInput(
            f"{file.path}: the message's ids are whole numbers, but the id in row {row + 1} (rows count from 1) of {key!r} is not "
            "written as one, such as 17. Is the id column right? If so, write all ids as in the message, or ask for a message "
            "that was made with --id-type str"
        )
    return ids.cast(wide)


def _row_numbers(message: Message, where: object, rows: int) -> pa.Array:
    if rows != message.records:
        raise InvalidInput(
            f"the ids of {message.path} are the row numbers of the labels, but {where} has {rows:,} rows and the message "
            f"{message.records:,}. Give the features of the same records in the same order, with a column "
            f"{message.header.id_column!r} of row numbers from 0 if some are left out, or ask for a message that was made with --id"
        )
    return pa.array(np.arange(rows))


def feature_columns(
    names: Sequence[str],
    pandas: Sequence[str],
    where: object,
    key: str | None,
    exclude: Sequence[str],
    wanted: Collection[str | int],
) -> tuple[list[str], list[str]]:
    """Return the columns to learn from, and the index columns that are left out."""
    expect_list(exclude, "exclude")
    require_columns([*(() if key is None else (key,)), *exclude], names, where)
    rest = [name for name in names if name not in {key, *exclude}]
    index = [name for name in rest if (name in pandas or is_index_name(name)) and name not in wanted]
    used = [name for name in rest if name not in index]
    if not used:
        raise InvalidInput(
            f"no column left to learn from in {where} besides {key!r}: give a file with features, or leave fewer of them out"
        )
    for name in used:
        if used.count(name) > 1:
            raise InvalidInput(f"{where} has more than one column called {name!r}: rename one")
    return used, index


NEARLY_ALL = 0.95
"""A column is near-unique if it has at least this share of different values among its values."""

LEAST_ROWS = 100
"""Among fewer rows, distinct values do not indicate an id."""

ALIKE, LEAST_LETTERS, MOST_MORE = 0.8, 5, 4
"""Two names of `LEAST_LETTERS` letters or more are nearly equal if difflib's ratio is at least `ALIKE`, or if one is the other with at most
`MOST_MORE` letters added."""


class FeatureWarning(UserWarning):
    """Warns about a likely mistake in the features, and what to do about it.

    A column is probably not a feature but an index, an id, or the label itself. Or most records are not in the message.

    Examples
    --------
    >>> import warnings
    >>> from labeldp import FeatureWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", FeatureWarning)  # every column is a feature, I am sure

    """


def warn_of_suspects(
    table: pa.Table,
    *,
    index: Sequence[str],
    label_column: str | None,
    rows: NDArray[np.int64] | None = None,
    numeric: Collection[str | int] = (),
    stacklevel: int = 1,
) -> None:
    """Issue a `FeatureWarning` for each kind of suspect among the columns of a table.

    Parameters
    ----------
    table : pyarrow.Table
        The columns to learn from.
    index : sequence of str
        The index columns of pandas that were left out.
    label_column : str or None
        The name of the labels, if the message has it.
    rows : array of int64, optional
        The row of each record in the user's file. By default the table has all rows of the file.
    numeric : collection of str or int
        Columns that the user named as numbers. They are not questioned.
    stacklevel : int
        The frame that the warnings point at, as for `warnings.warn` in the caller.
    """
    rows = np.arange(table.num_rows) if rows is None else rows
    for text in _suspicions(table, rows, index, label_column, numeric):
        warnings.warn(text, FeatureWarning, stacklevel=stacklevel + 1)


def warn_of_lost_records(paired: int, without_label: int, without_features: int, *, stacklevel: int = 1) -> None:
    """Issue a `FeatureWarning` if more than half of the features and more than half of the labels are unmatched.

    If only one side has unmatched records, it is a larger table. If both lose most records, the ids may be of different
    kinds and agree by chance.
    """
    if min(without_label, without_features) > paired:
        warnings.warn(
            f"only {paired:,} of {paired + without_label:,} rows of features have a private label, and only {paired:,} of "
            f"{paired + without_features:,} private labels have features. Ids that agree by chance pair different records: "
            "check that the id column is the right one (--id) and that both files are about the same records.",
            FeatureWarning,
            stacklevel=stacklevel + 1,
        )


def is_index_name(name: str) -> bool:
    """Return whether pandas gives this name to an unnamed index column (in Parquet and in CSV)."""
    return re.fullmatch(r"|Unnamed: 0(\.\d+)*|__index_level_\d+__", name) is not None


def is_near_unique(column: Any) -> bool:
    """Return whether a column of text or categories has a distinct value in nearly every row, like ids.

    Numbers are not checked, because measurements such as an income or an area in square metres are as distinct as ids.
    """
    coded = pa.types.is_dictionary(column.type)
    count = len(column) - column.null_count
    if count < LEAST_ROWS or not (coded or is_text(column.type)):
        return False
    if coded:
        column = pa.chunked_array([chunk.indices for chunk in column.unify_dictionaries().chunks])
    return bool(pc.count_distinct(column, mode="only_valid").as_py() >= NEARLY_ALL * count)


def counts_rows(column: Any, rows: NDArray[np.int64]) -> bool:
    """Return whether an integer column numbers the rows of the file in their order, from any start."""
    if len(column) < LEAST_ROWS or column.null_count or not pa.types.is_integer(column.type):
        return False
    offsets = np.asarray(column).astype(np.int64) - rows
    return bool((offsets == offsets[0]).all())


def nearly_equal(name: str, other: str) -> bool:
    """Return whether two names differ only in case, signs, digits at the end, a plural or a few letters, or a short word more."""
    one, two = _letters(name), _letters(other)
    if one == two:
        return True
    if min(len(one), len(two)) < LEAST_LETTERS:
        return False
    within = (one in two or two in one) and abs(len(one) - len(two)) <= MOST_MORE
    return within or SequenceMatcher(None, one, two).ratio() >= ALIKE


def _suspicions(
    table: pa.Table,
    rows: NDArray[np.int64],
    index: Sequence[str],
    label_column: str | None,
    numeric: Collection[str | int],
) -> Iterator[str]:
    if "" in index:
        yield "the column without a name is left out, since pandas writes its index so. To train on it, give it a name."
    if named := [name for name in index if name]:
        it = "it" if len(named) == 1 else "them"
        yield (
            f"{_named(named)} left out, since pandas wrote {it} as an index. To train on {it}, name {it} in --numeric or "
            "--categorical (in Python numeric=[…] or categorical=[…])."
        )
    checked = [(name, table.column(name)) for name in table.schema.names if name not in numeric]
    ids = [name for name, column in checked if is_near_unique(column)]
    if ids:
        yield (
            f"{_named(ids)} probably not a feature: nearly every row has a different text there, as with ids, and a model cannot "
            f"learn from a category that occurs once. {_leave_out(ids)} If the text is numbers, convert it to numbers."
        )
    counted = [name for name, column in checked if counts_rows(column, rows)]
    if counted:
        yield (
            f"{_named(counted)} probably not a feature: it numbers the rows of the file. {_leave_out(counted)} If the order of "
            f"the rows means something, name it in --numeric (in Python numeric={counted!r})."
        )
    same = [n for n in table.schema.names if label_column is not None and nearly_equal(n, label_column)]
    if same:
        yield (
            f"{_named(same)} perhaps the label: the labels are called {label_column!r}. A model that sees the true label "
            f"learns to repeat it and is worth nothing where labels are unknown. {_leave_out(same)}"
        )


def _letters(name: str) -> str:
    kept = "".join(letter for letter in name.casefold() if letter.isalnum())
    return kept.rstrip("0123456789").rstrip("s") or kept


def _named(names: Sequence[str]) -> str:
    """Return the subject of a sentence with its verb."""
    shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"the column {shown} is" if len(names) == 1 else f"the columns {shown} are"


def _leave_out(names: Sequence[str]) -> str:
    it = "it" if len(names) == 1 else "them"
    return f"Leave {it} out with --exclude {','.join(names)} (in Python exclude={list(names)!r})."
