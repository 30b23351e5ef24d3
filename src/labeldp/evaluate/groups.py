"""Groups of records by a public column, and the common parts of releases by group: their table, their card and their folder."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.artifact.card import Card
from labeldp.artifact.manifest import Manifest, Signature
from labeldp.budget import rounded_up
from labeldp.errors import InvalidInput, is_whole
from labeldp.formatting import Tabular, count_of
from labeldp.json_text import Stored
from labeldp.release.flow import Drawn, Ready
from labeldp.release.private_sums import NOISE, SumsProof
from labeldp.release.sums import SummedRelease, open_sums
from labeldp.release_kind import ReleaseKind

MOST_GROUPS = 1000
"""The maximum number of groups. A column with more values is probably an id."""
SMALLEST_GROUP = 20
"""Groups with fewer records are merged."""
MISSING = "(missing)"
"""The name of the group of records without a value."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of records by one public column.

    Attributes
    ----------
    by : str
        The column.
    names : tuple of str
        The names of the groups that have figures.
    codes : array of int64
        The group of each record, or −1 if it is in none of them.
    merged : int
        The number of small groups that were merged into the last one, or left out if they are too few records even together.
    left_out : int
        The number of records in no group.
    """

    by: str
    names: tuple[str, ...]
    codes: NDArray[np.int64]
    merged: int = 0
    left_out: int = 0

    @classmethod
    def of(
        cls,
        column: pa.Array,
        by: str,
        where: object,
        least: int = SMALLEST_GROUP,
        persons: NDArray[np.int64] | None = None,
    ) -> Groups:
        """Return the groups by a column. Groups with fewer than `least` records or persons are merged into one.

        Raise `InvalidInput` for columns that are not text, whole numbers, dates or booleans, or that have too many values.
        """
        if not is_whole(least, 2):
            raise InvalidInput(
                "the smallest group must be a whole number of at least 2: the error of a single record is not meaningful"
            )
        encoded = column.dictionary_encode() if not pa.types.is_dictionary(column.type) else column
        values = encoded.dictionary
        if pa.types.is_nested(values.type) or pa.types.is_floating(values.type):
            raise InvalidInput(
                f"{where}: the column {by!r} holds {values.type}, and groups are text, whole numbers, dates or true and false"
            )
        if len(values) > MOST_GROUPS:
            raise InvalidInput(
                f"{where}: the column {by!r} has {len(values):,} different values, and there can be {MOST_GROUPS:,} groups. Is it an id? "
                "Give a column with fewer values"
            )
        order = np.asarray(pc.array_sort_indices(values), np.int64)
        rank = np.empty(len(values) + 1, np.int64)
        rank[order], rank[len(values)] = np.arange(len(values)), len(values)
        codes = rank[np.asarray(pc.fill_null(encoded.indices, len(values))).astype(np.int64)]
        names = [str(one) for one in values.take(pa.array(order)).to_pylist()] + [MISSING]
        return cls._merged(by, names, codes, least, persons)

    @classmethod
    def _merged(
        cls, by: str, names: Sequence[str], codes: NDArray[np.int64], least: int, persons: NDArray[np.int64] | None
    ) -> Groups:
        counts = np.bincount(codes, minlength=len(names))
        members = counts
        if persons is not None:
            members = np.bincount(np.unique(persons * len(names) + codes) % len(names), minlength=len(names))
        large, small = np.flatnonzero(members >= least), np.flatnonzero((members > 0) & (members < least))
        together = int(counts[small].sum())
        enough = (together if persons is None else np.unique(persons[np.isin(codes, small)]).size) >= least
        place = np.full(len(names), -1, np.int64)
        place[large] = np.arange(large.size)
        kept = [names[one] for one in large.tolist()]
        left_out = together
        if enough:
            place[small] = len(kept)
            kept.append(f"({count_of(small.size, 'small group')})")
            left_out = 0
        if not large.size:
            raise InvalidInput(
                f"no group of {by!r} has {least:,} {'records' if persons is None else 'persons'} or more: give a coarser column, or a smaller --smallest-group"
            )
        return cls(by, tuple(kept), place[codes], int(small.size), left_out)


class Figures(Stored, Tabular):
    """The base class of `Score` and `Report`: a table of figures computed from noisy sums. It contains no labels."""

    kind: ClassVar[ReleaseKind]
    persons: int | None

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify_key: str | os.PathLike[str] | None = None) -> Self:
        """Open the folder of such a release, compare every file with the manifest, and prove ε again.

        Parameters
        ----------
        path : str or Path
            The folder.
        verify_key : str or Path, optional
            The PEM file of the sender's public key. The folder must be signed with it.

        Returns
        -------
        Score or Report

        Raises
        ------
        InvalidInput
            If the folder is of another kind, or is damaged.
        """
        return FiguresAnswer.open(path, cls, verify_key).figures

    @abstractmethod
    def proof(self) -> SumsProof:
        """Return the costs of the noisy sums as exact fractions, and whether the total is within ε."""


R = TypeVar("R", bound=Ready)
F = TypeVar("F", bound=Figures)


class FiguresRelease(SummedRelease[R]):
    """A release whose data file is a table of figures."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.source = replace(self.source, classes=self.domain.classes)

    def scaled(self, labels: Floats) -> tuple[Floats, int]:
        """Return labels on the scale from 0 to 1, and how many lay outside the bounds. The positions of classes stay as they are."""
        if self.domain.classes is not None:
            return labels, 0
        lower, upper = self.domain.lower, self.domain.upper
        within = self.domain.check(labels, self.out_of_range)
        return (within - lower) / (upper - lower), int(np.count_nonzero((labels < lower) | (labels > upper)))

    def written(self, found: Figures, what: str, records: int, data: Path) -> Drawn:
        """Write the table of the figures, and return them with their card, which begins with `what` they are."""
        table, proof = found.to_arrow(), found.proof()
        data.write_bytes(csv_text(table))
        costs = "\n".join(f"- {line}" for line in proof.lines)
        card = Card(
            f"this {self.kind.value}",
            what,
            self.domain,
            records,
            proof.epsilon_claimed,
            f"""The figures follow from noisy sums, which cost:

{costs}

Together they are proven to cost {rounded_up(proof.total)} (`labeldp audit` repeats the proof).""",
            "- **Predictions, groups, and which records exist.** The number of records in each group is here without noise.",
            NOISE.format(
                "Predictions and groups were made without these labels, or from earlier releases of them that were charged"
            ),
            counted=found.persons,
        )
        return Drawn(self.epsilon, found.to_json(), card, lambda _: table.num_rows, found)


