"""The one message from the labels party to the features party: a folder that is there whole or not at all.

`mechanism.json` says all that is public, `labels.parquet` (and `labels/part-*.parquet` for later batches) holds id, code and
private label, `PRIVACY.md` states the guarantee in plain words.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.budget import decimal_text
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism, Mechanism

MESSAGE_VERSION = 1
READ_ROWS = 1 << 19


@dataclass(frozen=True)
class Header:
    """What `mechanism.json` says about the release, besides the mechanism."""

    release: str
    id_column: str
    id_type: str
    keep_order: bool
    keyed: bool

    @staticmethod
    def of(record: Any) -> Header:
        try:
            if record["message_version"] != MESSAGE_VERSION:
                raise InvalidInput(
                    f"the message has version {record['message_version']!r}, this labeldp reads {MESSAGE_VERSION}: "
                    "install the version that wrote it, or a newer one"
                )
            return Header(**{name: record[name] for name in Header.__dataclass_fields__})
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"mechanism.json does not describe a message: {error} is missing") from error


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
        text = described.read_text(encoding="utf-8")
        mechanism = Mechanism.from_json(text)
        if not isinstance(mechanism, FiniteMechanism):
            raise InvalidInput(f"{folder} names a mechanism for comparison only: it cannot be a release")
        message = cls(folder, mechanism, Header.of(json.loads(text).get("message")))
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
                    codes = np.asarray(batch.column("code")).astype(np.uint32)
                    values = np.asarray(batch.column("private_label"))
                    wrong = (codes >= self.mechanism.outputs.size) | np.isnan(values)
                    if wrong.any() or (self.mechanism.outputs[codes] != values).any():
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


def describe(mechanism: FiniteMechanism, header: Header) -> str:
    """The text of `mechanism.json`: the mechanism's own description and the release's."""
    from labeldp import __version__

    prior = mechanism.prior
    spent = prior.epsilon_exact if prior is not None else Fraction(0)
    record = mechanism.to_record() | {
        "message": {"message_version": MESSAGE_VERSION, **{n: getattr(header, n) for n in Header.__dataclass_fields__}},
        "adjacency": "replace one label",
        "epsilon_prior": decimal_text(spent, places=400),
        "epsilon_labels": decimal_text(mechanism.epsilon_exact, places=400),
        "epsilon_total": decimal_text(spent + mechanism.epsilon_exact, places=400),
        "labeldp_version": __version__,
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


@contextmanager
def new_message(path: Path, release: str) -> Iterator[Path]:
    """A hidden folder beside `path` to write into; flushed to disk and renamed to `path` at the end, removed on failure.

    Its name carries the release, so that resuming a killed run finds what that run left and removes it.
    """
    partial = path.parent / f".{path.name}.{release}.partial"
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(mode=0o700)
    try:
        yield partial
        for file in sorted(partial.rglob("*")):
            flush(file)
        flush(partial)
        if path.exists():
            raise InvalidInput(f"{path} exists: choose another --out, nothing is overwritten")
        partial.chmod(0o755)
        partial.rename(path)
        flush(path.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def flush(path: Path) -> None:
    """To the disk itself, so that a power cut after the rename cannot leave an empty file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
