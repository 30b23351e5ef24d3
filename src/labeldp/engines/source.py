"""Files of labels as a stream of checked record batches: Parquet, CSV, TSV (plain or gzip), Arrow IPC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput

BATCH_ROWS = 1 << 19
TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
IPC_SUFFIXES = (".arrow", ".feather", ".ipc", ".arrows")
_DAMAGED = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError, OSError, EOFError)


@dataclass(frozen=True)
class LabelBatch:
    """Some consecutive records: `first_row` is the number of the first one in the whole input, from 0."""

    ids: pa.Array
    labels: Floats
    first_row: int


@dataclass(frozen=True)
class LabelSource:
    """A file, or a folder of files, with a label column and perhaps an id column. Reading may be repeated.

    Without `id_column` the row number is the id. `id_type` ("int" or "str") settles what text files leave open.
    Labels come out as finite float64 and ids without nulls; anything else is refused by row.
    """

    path: Path
    label_column: str
    id_column: str | None = None
    id_type: str | None = None

    def batches(self) -> Iterator[LabelBatch]:
        """The records in the order of the files, folders in the order of their part names."""
        first = 0
        for file in self.files():
            try:
                for batch in self.read_columns(file):
                    if batch.num_rows:
                        yield self._checked(batch, first, file)
                        first += batch.num_rows
            except _DAMAGED as error:
                raise InvalidInput(
                    f"cannot read {file}: {_first_line(error)}. Is the file complete and undamaged?"
                ) from error
        if first == 0:
            raise InvalidInput(f"{self.path} holds no records: there is nothing to randomize")

    def files(self) -> list[Path]:
        """The file itself, or the data files of a folder; hidden and underscored ones do not count."""
        if self.path.is_dir():
            parts = sorted(p for p in self.path.rglob("*") if p.is_file() and p.name[0] not in "._")
            if not parts:
                raise InvalidInput(f"the folder {self.path} holds no data files")
            return parts
        if not self.path.exists():
            raise InvalidInput(f"there is no file {self.path}")
        return [self.path]

    @property
    def id_name(self) -> str:
        """How the id column is called in the message."""
        return self.id_column or "row"

    def read_columns(self, file: Path) -> Iterator[pa.RecordBatch]:
        """The label and id columns of one file, unchecked."""
        wanted = list(dict.fromkeys([self.label_column, self.id_column or self.label_column]))
        suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() != ".gz"]
        suffix = suffixes[-1] if suffixes else ""
        if suffix in TEXT_SUFFIXES:
            return self._read_text(file, TEXT_SUFFIXES[suffix], wanted)
        if suffix in IPC_SUFFIXES:
            return self._read_ipc(file, wanted)
        if suffix in PARQUET_SUFFIXES or _magic(file) == b"PAR1":
            return self._read_parquet(file, wanted)
        raise InvalidInput(
            f"cannot tell what {file} is: name it .parquet, .csv, .tsv (these also with .gz), .arrow or .feather"
        )

    def _read_parquet(self, file: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20) as parquet:
            self._require(wanted, parquet.schema_arrow.names, file)
            yield from parquet.iter_batches(BATCH_ROWS, columns=wanted)

    def _read_ipc(self, file: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        from pyarrow import ipc

        with pa.memory_map(str(file)) as mapped:
            try:
                reader: Any = ipc.open_file(mapped)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            except pa.ArrowInvalid:
                mapped.seek(0)
                reader = ipc.open_stream(mapped)
                batches = iter(reader)
            self._require(wanted, reader.schema.names, file)
            for batch in batches:
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield batch.select(wanted).slice(start, BATCH_ROWS)

    def _read_text(self, file: Path, delimiter: str, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv

        names = self._text_header(file, delimiter)
        self._require(wanted, names, file)
        types: dict[str, pa.DataType] = {} if self.label_column == self.id_column else {self.label_column: pa.float64()}
        if self.id_column is not None and self.id_type is not None:
            types[self.id_column] = pa.int64() if self.id_type == "int" else pa.string()
        reader = csv.open_csv(
            file,
            read_options=csv.ReadOptions(block_size=1 << 24),
            parse_options=csv.ParseOptions(delimiter=delimiter),
            convert_options=csv.ConvertOptions(include_columns=wanted, column_types=types, strings_can_be_null=False),
        )
        try:
            yield from reader
        except pa.ArrowInvalid as error:
            raise InvalidInput(f"cannot read {file}: {_first_line(error)}. {self._text_hint(str(error))}") from error

    def _text_header(self, file: Path, delimiter: str) -> list[str]:
        import csv
        import gzip

        opener = gzip.open if file.suffix.lower() == ".gz" else open
        try:
            with opener(file, "rt", encoding="utf-8-sig", newline="") as text:
                header = next(csv.reader(text, delimiter=delimiter), None)
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{file} is not UTF-8 text: {error}") from error
        if not header:
            raise InvalidInput(f"{file} is empty: a header line with column names is needed")
        return header

    def _text_hint(self, error: str) -> str:
        if "conversion error to double" in error:
            return f"The label column {self.label_column!r} must hold numbers only."
        if "conversion error to int" in error:
            return "The ids begin as integers and go on as text: give --id-type str."
        return "Every row needs the columns of the header line."

    def _require(self, wanted: list[str], names: list[str], file: Path) -> None:
        for name in wanted:
            if names.count(name) > 1:
                raise InvalidInput(f"{file} has {names.count(name)} columns named {name!r}: rename all but one")
            if name not in names:
                close = get_close_matches(name, names, n=3, cutoff=0.4)
                hint = (
                    f"Did you mean {' or '.join(map(repr, close))}?"
                    if close
                    else f"It has {', '.join(map(repr, names[:20]))}."
                )
                raise InvalidInput(f"{file} has no column {name!r}. {hint}")

    def _checked(self, batch: pa.RecordBatch, first: int, file: Path) -> LabelBatch:
        labels = _numbers(batch.column(batch.schema.get_field_index(self.label_column)), self.label_column, first, file)
        if self.id_column is None:
            ids = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
        else:
            ids = _identifiers(batch.column(batch.schema.get_field_index(self.id_column)), self.id_column, first, file)
            if self.id_type is not None and self.id_type != id_kind(ids.type):
                ids = _as_type(ids, self.id_type, self.id_column, file)
        return LabelBatch(ids, labels, first)


def count_rows(source: LabelSource) -> int:
    """How many records there are, without looking at a label: from Parquet's metadata, or by reading ids or lines."""
    import pyarrow.parquet as pq

    if all(file.suffix.lower() in PARQUET_SUFFIXES for file in source.files()):
        try:
            return sum(int(pq.read_metadata(file).num_rows) for file in source.files())
        except _DAMAGED as error:
            raise InvalidInput(f"cannot read {source.path}: {_first_line(error)}") from error
    blind = replace(source, label_column=source.id_column) if source.id_column is not None else source
    return sum(batch.num_rows for file in source.files() for batch in blind.read_columns(file))


