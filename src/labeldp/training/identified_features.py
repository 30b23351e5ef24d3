"""A whole file of features with its ids, for those who send cells and not labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from labeldp.engines.columns import checked_ids
from labeldp.errors import InvalidInput
from labeldp.features.tables import CompactTable, FeatureTable, one_array
from labeldp.release.outcome import Phase
from labeldp.training.feature_file import FeatureFile
from labeldp.training.joined_features import feature_columns


@dataclass(frozen=True, eq=False)
class IdentifiedFeatures:
    """The columns of a file to learn from, and the id of each row.

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

    @classmethod
    def read(
        cls,
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
        """Read all rows: these columns, or all but the id, the index of pandas and those to leave out."""
        file = FeatureFile.open(path, delimiter)
        file.require(id_column)
        used, index = list(columns or ()), list[str]()
        if columns is None:
            used, index = feature_columns(
                file.names, file.index_columns, file.path, id_column, exclude, {*categorical, *numeric}
            )
        for name in used:
            file.require(name)
        file.prepare(used, phase)
        categories = FeatureTable(None, used, 0).resolve(categorical, "categorical")
        table = CompactTable(file.schema(used), categories)
        ids = []
        for batch in file.batches(used, phase("reading", file.rows), as_written=id_column):
            table.add(batch.select(range(len(used))))
            ids.append(batch.column(len(used)))
        whole = one_array(pa.chunked_array(ids, file.type_as_written(id_column)))
        if not len(whole):
            raise InvalidInput(f"{path} holds no records: give the features of the records in the message")
        checked = checked_ids(whole, id_column, 0, path, id_type, text_file=file.delimiter is not None)
        return cls(file.path, checked, table.finish(), index)
