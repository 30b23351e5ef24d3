"""Files of labels as a stream of checked record batches: Parquet, CSV, TSV (plain or gzip), Arrow IPC."""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.engines.arrow import files
from labeldp.engines.arrow.columns import id_kind, identifiers, numbers
from labeldp.engines.arrow.text import read_text
from labeldp.errors import InvalidInput

BATCH_ROWS = files.BATCH_ROWS
TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
IPC_SUFFIXES = (".arrow", ".feather", ".ipc", ".arrows")
_DAMAGED = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowCapacityError,
    OSError,
    EOFError,
    zlib.error,
)

__all__ = ["BATCH_ROWS", "LabelBatch", "LabelSource", "count_rows", "id_kind"]


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
    Labels come out as finite float64; ids without nulls, as int64 (uint64 where a file says so) or large_string, whatever
    the width or encoding in the file; anything else is refused by row. Memory is bounded by a batch, not by a file.
    """

    path: Path
    label_column: str
    id_column: str | None = None
    id_type: str | None = None

    def __post_init__(self) -> None:
        if self.id_column == self.label_column:
            raise InvalidInput(
                f"the label column {self.label_column!r} cannot be the id column too: ids are part of the message as they are"
            )

    def batches(self) -> Iterator[LabelBatch]:
        """The records in the order of the files, folders in the order of their part names.

        Small pieces (parts, row groups, streamed batches) are joined, so that what follows has few and large ones.
        """
        waiting: list[LabelBatch] = []
        rows = size = total = 0
        for piece in self._pieces():
            if waiting and waiting[0].ids.type != piece.ids.type:
                yield _joined(waiting)
                waiting, rows, size = [], 0, 0
            waiting.append(piece)
            rows, size, total = rows + piece.labels.size, size + piece.ids.nbytes, total + piece.labels.size
            if rows > BATCH_ROWS // 2 or size > files.BATCH_BYTES // 2:
                yield _joined(waiting)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield _joined(waiting)
        if total == 0:
            raise InvalidInput(f"{self.path} holds no records: there is nothing to randomize")

    def files(self) -> list[Path]:
        """The file itself, or the data files of a folder; what is hidden or underscored, file or folder, does not count."""
        if self.path.is_dir():
            parts = sorted(
                part
                for part in self.path.rglob("*")
                if part.is_file() and not any(name[0] in "._" for name in part.relative_to(self.path).parts)
            )
            if not parts:
                raise InvalidInput(f"the folder {self.path} holds no data files")
            return parts
        if not self.path.exists():
            raise InvalidInput(f"there is no file {self.path}")
        if not stat.S_ISREG(self.path.stat().st_mode):
            raise InvalidInput(f"{self.path} is not a file on disk: the input is read twice, so save it to one first")
        return [self.path]

    @property
    def id_name(self) -> str:
        """How the id column is called in the message."""
        return self.id_column or "row"

    def read_columns(self, file: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        """These columns of one file, unchecked, in batches of bounded size; text files give every column but the labels as text."""
        suffixes = [suffix.lower() for suffix in file.suffixes if suffix.lower() != ".gz"]
        suffix = suffixes[-1] if suffixes else ""
        if suffix in TEXT_SUFFIXES:
            return read_text(file, TEXT_SUFFIXES[suffix], wanted, number=self.label_column)
        if suffix in IPC_SUFFIXES:
            return files.read_ipc(file, wanted)
        if suffix in PARQUET_SUFFIXES or files.magic(file) == b"PAR1":
            return files.read_parquet(file, wanted)
        raise InvalidInput(
            f"cannot tell what {file} is: name it .parquet, .csv, .tsv (these two also with .gz), .arrow or .feather"
        )

    def is_text(self, file: Path) -> bool:
        return any(suffix.lower() in TEXT_SUFFIXES for suffix in file.suffixes)

    def _pieces(self) -> Iterator[LabelBatch]:
        wanted = [self.label_column] if self.id_column is None else [self.label_column, self.id_column]
        id_type = self.id_type
        first = 0
        for file in self.files():
            with _whole(file):
                for batch in self.read_columns(file, wanted):
                    if not batch.num_rows:
                        continue
                    labels = numbers(batch.column(self.label_column), self.label_column, first, file)
                    if self.id_column is None:
                        ids = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
                    else:
                        column = batch.column(self.id_column)
                        ids = identifiers(column, self.id_column, first, file, id_type, text_file=self.is_text(file))
                        if self.is_text(file):
                            id_type = id_kind(ids.type)  # the first block decides; a later one that differs is refused
                    yield LabelBatch(ids, labels, first)
                    first += batch.num_rows


def count_rows(source: LabelSource) -> int:
    """How many records there are, without looking at a label: from Parquet's metadata, or by reading ids or lines."""
    total = 0
    for file in source.files():
        with _whole(file):
            if file.suffix.lower() in PARQUET_SUFFIXES:
                total += files.parquet_rows(file)
                continue
            blind = LabelSource(source.path, "", source.id_column)
            wanted = [source.label_column if source.id_column is None else source.id_column]
            total += sum(batch.num_rows for batch in blind.read_columns(file, wanted))
    return total


@contextmanager
def _whole(file: Path) -> Iterator[None]:
    """Turns what pyarrow says of a damaged file into a refusal that names it."""
    try:
        yield
    except _DAMAGED as error:
        text = files.first_line(error)
        raise InvalidInput(f"cannot read {file}: {text}. Is the file complete and undamaged?") from error


def _joined(pieces: list[LabelBatch]) -> LabelBatch:
    if len(pieces) == 1:
        return pieces[0]
    ids = pa.concat_arrays([piece.ids for piece in pieces])
    return LabelBatch(ids, np.concatenate([piece.labels for piece in pieces]), pieces[0].first_row)
