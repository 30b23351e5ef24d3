"""Opening and reading a message's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.artifact.description import Header, read_description, total_epsilon
from labeldp.artifact.id_join import without_repeats
from labeldp.artifact.labels_file import LabelsFile
from labeldp.artifact.manifest import (
    MANIFEST,
    ListedBatch,
    ListedFile,
    Manifest,
    Signature,
    exact_text,
    open_release,
    read_manifest,
)
from labeldp.artifact.signing import SigningKey
from labeldp.budget import float_up
from labeldp.errors import InvalidInput
from labeldp.formatting import Tabular
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.release_kind import LABELS


@dataclass(frozen=True, repr=False)
class Message(Tabular):
    """A message from the labels party, opened and checked: private labels by record id. It contains no true labels.

    Get one from `Message.open`. Its length is the number of records, and `to_arrow`, `to_pandas` and `to_polars` return
    the table of ids, codes and private labels.

    Attributes
    ----------
    path : Path
        The folder.
    mechanism : FiniteMechanism
        The mechanism that randomized the labels.
    header : Header
        The release's id, the name and type of the id column, whether rows keep the input's order and whether the
        labels party kept the key.
    files : tuple of LabelsFile
        The labels files in the folder when it was opened: the first batch, then the batches that `apply` added. A batch
        is one file or several parts.
    records : int
        The number of records in all batches.
    manifest : Manifest
        Every file of the message with its size and SHA-256.
    signature : Signature or None
        The fingerprint of the sender's key, if the message is signed, and whether the signature was verified.

    See Also
    --------
    join : Match the ids of a feature table to a message.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource, Message, privatize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     labels, out = f"{folder}/labels.parquet", f"{folder}/message"
    ...     pq.write_table(pa.table({"order": range(400), "amount": [20.0, 80.0] * 200}), labels)
    ...     _ = privatize(LabelSource(labels, "amount", "order"), LabelRandomizer(1, (0, 100)), out)
    ...     message = Message.open(out)
    ...     table = message.to_arrow()
    >>> len(message), message.epsilon
    (400, 1.0)
    >>> table.column_names
    ['order', 'code', 'private_label']
    """

    path: Path
    mechanism: FiniteMechanism
    header: Header
    files: tuple[LabelsFile, ...]
    records: int
    manifest: Manifest
    signature: Signature | None

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify_key: str | os.PathLike[str] | None = None) -> Message:
        """Open a message and check it.

        Every file is compared with the manifest, the mechanism's privacy is proven again, and digests, totals and columns
        are compared. The rows are checked later, when they are read.

        Parameters
        ----------
        path : str or Path
            The message's folder.
        verify_key : str or Path, optional
            The sender's public key, a PEM file. The message must then be signed with it. Without it the checks detect
            accidents and careless edits, but not an attacker who also wrote a new manifest.

        Returns
        -------
        Message

        Raises
        ------
        InvalidInput
            If the folder is not a message, is damaged, was edited, or is not signed with the key.
        """
        folder, manifest, signature = open_release(path, LABELS, verify_key)
        return cls(folder, *_read(folder, manifest), manifest.records, manifest, signature)

    @property
    def epsilon_exact(self) -> Fraction:
        """The cost of the message for each label, or for each person: the private prior and the randomized labels."""
        return self.header.entries * total_epsilon(self.mechanism)

    @property
    def epsilon(self) -> float:
        """`epsilon_exact` as a float, rounded up."""
        return float_up(self.epsilon_exact)

    @property
    def labels(self) -> PrivateLabels:
        """The private labels of all records, in the order of the message."""
        codes = np.concatenate([codes for _, codes in self.batches()])
        return PrivateLabels(codes, self.mechanism, entries=self.header.entries)

    @property
    def id_type(self) -> pa.DataType:
        """The Arrow type of the ids in the first file. The ids of all other files are read as this type."""
        return self.files[0].schema().types[0]

    @property
    def next_file(self) -> Path:
        """The path for the labels of the next batch, a file or a folder of parts."""
        return LABELS.batch_path(self.path, len(self.manifest.batches))

    def batches(self) -> Iterator[tuple[pa.Array, NDArray[np.uint32]]]:
        """Read the records piece by piece, so that the message need not fit into memory.

        Yields
        ------
        ids : pyarrow.Array
            The ids of some records, of the type `id_type`.
        codes : array of uint32
            Their codes, each checked against the mechanism.

        Raises
        ------
        InvalidInput
            If a file is damaged, a row does not fit the mechanism or, after the last row, if an id occurred twice.
        """
        yield from without_repeats(self._rows, self.records, self.path)

    def _rows(self) -> Iterator[tuple[pa.Array, NDArray[np.uint32]]]:
        for file in self.files:
            yield from file.batches()

    def to_arrow(self) -> pa.Table:
        """Return the columns of the message as a table: the ids, `code` and `private_label`, in the order of the message.

        Returns
        -------
        pyarrow.Table
        """
        names = [self.header.id_column, "code", "private_label"]
        return pa.Table.from_batches(
            pa.record_batch([ids, pa.array(codes), pa.array(self.mechanism.outputs[codes])], names)
            for ids, codes in self.batches()
        )

    def __len__(self) -> int:
        return self.records

    @property
    def unit(self) -> str | None:
        """The unit of labels that are durations, such as "hours"; None for plain numbers."""
        return None if self.mechanism.domain is None else self.mechanism.domain.unit

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, indexed by the private labels; None for numbers."""
        return None if self.mechanism.domain is None else self.mechanism.domain.classes

    def _facts(self) -> dict[str, str]:
        return {
            "path": repr(str(self.path)),
            "records": f"{self.records:,}",
            "epsilon": f"{self.epsilon:g}",
            "ids": f"{self.header.id_column!r} ({self.header.id_type})",
            **({} if self.header.persons is None else {"persons": repr(self.header.persons.column)}),
            **({} if self.unit is None else {"unit": self.unit}),
            **({} if self.classes is None else {"classes": ", ".join(self.classes)}),
            "mechanism": repr(self.mechanism),
        }


