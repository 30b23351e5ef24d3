"""Private labels in memory: codes, and the public mechanism that they belong to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, frozen
from labeldp.budget import float_up
from labeldp.errors import InvalidInput, is_whole, why_unreadable
from labeldp.formatting import Tabular
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.finite import FiniteMechanism

if TYPE_CHECKING:
    import pyarrow as pa

_METADATA = b"labeldp mechanism"
_ENTRIES = b"labeldp entries of a person"


@dataclass(frozen=True, eq=False, repr=False)
class PrivateLabels(Tabular):
    """Private labels as codes, with the public mechanism that they belong to. It contains no true labels.

    It has a length, can be sliced like an array, and converts to one: `np.asarray(private)` is `values()`.

    If the unit of privacy is a person, most rows do not get a private label. Then there is one code for each chosen
    row, and `rows` contains its index among the labels: train on `X[private.rows]` and `private.values()`.

    Attributes
    ----------
    codes : array of uint32
        The number of the output drawn for each record.
    mechanism : FiniteMechanism
        The mechanism that randomized the labels.
    rows : array of int64 or None
        The index of each code's label among the given labels; None if every label has a code.
    entries : int
        The maximum number of randomized labels per person; 1 if the unit of privacy is a record.

    Examples
    --------
    >>> from labeldp import LabelRandomizer
    >>> private = LabelRandomizer(epsilon=1.0, domain=(0, 400)).randomize(range(400))
    >>> len(private[:100])
    100
    """

    codes: NDArray[np.uint32]
    mechanism: FiniteMechanism
    rows: NDArray[np.int64] | None = None
    entries: int = 1

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise InvalidInput(f"codes must be a flat array of whole numbers, got {codes.dtype} of shape {codes.shape}")
        if codes.size and not (int(codes.min()) >= 0 and int(codes.max()) < self.mechanism.outputs.size):
            raise InvalidInput(f"codes must lie from 0 to {self.mechanism.outputs.size - 1}, the mechanism's outputs")
        object.__setattr__(self, "codes", frozen(codes.astype(np.uint32)))
        if self.rows is not None:
            rows = np.asarray(self.rows)
            if rows.dtype.kind not in "iu" or rows.shape != codes.shape:
                raise InvalidInput("rows must be a flat array of whole numbers, one for each code")
            object.__setattr__(self, "rows", frozen(rows.astype(np.int64)))
        if not is_whole(self.entries, 1):
            raise InvalidInput("entries must be a whole number from 1: the most labels of one person")

    @property
    def epsilon_exact(self) -> Fraction:
        """The total cost per record or person: the private prior and the mechanism, once for each entry."""
        prior = self.mechanism.prior
        return self.entries * (self.mechanism.epsilon_exact + (prior.epsilon_exact if prior is not None else 0))

    @property
    def epsilon(self) -> float:
        """`epsilon_exact`, rounded up."""
        return float_up(self.epsilon_exact)

    def values(self, decoder: str = "auto") -> Floats:
        """Return a number to train on for each record that has a code.

        Parameters
        ----------
        decoder : {"auto", "bins", "debiased", "positive"}
            The values of the codes: for training, or "bins", the mechanism's own outputs; see `code_values`.

        Returns
        -------
        array of float64
        """
        return code_values(self.mechanism, decoder)[self.codes]

    def to_arrow(self) -> pa.Table:
        """Return the columns `code` and `private_label`, after `row` if some labels lack a code, with the mechanism in the metadata.

        As in a message, `private_label` is the mechanism's output, `values("bins")`. For "auto" and every other mechanism
        that is designed for training these are the values to train on; for "rr-on-bins" use `values()` instead.

        Returns
        -------
        pyarrow.Table
        """
        import pyarrow as pa

        columns: dict[str, NDArray[Any]] = {} if self.rows is None else {"row": self.rows}
        columns |= {"code": self.codes, "private_label": self.mechanism.outputs[self.codes]}
        metadata = {_METADATA: self.mechanism.to_json().encode(), _ENTRIES: str(self.entries).encode()}
        return pa.table(columns, metadata=metadata)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one Parquet file that `load` reads back: codes, private labels and the mechanism's description.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.
        """
        import pyarrow.parquet as pq

        target = Path(path)
        try:
            with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:  # a unique name
                partial = Path(folder) / target.name
                pq.write_table(self.to_arrow(), partial)
                partial.replace(target)
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PrivateLabels:
        """Read a file that `save` wrote. The mechanism is proven again and every code is checked against it.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        PrivateLabels

        Raises
        ------
        InvalidInput
            If the file is damaged, was edited, or contains something else.
        """
        import pyarrow as pa

        from labeldp.tables.files import open_parquet

        if not Path(path).is_file():
            raise InvalidInput(f"there is no file {path}; the labels of a message are Message.open(folder).labels")
        try:
            table = open_parquet(Path(path), piecewise=False).read()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"cannot read {path}: {why_unreadable(error)}") from None
        described = (table.schema.metadata or {}).get(_METADATA)
        if described is None or "code" not in table.schema.names:
            raise InvalidInput(f"{path} does not hold private labels as PrivateLabels.save writes them")
        mechanism = FiniteMechanism.from_json(described.decode(errors="replace"))
        codes: Any = table.column("code").to_numpy()
        rows: Any = table.column("row").to_numpy() if "row" in table.schema.names else None
        entries = table.schema.metadata.get(_ENTRIES, b"").decode(errors="replace")
        return cls(codes, mechanism, rows, int(entries) if entries.isdecimal() and len(entries) < 10 else 0)

    def __len__(self) -> int:
        return self.codes.size

    def __getitem__(self, rows: Any) -> PrivateLabels:
        chosen = None if self.rows is None else np.atleast_1d(self.rows[rows])
        return PrivateLabels(np.atleast_1d(self.codes[rows]), self.mechanism, chosen, self.entries)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values(), dtype=dtype, copy=copy)

    def _facts(self) -> dict[str, str]:
        return {"records": f"{len(self):,}", "epsilon": f"{self.epsilon:g}", "mechanism": repr(self.mechanism)}
