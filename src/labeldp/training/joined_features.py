"""The features of the records that have a private label, from a table or from a file that is read in batches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp.errors import InvalidInput
from labeldp.message.reader import Message
from labeldp.release.privatize import Phase
from labeldp.training.compact import CompactTable
from labeldp.training.feature_file import FeatureFile, pandas_index, require_column
from labeldp.training.joining import Joined, join
from labeldp.training.suspects import is_index_name
from labeldp.training.tables import FeatureTable


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
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> JoinedFeatures:
    """Join features with a message by id.

    Of a file only the columns to learn from are read, in batches, and only rows with a private label are kept, in a
    `CompactTable`. Index columns of pandas are left out unless `categorical` or `numeric` names them.
    """
    named = {*categorical, *numeric}
    if isinstance(features, pa.Table):
        schema = features.schema
        used, index = _columns(schema.names, pandas_index(schema), "the table of features", id_column, exclude, named)
        joined = join(message, features.column(id_column))
        return JoinedFeatures(features.select(used).take(joined.rows), joined, index)
    file = FeatureFile.open(features)
    used, index = _columns(file.names, file.index_columns, file.path, id_column, exclude, named)
    categories = FeatureTable(None, used, 0).resolve(categorical, "categorical")
    file.prepare([id_column, *used], phase)
    kind = file.schema([id_column]).types[0]
    ids = [batch.column(0) for batch in file.batches([id_column], phase("joining", file.rows))]
    joined = join(message, pa.chunked_array(ids, kind))
    del ids
    table = CompactTable(file.schema(used), categories)
    first = 0
    for batch in file.batches(used, phase("reading", file.rows)):
        begin, end = np.searchsorted(joined.rows, [first, first + batch.num_rows])
        whole = end - begin == batch.num_rows
        table.add(batch, None if whole else joined.rows[begin:end] - first)
        first += batch.num_rows
    return JoinedFeatures(table.finish(), joined, index)


def _columns(
    names: Sequence[str],
    pandas: Sequence[str],
    where: object,
    id_column: str,
    exclude: Sequence[str],
    wanted: Collection[str | int],
) -> tuple[list[str], list[str]]:
    """The columns to learn from, and the index columns that are left out."""
    for name in (id_column, *exclude):
        require_column(name, names, where)
    rest = [name for name in names if name not in {id_column, *exclude}]
    index = [name for name in rest if (name in pandas or is_index_name(name)) and name not in wanted]
    used = [name for name in rest if name not in index]
    if not used:
        raise InvalidInput(f"{where} has no column left to learn from besides {id_column!r}")
    for name in used:
        if used.count(name) > 1:
            raise InvalidInput(f"{where} has more than one column called {name!r}: rename one")
    return used, index
