"""The one message from the labels party to the features party: a folder that is there whole or not at all.

`mechanism.json` says all that is public, `labels.parquet` (and `labels/part-*.parquet` for later batches) holds id, code and
private label, `PRIVACY.md` states the guarantee in plain words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.budget import decimal_text
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism, Mechanism
from labeldp.message.manifest import Header

READ_ROWS = 1 << 19


@dataclass(frozen=True)
class Message:
    """A message that was read and checked: the mechanism is proven again, its digest and the columns compared."""

    path: Path
    mechanism: FiniteMechanism
    header: Header

    @classmethod
    def open(cls, path: str | Path) -> Message:
        """Reads and checks everything but the rows themselves; those are checked as they are read."""
        folder = Path(path)
        described = folder / "mechanism.json"
        if not folder.is_dir() or not described.is_file():
            raise InvalidInput(f"{folder} is not a message: a folder with mechanism.json and labels.parquet is needed")
        try:
            text = described.read_text(encoding="utf-8")
            mechanism = Mechanism.from_json(text)
            record = json.loads(text)
            header = Header.of(record.get("message"))
        except InvalidInput as error:
            raise InvalidInput(f"{described}: {error}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read {described}: {error}. Ask for the message again") from error
        if not isinstance(mechanism, FiniteMechanism):
            raise InvalidInput(f"{folder} names a mechanism for comparison only: it cannot be a release")
        message = cls(folder, mechanism, header)
        if record.get("epsilon_total") != decimal_text(message.epsilon_exact, places=400):
            raise InvalidInput(
                f"{described}: the parts of epsilon do not add up to epsilon_total; the message was edited"
            )
        for file in message.files():
            _check_file(file, message)
        return message

    @property
    def epsilon_exact(self) -> Fraction:
        """What the message cost for each label: the private prior and the mechanism."""
        prior = self.mechanism.prior
        return self.mechanism.epsilon_exact + (prior.epsilon_exact if prior is not None else 0)

    def files(self) -> list[Path]:
        """The first batch and the later ones, in order."""
        first = self.path / "labels.parquet"
        later = sorted((self.path / "labels").glob("part-*.parquet"))
        if not first.is_file():
            raise InvalidInput(f"{self.path} is not a whole message: labels.parquet is missing")
        return [first, *later]

    @property
    def rows(self) -> int:
        import pyarrow.parquet as pq

        return sum(pq.ParquetFile(file).metadata.num_rows for file in self.files())

    def batches(self) -> Iterator[tuple[pa.Array, NDArray[np.uint32]]]:
        """(ids, codes) of all batches, every code checked against the mechanism."""
        import pyarrow.parquet as pq

        for file in self.files():
            try:
                for batch in pq.ParquetFile(file).iter_batches(READ_ROWS):
                    if any(column.null_count for column in batch.columns):
                        raise InvalidInput(f"{file} has empty fields; the message was edited or mixed up")
                    codes = np.asarray(batch.column("code")).astype(np.uint32)
                    values = np.asarray(batch.column("private_label"))
                    known = codes < self.mechanism.outputs.size
                    if not known.all() or (self.mechanism.outputs[codes] != values).any():
                        raise InvalidInput(
                            f"{file}: a code does not fit mechanism.json; the message was edited or mixed up"
                        )
                    yield batch.column(self.header.id_column), codes
            except (pa.ArrowInvalid, OSError) as error:
                raise InvalidInput(
                    f"{file} is damaged: {str(error).splitlines()[0]}. Ask for the message again."
                ) from error


def _check_file(file: Path, message: Message) -> None:
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInput(f"{file} is damaged: {str(error).splitlines()[0]}. Ask for the message again.") from error
    wanted = [message.header.id_column, "code", "private_label"]
    if schema.names != wanted:
        raise InvalidInput(f"{file} has the columns {schema.names}, a message of {message.path} has {wanted}")
    ids, code, value = schema.types
    kind = (
        "int"
        if pa.types.is_integer(ids)
        else "str"
        if pa.types.is_string(ids) or pa.types.is_large_string(ids)
        else str(ids)
    )
    if kind != message.header.id_type or not pa.types.is_unsigned_integer(code) or value != pa.float64():
        raise InvalidInput(
            f"{file} has columns of other types than mechanism.json says; the message was edited or mixed up"
        )
