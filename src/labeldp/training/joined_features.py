"""The features of the records that have a private label, from a table or from a file that is read in batches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.engines.columns import written_as_integers
from labeldp.errors import InvalidInput
from labeldp.features.tables import CompactTable, FeatureTable
from labeldp.message.reader import Message
from labeldp.release.outcome import Phase
from labeldp.training.feature_file import FeatureFile, pandas_index, require_column
from labeldp.training.joining import Joined, join
from labeldp.training.suspects import is_index_name


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
    categories = FeatureTable(None, used, 0).resolve(categorical, "categorical")
    file.prepare(used, phase)
    joined = join(message, _ids(file, key, used[0], message, phase))
    table = CompactTable(file.schema(used), categories)
    first = 0
    for batch in file.batches(used, phase("reading", file.rows)):
        begin, end = np.searchsorted(joined.rows, [first, first + batch.num_rows])
        whole = end - begin == batch.num_rows
        table.add(batch, None if whole else joined.rows[begin:end] - first)
        first += batch.num_rows
    return JoinedFeatures(table.finish(), joined, index)


def _key(message: Message, id_column: str, names: Sequence[str]) -> str | None:
    """The id column; None if the message's ids are row numbers, which need no column."""
    header = message.header
    if header.row_numbers and id_column != header.id_column:
        raise InvalidInput(
            f"the ids of this message are row numbers: give --id {header.id_column}. Ids of another kind, as perhaps in "
            f"{id_column!r}, would get the labels of other records"
        )
    return None if header.row_numbers and id_column not in names else id_column


def _ids(file: FeatureFile, key: str | None, some: str, message: Message, phase: Phase) -> pa.ChunkedArray | pa.Array:
    """The ids of a file, read in batches. Row numbers are counted in `some` column if the file does not say how many."""
    tick = phase("joining", file.rows) if key is not None or file.rows is None else None
    if key is None:
        rows = sum(batch.num_rows for batch in file.batches([some], tick)) if file.rows is None else file.rows
        return _row_numbers(message, file.path, rows)
    parts = [batch.column(0) for batch in file.batches([], tick, as_written=key)]
    ids = pa.chunked_array(parts, file.type_as_written(key))
    return ids if file.delimiter is None else _from_text(ids, key, file, message.id_type)


def _from_text(ids: pa.ChunkedArray, key: str, file: FeatureFile, kind: pa.DataType) -> pa.ChunkedArray:
    """The ids of a text file as the message has them: integers if its ids are, and that loses nothing, or text."""
    ids = pc.if_else(pc.equal(ids, ""), None, ids)  # an empty field is a missing id
    if not pa.types.is_integer(kind):
        return ids
    wide = pa.uint64() if kind == pa.uint64() else pa.int64()
    plain = pc.fill_null(written_as_integers(ids, wide), fill_value=True)
    row = pc.index(plain, value=False).as_py()
    if row >= 0:
        raise InvalidInput(
            f"{file.path}: the message's ids are whole numbers, but the id in row {row} (rows count from 0) of {key!r} is not "
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
    """The columns to learn from, and the index columns that are left out."""
    for name in (*(() if key is None else (key,)), *exclude):
        require_column(name, names, where)
    rest = [name for name in names if name not in {key, *exclude}]
    index = [name for name in rest if (name in pandas or is_index_name(name)) and name not in wanted]
    used = [name for name in rest if name not in index]
    if not used:
        raise InvalidInput(
            f"{where} has no column left to learn from besides {key!r}: give a file with features, or leave fewer of them out"
        )
    for name in used:
        if used.count(name) > 1:
            raise InvalidInput(f"{where} has more than one column called {name!r}: rename one")
    return used, index
