"""A file of features, read in batches: only the columns asked for, and never more than a batch at a time.

Parquet (also a folder of parts), CSV and TSV (also gzipped) and Arrow IPC.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import csv, ipc

from labeldp.engines.arrow import text
from labeldp.engines.arrow.files import read_ipc
from labeldp.engines.arrow.source import IPC_SUFFIXES, PARQUET_SUFFIXES
from labeldp.engines.scan import Progress
from labeldp.errors import InvalidInput, why_unreadable
from labeldp.features.tables import closest
from labeldp.json_text import parse_json
from labeldp.parquet_file import open_parquet
from labeldp.release.outcome import Phase

MOST_ROWS = 1 << 16
MOST_CELLS = 1 << 21
"""A batch has at most so many rows, and fewer if it is so wide that it would have more cells than this."""

BLOCK_BYTES = 1 << 20
"""Text files are parsed in blocks of this size. Arrow reads ahead, so that larger ones take much more memory."""

TEXT_TYPES = (
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.date32(),
    pa.time32("s"),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.float64(),
    pa.string(),
    pa.binary(),
)
"""The types that `pyarrow.csv.read_csv` tries for a column, in its order: the first that fits all values is the column's."""


class FeatureFile(ABC):
    """A file of features; made by `FeatureFile.open`.

    Attributes
    ----------
    path : Path
        The file or folder.
    names : list of str
        The names of its columns.
    rows : int or None
        The number of rows, if the file says so at its beginning or end.
    delimiter : str or None
        What separates the columns of a text file.
    """

    path: Path
    names: list[str]
    rows: int | None = None
    delimiter: str | None = None

    @staticmethod
    def open(path: str | Path, delimiter: str | None = None) -> FeatureFile:
        """Open a file of any known format. Errors name the file and what is wrong with it.

        Without a delimiter, the header line of a text file shows it.
        """
        path, sign = Path(path), text.checked_delimiter(delimiter)
        if not path.exists():
            raise InvalidInput(f"there is no file {path}: check the path")
        suffix = text.file_format(path)
        with _readable(path):
            if path.is_dir():
                return _ParquetFolder(path)
            if suffix in PARQUET_SUFFIXES:
                return _ParquetFile(path)
            if suffix in text.TEXT_SUFFIXES:
                return _TextFile(path, text.delimiter_of(path) if sign is None else sign)
            if suffix in IPC_SUFFIXES:
                return _IpcFile(path)
        raise InvalidInput(f"cannot tell what {path} is: name it .parquet, .csv, .tsv (these also with .gz) or .arrow")

    def require(self, name: str, advice: str = "") -> None:
        """Refuse a name that is no column, or that several columns have. `advice` ends the error about a missing one."""
        require_column(name, self.names, self.path, advice)

    @property
    def index_columns(self) -> list[str]:
        """The columns that pandas says are its index."""
        return []

    @abstractmethod
    def prepare(self, columns: Sequence[str], phase: Phase = lambda name, rows: None) -> None:  # noqa: ARG005
        """Find out the types of these columns. Only text files must be read for it: that is the phase "checking"."""

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of these columns."""
        with _readable(self.path, self.delimiter):
            return self._schema(columns)

    def type_as_written(self, column: str) -> pa.DataType:
        """The type of a column that `batches` gives as it is written: text in a text file."""
        return self.schema([column]).types[0]

    def batches(
        self, columns: Sequence[str], progress: Progress | None = None, *, as_written: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """These columns of all rows, in the order of the file.

        `as_written` is one more column, put last, for ids. A text file gives its text as it is: 007 stays 007.
        """
        rows = max(1, min(MOST_ROWS, MOST_CELLS // max(1, len(columns))))
        with _readable(self.path, self.delimiter):
            for batch in self._batches(list(columns), rows, as_written):
                for start in range(0, batch.num_rows, rows):
                    piece = batch.slice(start, rows)
                    yield piece
                    if progress is not None:
                        progress(piece.num_rows)

    @abstractmethod
    def _schema(self, columns: Sequence[str]) -> pa.Schema: ...

    @abstractmethod
    def _batches(self, columns: list[str], rows: int, as_written: str | None) -> Iterator[pa.RecordBatch]: ...


class _WithSchema(FeatureFile):
    """A file that states its columns and their types."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self.names, self._whole = path, schema.names, schema

    @property
    def index_columns(self) -> list[str]:
        return pandas_index(self._whole)

    def prepare(self, columns: Sequence[str], phase: Phase = lambda name, rows: None) -> None:  # noqa: ARG005
        """There is nothing to find out."""

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self._whole.field(name) for name in columns])

    def _batches(self, columns: list[str], rows: int, as_written: str | None) -> Iterator[pa.RecordBatch]:
        if as_written is None:
            yield from self._typed(columns, rows)
            return
        for batch in self._typed(list(dict.fromkeys([*columns, as_written])), rows):
            yield _select(batch, [*columns, as_written])

    @abstractmethod
    def _typed(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """These columns, each with the type that the file states."""


class _ParquetFile(_WithSchema):
    def __init__(self, path: Path) -> None:
        with pq.ParquetFile(path) as parquet:
            super().__init__(path, parquet.schema_arrow)
            self.rows = int(parquet.metadata.num_rows)

    def _typed(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        return _parquet_batches(self.path, columns, rows)


class _ParquetFolder(_WithSchema):
    """Parts in a folder, whose subfolders may state columns, as in `year=2026/part-0.parquet`."""

    def __init__(self, path: Path) -> None:
        self._parts = ds.dataset(
            path, format="parquet", partitioning=ds.HivePartitioning.discover(infer_dictionary=True)
        )
        if not self._parts.files:
            raise InvalidInput(f"the folder {path} holds no data files: check the path")
        super().__init__(path, self._parts.schema)
        self.rows = sum(int(part.metadata.num_rows) for part in self._parts.get_fragments())

    def _typed(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        types = {name: self._whole.field(name).type for name in columns}
        for part in self._parts.get_fragments():
            stated = ds.get_partition_keys(part.partition_expression)
            inside = [name for name in columns if name in part.physical_schema.names and name not in stated]
            for batch in _parquet_batches(Path(part.path), inside, rows):
                yield pa.record_batch(
                    [
                        _converted(batch.column(name), kind, name, part.path)
                        if name in inside
                        else _repeated(stated.get(name), batch.num_rows, kind)
                        for name, kind in types.items()
                    ],
                    columns,
                )


class _IpcFile(_WithSchema):
    def __init__(self, path: Path) -> None:
        with pa.OSFile(str(path)) as opened:
            try:
                schema = ipc.open_file(opened).schema
            except pa.ArrowInvalid:
                opened.seek(0)
                schema = ipc.open_stream(opened).schema
        super().__init__(path, schema)

    def _typed(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - pieces are cut later
        return read_ipc(self.path, columns)


class _TextFile(FeatureFile):
    """CSV or TSV. A column has the same type in all batches: the one that `pyarrow.csv.read_csv` would give it.

    Only a column that is asked for as it is written is text whatever it holds.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path, self.delimiter = path, delimiter
        self._types: dict[str, pa.DataType] = {}
        with _readable(path, delimiter), self._opened() as stream:
            self.names = self._reader(stream).schema.names

    def prepare(self, columns: Sequence[str], phase: Phase = lambda name, rows: None) -> None:  # noqa: ARG005
        """Read these columns, with the types that the first block suggests. Try another type where a value does not fit."""
        wanted = [name for name in dict.fromkeys(columns) if name not in self._types]
        if not wanted:
            return
        progress = phase("checking", None)
        with _readable(self.path, self.delimiter):
            types: dict[str, pa.DataType] = {}
            while True:
                with self._opened() as stream:
                    try:
                        reader = self._reader(stream, wanted, types)
                        types = types or {field.name: field.type for field in reader.schema}
                        commas = text.DecimalCommas()
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
        """Text: see `FeatureFile`."""
        self.require(column)
        return pa.string()

    def _batches(
        self,
        columns: list[str],
        rows: int,  # noqa: ARG002 - pieces are cut later
        as_written: str | None,
    ) -> Iterator[pa.RecordBatch]:
        self.prepare(columns)
        if as_written is None:
            with self._opened() as stream:
                yield from self._reader(stream, columns, self._types)
            return
        text_type = {as_written: pa.string()}
        if as_written not in columns:
            with self._opened() as stream:
                yield from self._reader(stream, [*columns, as_written], self._types | text_type)
            return
        with (
            self._opened() as stream,
            self._opened() as again,
        ):  # Arrow cuts both at the same rows: at bytes of the file
            readers = self._reader(stream, columns, self._types), self._reader(again, [as_written], text_type)
            for typed, written in zip(*readers, strict=True):
                yield pa.record_batch([*typed.columns, *written.columns], [*columns, as_written])

    def _opened(self) -> Any:
        return pa.input_stream(str(self.path), compression="gzip" if self.path.suffix.lower() == ".gz" else None)

    def _reader(self, stream: Any, columns: list[str] | None = None, types: dict[str, Any] | None = None) -> Any:
        return csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(include_columns=columns, column_types=types),
        )


def require_column(name: str, names: Sequence[str], where: object, advice: str = "") -> None:
    """Refuse a name that is no column, or that several columns have; `where` says in errors what has these columns."""
    if list(names).count(name) > 1:
        raise InvalidInput(f"{where} has several columns named {name!r}: rename all but one")
    if name not in names:
        shown = [other for other in names if not text.looks_like_data(other)]
        raise InvalidInput(f"{where} has no column {name!r}{closest(name, shown)}{advice}")


def pandas_index(schema: pa.Schema) -> list[str]:
    """The columns of a schema that are the index of the pandas table it was made from."""
    try:
        described = parse_json((schema.metadata or {}).get(b"pandas", b"{}"), "pandas' note in the file")
    except InvalidInput:
        return []
    index = described.get("index_columns") if isinstance(described, dict) else None
    if not isinstance(index, list):
        return []
    return [name for name in index if isinstance(name, str) and name in schema.names]


def _parquet_batches(path: Path, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    with open_parquet(path, piecewise=True) as parquet:
        for batch in parquet.iter_batches(rows, columns=columns):
            yield batch.select(columns)


def _converted(column: Any, kind: pa.DataType, name: str, part: str) -> Any:
    """A column of a part as the type that it has in the whole folder."""
    try:
        return column.cast(kind)
    except pa.ArrowException:  # its text shows the value
        raise InvalidInput(
            f"cannot read {part}: its column {name!r} holds {column.type} values, and not all of them can be {kind}, as the column "
            "is in another part of the folder. Write all parts with the same types"
        ) from None


def _select(batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    """These columns of a batch, one of them perhaps twice."""
    return pa.record_batch([batch.column(name) for name in columns], columns)


def _repeated(value: Any, rows: int, kind: pa.DataType) -> Any:
    if pa.types.is_dictionary(kind) and value is not None:  # Arrow casts no integers to categories
        codes = pa.array(np.zeros(rows, kind.index_type.to_pandas_dtype()))
        return pa.DictionaryArray.from_arrays(codes, pa.array([value], kind.value_type))
    return pa.array([value] * rows, kind)


@contextmanager
def _readable(path: Path, delimiter: str | None = None) -> Iterator[None]:
    """Name the file, and say in other words what Arrow says: its own words may show values, and these may be labels."""
    try:
        yield
    except MemoryError as error:  # Arrow's is also an ArrowException
        raise InvalidInput(
            f"cannot read {path}: a part of it does not fit into memory. Is the file complete and undamaged? If so, use a "
            "machine with more memory, or write it in smaller row groups"
        ) from error
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot read {path}: something in it is not UTF-8 text. Is the file undamaged?") from None
    except (pa.ArrowException, OSError) as error:
        if delimiter is not None and isinstance(error, pa.ArrowInvalid):
            raise InvalidInput(f"cannot read {path}: {text.problem(str(error), path, delimiter)}") from None
        raise InvalidInput(f"cannot read {path}: {why_unreadable(error)}") from None
