"""The labels of a message: id, code and private label of each record, in Parquet."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.artifact.description import Header
from labeldp.artifact.manifest import file_digest
from labeldp.errors import InvalidInput, why_unreadable
from labeldp.mechanisms import FiniteMechanism
from labeldp.sampling.ids import array_of, numbers_in
from labeldp.tables.files import check_density, open_parquet, rows_in

READ_ROWS = 1 << 19
GROUP_ROWS = 1 << 19
GROUP_TEXT = 1 << 26
"""A row group has `GROUP_ROWS` rows, or fewer if their ids would have more than `GROUP_TEXT` bytes of text. The last
group has the rest. So at most 64 MB of ids are buffered, and a read of `READ_ROWS` rows returns one group."""
_EDITED = "the message was edited or mixed up. Ask for it again"


@dataclass(frozen=True)
class LabelsFile:
    """One batch of a message on disk, or one part of a batch, as Parquet.

    Reading checks every row against the mechanism and the header. Of the input, the schema contains only the name and
    the type of the id column.
    """

    path: Path
    header: Header
    mechanism: FiniteMechanism
    sha256: str | None = None
    """The listed digest. If it is known, the file is compared again after its last row, in case it has changed."""
    id_type: pa.DataType | None = None
    """The type of the message's ids. If it is known, the ids of this file are read as that type."""

    def schema(self) -> pa.Schema:
        """Return the columns and their types."""
        return pq.read_schema(self.path)

    def count(self) -> int:
        """Return the number of records."""
        return rows_in(pq.read_metadata(self.path))

    def check(self) -> None:
        """Raise `InvalidInput` if the columns do not match the message, or if the file is too small for its number of rows.

        Rows are checked when they are read.
        """
        with self._readable():
            schema, rows = self.schema(), self.count()
        self._check_columns(schema)
        check_density(rows, self.path)

    def count_written(self) -> int:
        """Return the number of records of a file that was just written, after the tests of `check`. Disk errors are passed on."""
        self._check_columns(self.schema())
        return self.count()

    def _check_columns(self, schema: pa.Schema) -> None:
        wanted = [self.header.id_column, "code", "private_label"]
        if schema.names != wanted:
            raise InvalidInput(f"{self.path} has the columns {schema.names}, but mechanism.json requires {wanted}")
        ids, code, value = schema.types
        if id_kind(ids) != self.header.id_type or not _holds_codes(code) or value != pa.float64():
            raise InvalidInput(f"{self.path} does not have the column types given in mechanism.json; {_EDITED}")

    def batches(self) -> Iterator[tuple[pa.Array, NDArray[np.uint32]]]:
        """Yield (ids, codes) of the records, with every code checked against the mechanism."""
        outputs, rows = self.mechanism.outputs, 0
        with self._readable(), open_parquet(self.path, piecewise=False) as parquet:
            for batch in parquet.iter_batches(READ_ROWS):
                if any(column.null_count for column in batch.columns):
                    raise InvalidInput(f"{self.path} has empty fields; {_EDITED}")
                codes = np.asarray(batch.column("code"))
                values = np.asarray(batch.column("private_label"))
                if not ((codes >= 0) & (codes < outputs.size)).all() or (outputs[codes] != values).any():
                    raise InvalidInput(f"{self.path} has a code that does not fit mechanism.json; {_EDITED}")
                rows += codes.size
                yield self._typed(batch.column(self.header.id_column)), codes.astype(np.uint32)
            if rows != self.count():
                raise InvalidInput(f"{self.path} claims {self.count():,} rows and has {rows:,}; {_EDITED}")
            if self.sha256 not in (None, file_digest(self.path)):
                raise InvalidInput(
                    f"{self.path} changed while the message was open. Discard the data and open the message again"
                )

    def _typed(self, ids: pa.Array) -> pa.Array:
        """Return the ids in the type of the message. Writers use different types: Spark lacks unsigned ones."""
        if self.id_type is None or ids.type == self.id_type:
            return ids
        try:
            return ids.cast(self.id_type)
        except pa.ArrowInvalid:  # its message quotes the id
            raise InvalidInput(
                f"{self.path} has an id that does not fit the type {self.id_type}, the type of the ids in the message's first file; "
                f"{_EDITED}"
            ) from None

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (UnicodeDecodeError, MemoryError):
            raise InvalidInput(f"{self.path} is damaged. Ask for the message again.") from None
        except (pa.ArrowException, OSError) as error:
            raise InvalidInput(
                f"cannot read {self.path}: {why_unreadable(error)}. Ask for the message again."
            ) from None