def id_kind(kind: pa.DataType) -> str:
    """Of an id column: "int" or "str"."""
    return "int" if pa.types.is_integer(kind) else "str"


def _as_type(ids: pa.Array, wanted: str, name: str, file: Path) -> pa.Array:
    try:
        return ids.cast(pa.int64() if wanted == "int" else pa.string())
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{file}: the ids in {name!r} cannot be read as {wanted}: {_first_line(error)}") from error


def _numbers(column: pa.Array, name: str, first: int, file: Path) -> Floats:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InvalidInput(f"{file}: the label column {name!r} holds {kind}, not numbers. Convert it first.")
    if column.null_count:
        rows = np.flatnonzero(np.asarray(column.is_null()))[:3] + first
        raise InvalidInput(
            f"{file}: the label column {name!r} has {column.null_count} missing values near row {', '.join(map(str, rows))} "
            "(rows count from 0). Drop or repair these records first."
        )
    labels = np.asarray(column.cast(pa.float64(), safe=False))
    bad = ~np.isfinite(labels)
    if bad.any():
        shown = ", ".join(f"row {row + first} ({labels[row]})" for row in np.flatnonzero(bad)[:3])
        raise InvalidInput(
            f"{file}: labels must be finite numbers, but {name!r} has {shown}. Drop or repair these records first."
        )
    return labels


def _identifiers(column: pa.Array, name: str, first: int, file: Path) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.string())
    elif not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
        raise InvalidInput(f"{file}: the id column {name!r} holds {kind}; ids must be integers or text")
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0]) + first
        raise InvalidInput(f"{file}: the id column {name!r} has no id in row {row} (rows count from 0)")
    return column


def _magic(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(4)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
