"""Opens a message's folder and reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.budget import float_up
from labeldp.errors import InvalidInput, expect_path
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.message.labels_file import FORMATS, LabelsFile
from labeldp.message.layout import DESCRIPTION, labels_path, labels_paths
from labeldp.message.manifest import Header, read_description, total_epsilon
from labeldp.shown import Tabular


@dataclass(frozen=True, repr=False)
class Message(Tabular):
    """A message from the labels party, opened and checked: private labels by record id. Holds no true label.

    Get one from `Message.open`. Its length is the number of records, and `to_arrow`, `to_pandas` and `to_polars` give
    the table of ids, codes and private labels.

    Attributes
    ----------
    path : Path
        The folder.
    mechanism : FiniteMechanism
        What randomized the labels.
    header : Header
        The release's id, the name and type of the id column, whether rows keep the input's order and whether the
        labels party kept the key.
    files : tuple of LabelsFile
        The batches that were in the folder when it was opened, the first one and those that `apply` added.
    records : int
        The number of records in all batches.

    See Also
    --------
    join : Matches the ids of a feature table to those of a message.

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

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Message:
        """Open a message and check it.

        The mechanism's privacy is proven again, and its digest and all columns are compared. The rows are checked
        later, when they are read.

        Parameters
        ----------
        path : str or Path
            The message's folder.

        Returns
        -------
        Message

        Raises
        ------
        InvalidInput
            If the folder is not a message, is damaged, or was edited.
        """
        expect_path(path, "path", "give the folder of the message")
        folder = Path(path)
        described = folder / DESCRIPTION
        if not folder.is_dir() or not described.is_file():
            raise InvalidInput(
                f"{folder} is not a message: a message is a folder with {DESCRIPTION} and {labels_path(Path(), 0)}"
            )
        mechanism, header = read_description(described)
        suffix = next((suffix for suffix in FORMATS if labels_path(folder, 0, suffix).is_file()), None)
        if suffix is None:
            names = " or ".join(str(labels_path(Path(), 0, suffix)) for suffix in FORMATS)
            raise InvalidInput(f"{folder} is not a whole message: {names} is missing")
        files = tuple(FORMATS[suffix](file, header, mechanism) for file in labels_paths(folder, suffix))
        for file in files:
            file.check()
        records = sum(file.count() for file in files)
        if records < 1:
            raise InvalidInput(f"{folder} holds no records; the message was edited or damaged")
        return cls(folder, mechanism, header, files, records)

    @property
    def epsilon_exact(self) -> Fraction:
        """What the message costs for each label: the private prior and the randomized label."""
        return total_epsilon(self.mechanism)

    @property
    def epsilon(self) -> float:
        """`epsilon_exact` as a float, rounded up."""
        return float_up(self.epsilon_exact)

    @property
    def labels(self) -> PrivateLabels:
        """The private labels of all records, in the order of the message."""
        return PrivateLabels(np.concatenate([codes for _, codes in self.batches()]), self.mechanism)

    @property
    def id_type(self) -> pa.DataType:
        """The Arrow type of the ids."""
        return self.files[0].schema().types[0]

    @property
    def next_file(self) -> Path:
        """Where the labels file of the next batch belongs."""
        return labels_path(self.path, len(self.files), self.files[0].suffix)

    def batches(self) -> Iterator[tuple[pa.Array, NDArray[np.uint32]]]:
        """Read the records piece by piece, so that the message need not fit into memory.

        Yields
        ------
        ids : pyarrow.Array
            The ids of some records.
        codes : array of uint32
            Their codes, each checked against the mechanism.

        Raises
        ------
        InvalidInput
            If a file is damaged or a row does not fit the mechanism.
        """
        for file in self.files:
            yield from file.batches()

    def to_arrow(self) -> pa.Table:
        """The columns of the message as a table: the ids, `code` and `private_label`, in the order of the message.

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

    def _facts(self) -> dict[str, str]:
        return {
            "path": repr(str(self.path)),
            "records": f"{self.records:,}",
            "epsilon": f"{self.epsilon:g}",
            "ids": f"{self.header.id_column!r} ({self.header.id_type})",
            **({} if self.unit is None else {"unit": self.unit}),
            "mechanism": repr(self.mechanism),
        }