@dataclass(frozen=True, eq=False)
class FiguresAnswer(Generic[F]):
    """The folder of such a release, opened and checked.

    Attributes
    ----------
    path : Path
        The folder.
    figures : Score or Report
        Its content, proven again.
    manifest : Manifest
        Every file with its size and SHA-256.
    signature : Signature or None
        The fingerprint of the sender's key, if the folder is signed, and whether the signature was verified.
    """

    path: Path
    figures: F
    manifest: Manifest
    signature: Signature | None

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], of: type[F], verify_key: str | os.PathLike[str] | None
    ) -> FiguresAnswer[F]:
        """Open a folder with figures of this type, compare every file with the manifest, and prove ε again."""
        kind = of.kind
        folder, found, manifest, signature = open_sums(path, kind, of, verify_key)
        if not _same_figures(kind.batch_path(folder, 0), found.to_arrow()):
            raise InvalidInput(
                f"{folder}: {kind.batch_path(Path(), 0)} has other figures than {kind.description}. Ask for it again"
            )
        return cls(folder, found, manifest, signature)


_TYPES = {"group": pa.string(), "model": pa.string(), "records": pa.int64(), "figure": pa.string()}


def figures_table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows of figures as a table with these columns."""
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(column, _TYPES.get(name, pa.float64())) for name, column in columns})


def csv_text(table: pa.Table) -> bytes:
    """Return a table as CSV."""
    buffer = io.BytesIO()
    pa_csv.write_csv(table, buffer)
    return buffer.getvalue()


def _same_figures(file: Path, table: pa.Table) -> bool:
    """Return whether a CSV file has the figures of a table, as computed on any processor."""
    options = pa_csv.ConvertOptions(
        column_types=table.schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    try:
        stored = pa_csv.read_csv(file, convert_options=options)
    except (pa.ArrowException, OSError):
        return False
    if stored.schema != table.schema or stored.num_rows != table.num_rows:
        return False
    floats = [pa.types.is_floating(kind) for kind in table.schema.types]
    return all(
        np.allclose(one, two, rtol=1e-6, equal_nan=True) if is_float else one.equals(two)
        for one, two, is_float in zip(stored.columns, table.columns, floats, strict=True)
    )