def open_to_extend(folder: Path, key: SigningKey | None) -> Message:
    """Open the message for `apply`, which may have been killed between adding a batch and listing it in the manifest.

    The result contains such a batch in `files` and `manifest`, as if it were listed. The caller must check that it
    knows this batch. A signed message is opened only with the key that signed it.
    """
    manifest, signature = read_manifest(folder, LABELS)
    if signature is not None:
        if key is None or key.verify_key.fingerprint != signature.key:
            raise InvalidInput(
                f"{folder} is signed with the key {signature.key}, and a later batch needs a new signature by the same key: "
                "give its file with --sign-key"
            )
        manifest, signature = read_manifest(folder, LABELS, key.verify_key)
    further = LABELS.batch_path(folder, len(manifest.batches))
    name = further.relative_to(folder).as_posix()
    manifest.check_files(folder, allowed=name)
    mechanism, header, files = _read(folder, manifest)
    if os.path.lexists(further):
        added = ListedBatch.of(further, name, lambda path: _checked(LabelsFile(path, header, mechanism)).count())
        manifest = replace(manifest, files=(*manifest.files, *added.files))
        files += _labels_files(folder, added.files, header, mechanism, files[0].id_type)
    return Message(folder, mechanism, header, files, manifest.records, manifest, signature)


def _read(folder: Path, manifest: Manifest) -> tuple[FiniteMechanism, Header, tuple[LabelsFile, ...]]:
    """Return the content of the files of a manifest. They must agree with the manifest and with each other."""
    mechanism, header = read_description(folder / LABELS.description)
    described = {"release": header.release, "epsilon_total": exact_text(header.entries * total_epsilon(mechanism))}
    for name, value in described.items():
        if getattr(manifest, name) != value:
            raise InvalidInput(
                f"{folder}: {MANIFEST} has another {name} than {LABELS.description}; the message was edited or mixed up. Ask for it again"
            )
    files = _labels_files(folder, manifest.data, header, mechanism)
    for file, listed in zip(files, manifest.data, strict=True):
        if file.count() != listed.rows:
            raise InvalidInput(
                f"{file.path} has {file.count():,} rows, but {MANIFEST} lists {listed.rows:,}; the message was edited. Ask for it again"
            )
    if manifest.records < 1:
        raise InvalidInput(f"{folder} contains no records; the message was edited or damaged. Ask for it again")
    return mechanism, header, files


def _labels_files(
    folder: Path,
    listed: tuple[ListedFile, ...],
    header: Header,
    mechanism: FiniteMechanism,
    id_type: pa.DataType | None = None,
) -> tuple[LabelsFile, ...]:
    """Return these labels files. Their ids are read in that type, or in the type of the first of them."""
    files = [_checked(LabelsFile(folder / file.name, header, mechanism, file.sha256)) for file in listed]
    id_type = id_type or files[0].schema().types[0]
    return tuple(replace(file, id_type=id_type) for file in files)


def _checked(file: LabelsFile) -> LabelsFile:
    file.check()
    return file
