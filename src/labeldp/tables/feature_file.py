"""Files of features, read in batches: only the requested columns, each with one type in the whole file.

Parquet (also a folder of parts), CSV and TSV (also gzip-compressed) and Arrow IPC.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from labeldp.errors import InvalidInput
from labeldp.json_text import parse_json
from labeldp.tables import csv_text
from labeldp.tables.files import Phase, Progress, read_parquet, readable, require_columns, table_format

if TYPE_CHECKING:
    import pyarrow.dataset as ds

BATCH_ROWS = 1 << 16
BATCH_VALUES = 1 << 21
"""A batch has at most `BATCH_ROWS` rows and at most `BATCH_VALUES` values."""

BLOCK_BYTES = 1 << 20
"""Text files are parsed in blocks of this size. Arrow reads ahead, so larger blocks take much more memory."""

TEXT_TYPES = (
    *(pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"), pa.timestamp("ns")),
    *(pa.float64(), pa.string(), pa.binary()),
)
"""The types that `pyarrow.csv.read_csv` tries for a column, in its order: a column gets the first one that fits all its values."""


class FeatureFile(ABC):
    """A file of features; made by `FeatureFile.open`.

    Attributes
    ----------
    path : Path
        The file or folder.
    names : list of str
        The names of its columns.
    rows : int or None
        The number of rows, if the file states it.
    delimiter : str or None
        The delimiter of a text file.
    """

    path: Path
    names: list[str]
    rows: int | None = None
    delimiter: str | None = None

    @staticmethod
    def open(path: str | Path, delimiter: str | None = None) -> FeatureFile:
        """Open a file of any known format. Errors name the file and what is wrong with it.

        Without `delimiter`, it is found from the header line of a text file.
        """
        path, sign = Path(path), csv_text.checked_delimiter(delimiter)
        if not path.exists():
            raise InvalidInput(f"there is no file {path}: check the path")
        with readable(path):
            if path.is_dir():
                return _parquet_folder(path)
            typed = table_format(path).typed
            if typed is None:
                return _TextFile(path, csv_text.delimiter_of(path) if sign is None else sign)
            schema, rows = typed.columns(path)
            return _WithSchema(path, schema, partial(typed.read, path), rows)

    def require(self, name: str, advice: str = "") -> None:
        """Raise `InvalidInput` unless exactly one column has this name. `advice` is added to the error about a missing one."""
        require_columns([name], self.names, self.path, advice)

    @property
    def index_columns(self) -> list[str]:
        """The index columns, according to pandas metadata."""
        return []

    def prepare(self, columns: Sequence[str], phase: Phase = lambda name, rows: None) -> None:  # noqa: ARG005, B027
        """Find the types of these columns. Only text files must be read for this, in the phase "checking"."""

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the types of these columns."""
        with readable(self.path, self._explain):
            return self._schema(columns)

    def type_as_written(self, column: str) -> pa.DataType:
        """Return the type of a column that `batches` returns as written: text in a text file."""
        return self.schema([column]).types[0]

    def batches(
        self, columns: Sequence[str], progress: Progress | None = None, *, as_written: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read these columns of all rows, in the order of the file.

        `as_written` is one more column, put last, for ids. In a text file it stays text: 007 remains 007.
        """
        rows = max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, len(columns))))
        with readable(self.path, self._explain):
            for batch in self._batches(list(columns), rows, as_written):
                for start in range(0, batch.num_rows, rows):
                    piece = batch.slice(start, rows)
                    yield piece
                    if progress is not None:
                        progress(piece.num_rows)

    @property
    def _explain(self) -> Callable[[str], str] | None:
        """The function that turns Arrow's error about a text file into a message, or None."""
        if self.delimiter is None:
            return None
        return partial(csv_text.explain_csv_error, file=self.path, delimiter=self.delimiter)

    @abstractmethod
    def _schema(self, columns: Sequence[str]) -> pa.Schema: ...

    @abstractmethod
    def _batches(self, columns: list[str], rows: int, as_written: str | None) -> Iterator[pa.RecordBatch]: ...


class _WithSchema(FeatureFile):
    """A file that states its columns and their types. `read` reads columns in batches of at most a number of rows."""

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        read: Callable[[list[str], int], Iterator[pa.RecordBatch]],
        rows: int | None = None,
    ) -> None:
        self.path, self.names, self.rows = path, schema.names, rows
        self._whole, self._read = schema, read

    @property
    def index_columns(self) -> list[str]:
        return pandas_index(self._whole)

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self._whole.field(name) for name in columns])

    def _batches(self, columns: list[str], rows: int, as_written: str | None) -> Iterator[pa.RecordBatch]:
        if as_written is None:
            yield from self._read(columns, rows)
            return
        wanted = [*columns, as_written]  # it may be among them, and then occurs twice
        for batch in self._read(list(dict.fromkeys(wanted)), rows):
            yield pa.record_batch([batch.column(name) for name in wanted], wanted)


