"""Files of labels as a stream of checked batches: Parquet, CSV, TSV (plain or gzip), Arrow IPC."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp.arrays import check_unit
from labeldp.artifact.labels_file import id_kind
from labeldp.engines.batches import FileTypes, LabelBatch, check_columns, checked_ids, checked_labels
from labeldp.errors import InvalidInput, described, expect_path
from labeldp.tables import files
from labeldp.tables.csv_text import checked_delimiter
from labeldp.tables.files import BATCH_ROWS, count_records, estimate_records, is_text, read_columns, readable

DECIDING_ROWS = 1 << 19
"""The number of ids at the start of a text file that determine whether its ids are integers."""
ROW_NUMBERS = "row numbers"
"""The type of the id column if it does not exist."""


@dataclass(frozen=True)
class LabelSource:
    """A file of labels, or a folder of such files, that is read in batches and may be read again.

    Formats: Parquet, CSV and TSV (also gzip-compressed) and Arrow IPC (Feather). Memory is bounded by a batch, not by a
    file.

    Parameters
    ----------
    path : str or Path
        The file, or a folder whose files are read in the order of their names. Files and folders whose names begin with
        "." or "_" are ignored.
    label_column : str
        The name of the label column. It must contain finite numbers, booleans, or durations if the domain has a unit.
    id_column : str, optional
        The name of the id column. It must contain integers or text. Without it, a record's id is its row number, from 0,
        and a message shows the order of the input: if that follows the labels, it reveals them.
    id_type : {"int", "str"}, optional
        Convert the ids to this type. By default the file determines the type. Text ids in a CSV file become integers if
        all of them are written as plain integers (the first 524,288 decide, and a later one that differs is an error).
    delimiter : str, optional
        The column separator of text files. By default it is found from the header line: a comma, a semicolon, a tab or "|".
    unit : str, optional
        The unit of the labels, such as "hours". Durations are converted to it. `privatize` and `apply` use the unit of
        the domain.
    decimal : {".", ","}, default "."
        The decimal separator of labels in text files.
    person_column : str, optional
        The name of the column with the person of each record, integers or text. All labels of a person then cost ε in
        total: a few records of each person are chosen, and only these get private labels. The message does not contain
        this column.
    classes : tuple of str, optional
        The names of classes, if labels are classes. `privatize` and `apply` use the names in the domain.

    Raises
    ------
    InvalidInput
        If the label column is also the id column, or if the id type, the delimiter or the unit is invalid.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"order": [17, 18], "amount": [20.5, 80.0]}), f"{folder}/sales.parquet")
    ...     (batch,) = LabelSource(f"{folder}/sales.parquet", "amount", "order").batches()
    >>> batch.ids.to_pylist(), batch.labels.tolist()
    ([17, 18], [20.5, 80.0])
    """

    path: str | os.PathLike[str]
    label_column: str
    id_column: str | None = None
    id_type: str | None = None
    delimiter: str | None = None
    unit: str | None = None
    decimal: str = "."
    person_column: str | None = None
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        expect_path(self.path, "path", "save the labels to a file, or give labels in memory to LabelRandomizer")
        object.__setattr__(self, "path", Path(self.path))
        object.__setattr__(self, "delimiter", checked_delimiter(self.delimiter))
        if self.decimal not in (".", ","):
            raise InvalidInput(f'the decimal separator must be "." or "," (--decimal), got {described(self.decimal)}')
        if self.unit is not None:
            check_unit(self.unit)
        check_columns(self.label_column, self.id_column, self.id_type, self.person_column)

    def batches(self) -> Iterator[LabelBatch]:
        """Read the records, checked, in the order of the files and of their rows.

        Small pieces (files, row groups) are joined into batches of up to about half a million rows.

        Yields
        ------
        LabelBatch
            Ids and labels of consecutive records.

        Raises
        ------
        InvalidInput
            If a file cannot be read, a label is not a finite number, an id is missing, or the input is empty.
        """
        waiting: list[LabelBatch] = []
        rows = size = total = 0
        for piece in self._pieces():
            if waiting and _types(waiting[0]) != _types(piece):
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
            raise InvalidInput(f"{self.path} contains no records: there is nothing to randomize")

    def files(self) -> list[Path]:
        """Return the file itself, or the data files of a folder in reading order.

        Returns
        -------
        list of Path

        Raises
        ------
        InvalidInput
            If there is no such file, or the folder contains no data files.
        """
        path = Path(self.path)
        if path.is_dir():
            parts = sorted(part for part in path.rglob("*") if part.is_file() and belongs_to(part, path))
            if not parts:
                raise InvalidInput(f"the folder {path} contains no data files: check the path")
            return parts
        if not path.exists():
            raise InvalidInput(f"there is no file {path}: check the path")
        if not path.is_file():
            raise InvalidInput(f"{path} is not a file on disk: the input is read twice, so save it to one first")
        return [path]

    @property
    def id_name(self) -> str:
        """The name of the id column in the message."""
        return self.id_column or "row"

    def _pieces(self) -> Iterator[LabelBatch]:
        named = (self.label_column, self.id_column, self.person_column)
        wanted = list(dict.fromkeys(name for name in named if name is not None))
        id_type, person_type = self.id_type, None
        first = 0
        for file in self.files():
            with readable(file):
                text = is_text(file)
                number = self.label_column if self.classes is None else None
                batches = read_columns(file, wanted, self.delimiter, number=number, decimal=self.decimal)
                if text and id_type is None and self.id_column is not None:
                    id_type, batches = _text_id_type(batches, self.id_column, first, file)
                if text and person_type is None and self.person_column is not None:
                    person_type, batches = _text_id_type(batches, self.person_column, first, file, "person")
                for batch in batches:
                    if not batch.num_rows:
                        continue
                    column = batch.column(self.label_column)
                    types = FileTypes(ROW_NUMBERS, str(column.type))
                    labels = checked_labels(column, self.label_column, first, file, self.unit, self.classes)
                    if self.id_column is None:
                        ids = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
                    else:
                        column = batch.column(self.id_column)
                        types = types._replace(ids=str(column.type))
                        ids = checked_ids(column, self.id_column, first, file, id_type, text_file=text)
                    persons = None
                    if (name := self.person_column) is not None:
                        column = batch.column(name)
                        persons = checked_ids(column, name, first, file, person_type, text_file=text, noun="person")
                    yield LabelBatch(ids, labels, first, types, persons)
                    first += batch.num_rows


def belongs_to(file: Path, folder: Path) -> bool:
    """Return whether a file is read with a folder: it is below it, and no part of the relative path begins with "." or "_"."""
    return file.is_relative_to(folder) and not any(name[0] in "._" for name in file.relative_to(folder).parts)


def count_rows(source: LabelSource) -> int:
    """Return the number of records without reading a label: as the files state it, or by reading ids or lines."""
    column = source.label_column if source.id_column is None else source.id_column
    total = 0
    for file in source.files():
        with readable(file):
            total += count_records(file, column, source.delimiter)
    return total


def estimate_rows(source: LabelSource) -> int | None:
    """Return the number of records if it can be found without parsing them; see `estimate_records`."""
    total = 0
    for file in source.files():
        with readable(file):
            rows = estimate_records(file)
        if rows is None:
            return None
        total += rows
    return total


def _text_id_type(
    batches: Iterator[pa.RecordBatch], name: str, first: int, file: Path, noun: str = "id"
) -> tuple[str | None, Iterator[pa.RecordBatch]]:
    """Return the type of the ids of a text file, "int" or "str" (None for an empty file), and all batches.

    The first `DECIDING_ROWS` ids decide, and a later id that differs is an error. The first block of the file must not
    decide, because its number of rows depends on the digits of labels.
    """
    held, seen = [], 0
    for batch in batches:
        held.append(batch)
        column = batch.column(name)[: DECIDING_ROWS - seen]
        ids = checked_ids(column, name, first + seen, file, None, text_file=True, noun=noun)
        if id_kind(ids.type) == "str":
            return "str", chain(held, batches)
        seen += len(ids)
        if seen == DECIDING_ROWS:
            break
    return "int" if seen else None, chain(held, batches)


def _joined(pieces: list[LabelBatch]) -> LabelBatch:
    if len(pieces) == 1:
        return pieces[0]
    ids = pa.concat_arrays([piece.ids for piece in pieces])
    labels = np.concatenate([piece.labels for piece in pieces])
    persons = [piece.persons for piece in pieces if piece.persons is not None]
    joined = pa.concat_arrays(persons) if persons else None
    return LabelBatch(ids, labels, pieces[0].first_row, pieces[0].types, joined)


def _types(batch: LabelBatch) -> tuple[object, ...]:
    return batch.ids.type, batch.types, None if batch.persons is None else batch.persons.type