class LabelsWriter:
    """A writer of a new labels file.

    The bytes of the file depend only on the ids and codes and their order. They must not depend on the input's batches:
    these are cut at bytes of its text, so the digits of one true label could move the end of a row group. So rows are
    buffered until their group is full.
    """

    def __init__(self, path: Path, id_name: str, id_type: pa.DataType, mechanism: FiniteMechanism) -> None:
        check_id_name(id_name)
        self._outputs = mechanism.outputs
        code_type = pa.from_numpy_dtype(code_dtype(mechanism.outputs.size))
        self.schema = pa.schema([(id_name, id_type), ("code", code_type), ("private_label", pa.float64())])
        dictionaries = ["code", "private_label"]
        self._writer = pq.ParquetWriter(
            path, self.schema, use_dictionary=dictionaries, compression="snappy", store_schema=False
        )
        self._waiting: list[tuple[pa.Array, NDArray[Any]]] = []
        self._rows = self._text = 0

    def write(self, ids: pa.Array, codes: NDArray[Any]) -> None:
        """Append records."""
        ends = _text_ends(ids)
        start = 0
        while start < len(ids):
            before = int(ends[start])
            fit = int(np.searchsorted(ends, before + GROUP_TEXT - self._text, side="right")) - 1 - start
            if self._rows == 0:
                fit = max(fit, 1)  # an id longer than a group forms its own group
            rows = max(0, min(fit, GROUP_ROWS - self._rows, len(ids) - start))
            self._waiting.append((ids.slice(start, rows), codes[start : start + rows]))
            start += rows
            self._rows += rows
            self._text += int(ends[start]) - before
            if start < len(ids):  # a row does not fit into this group
                self._write_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._rows:
                self._write_group()
        finally:
            self._writer.close()

    def _write_group(self) -> None:
        """Write the buffered rows, each column as one chunk, because Parquet's pages end at the end of a chunk."""
        ids, codes = zip(*self._waiting, strict=True)
        self._waiting, self._rows, self._text = [], 0, 0
        together = np.concatenate(codes)
        columns = [pa.concat_arrays(ids), array_of(together), array_of(self._outputs[together])]
        self._writer.write_batch(pa.record_batch(columns, schema=self.schema))


def _text_ends(ids: pa.Array) -> NDArray[np.int64]:
    """Return 0 and the end of each text id in their concatenation. Integer ids have length 0."""
    ends = np.zeros(len(ids) + 1, np.int64)
    if not pa.types.is_integer(ids.type):
        np.cumsum(numbers_in(pc.binary_length(ids)), out=ends[1:])
    return ends


def check_id_name(name: str) -> None:
    """Raise `InvalidInput` if another column of the message has the name of the id column."""
    if name in ("code", "private_label"):
        raise InvalidInput(
            f"the id column cannot be called {name!r}, which is the name of another column of the message: rename it"
        )


def code_dtype(outputs: int) -> Any:
    """Return the smallest unsigned type that fits every code. It depends only on the mechanism."""
    return np.uint8 if outputs <= 1 << 8 else np.uint16 if outputs <= 1 << 16 else np.uint32


def _holds_codes(kind: pa.DataType) -> bool:
    """Return whether a column of codes may have this type. The signed types come from Spark, which lacks unsigned ones."""
    return pa.types.is_unsigned_integer(kind) or kind in (pa.int16(), pa.int32())


def id_kind(kind: pa.DataType) -> str:
    """Return the type of ids in a message: "int" or "str", or the name of an Arrow type that a message cannot contain."""
    if pa.types.is_integer(kind):
        return "int"
    return "str" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)