def _parquet_folder(path: Path) -> FeatureFile:
    """Return the parts in a folder, whose subfolders may state columns, as in `year=2026/part-0.parquet`."""
    import pyarrow.dataset as ds  # which imports pandas

    parts = ds.dataset(path, format="parquet", partitioning=ds.HivePartitioning.discover(infer_dictionary=True))
    if not parts.files:
        raise InvalidInput(f"the folder {path} contains no data files: check the path")
    rows = sum(int(part.metadata.num_rows) for part in parts.get_fragments())
    return _WithSchema(path, parts.schema, partial(_read_parts, parts), rows)


def _read_parts(parts: ds.Dataset, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    types = {name: parts.schema.field(name).type for name in columns}
    for part in parts.get_fragments():
        stated = ds.get_partition_keys(part.partition_expression)
        inside = [name for name in columns if name in part.physical_schema.names and name not in stated]
        for batch in read_parquet(Path(part.path), inside, rows):
            found = [
                _converted(batch.column(name), kind, name, part.path)
                if name in inside
                else _repeated(stated.get(name), batch.num_rows, kind)
                for name, kind in types.items()
            ]
            yield pa.record_batch(found, columns)


class _TextFile(FeatureFile):
    """CSV or TSV. A column has the same type in all batches: the one that `pyarrow.csv.read_csv` would give it.

    Only a column requested as written is always text.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path, self.delimiter = path, delimiter
        self._types: dict[str, pa.DataType] = {}
        with readable(path, self._explain), csv_text.open_stream(self.path) as stream:
            self.names = self._reader(stream).schema.names

    def prepare(self, columns: Sequence[str], phase: Phase = lambda name, rows: None) -> None:  # noqa: ARG005
        """Read these columns, with the types that the first block suggests. Try another type where a value does not fit."""
        wanted = [name for name in dict.fromkeys(columns) if name not in self._types]
        if not wanted:
            return
        progress = phase("checking", None)
        with readable(self.path, self._explain):
            types: dict[str, pa.DataType] = {}
            while True:
                with csv_text.open_stream(self.path) as stream:
                    try:
                        reader = self._reader(stream, wanted, types)
                        types = types or {field.name: field.type for field in reader.schema}
                        commas = csv_text.DecimalCommas()
                        for batch in reader:
                            commas.look(batch)
                            if progress is not None:
                                progress(batch.num_rows)
                        break
                    except pa.ArrowInvalid as error:
                        place = re.search(r"In CSV column #(\d+):.*conversion error", str(error))
                        name = "" if place is None else self.names[int(place[1])]
                        if place is None or types.get(name) in (None, TEXT_TYPES[-1]):
                            raise
                        types[name] = TEXT_TYPES[TEXT_TYPES.index(types[name]) + 1]
            commas.refuse(self.path)
            self._types |= types

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        self.prepare(columns)
        return pa.schema([(name, self._types[name]) for name in columns])

    def type_as_written(self, column: str) -> pa.DataType:
        """Return text; see `FeatureFile`."""
        self.require(column)
        return pa.string()

    def _batches(self, columns: list[str], rows: int, as_written: str | None) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - pieces are cut later
        self.prepare(columns)
        text = {} if as_written is None else {as_written: pa.string()}
        if as_written not in columns:
            with csv_text.open_stream(self.path) as stream:
                yield from self._reader(stream, [*columns, *text], self._types | text)
            return
        with csv_text.open_stream(self.path) as stream, csv_text.open_stream(self.path) as again:
            # Arrow cuts both at the same rows: at bytes of the file
            readers = self._reader(stream, columns, self._types), self._reader(again, [as_written], text)
            for typed, written in zip(*readers, strict=True):
                yield pa.record_batch([*typed.columns, *written.columns], [*columns, as_written])

    def _reader(self, stream: Any, columns: list[str] | None = None, types: dict[str, Any] | None = None) -> Any:
        assert self.delimiter is not None
        return csv_text.open_csv(
            stream, self.delimiter, block_bytes=BLOCK_BYTES, include_columns=columns, column_types=types
        )


def pandas_index(schema: pa.Schema) -> list[str]:
    """Return the columns that are the index of the pandas table from which a file was made."""
    try:
        described = parse_json((schema.metadata or {}).get(b"pandas", b"{}"), "pandas' note in the file")
    except InvalidInput:
        return []
    index = described.get("index_columns") if isinstance(described, dict) else None
    if not isinstance(index, list):
        return []
    return [name for name in index if isinstance(name, str) and name in schema.names]


def _converted(column: Any, kind: pa.DataType, name: str, part: str) -> Any:
    """Return a column of a part with the type that it has in the whole folder."""
    try:
        return column.cast(kind)
    except pa.ArrowException:  # its message quotes the value
        raise InvalidInput(
            f"cannot read {part}: its column {name!r} contains {column.type} values, and not all of them can be {kind}, as the column "
            "is in another part of the folder. Write all parts with the same types"
        ) from None


def _repeated(value: Any, rows: int, kind: pa.DataType) -> Any:
    if pa.types.is_dictionary(kind) and value is not None:  # Arrow does not cast integers to categories
        codes = pa.array(np.zeros(rows, kind.index_type.to_pandas_dtype()))
        return pa.DictionaryArray.from_arrays(codes, pa.array([value], kind.value_type))
    return pa.array([value] * rows, kind)
