"""Releases of noisy sums: from the labels in a file for another party's cells, from arrays, and from any engine.

`sums_for_cells` is the labels party's step in one round with a features party. It matches labels to cells by id, and writes the folder that
goes back: `sums.json`, the ids of the records that were summed, and `PRIVACY.md`. `SumsAnswer` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.artifact.id_join import match_ids
from labeldp.artifact.manifest import MANIFEST, Manifest, Signature, exact_text, kind_in, open_release
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.engines.arrow.input_report import reported_together
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.batches import checked_ids
from labeldp.engines.passes import ExactSums, SumInput
from labeldp.errors import InvalidInput, PrivacyRefused, why_unreadable
from labeldp.formatting import count_of
from labeldp.json_text import Stored, read_text
from labeldp.release.account import Account
from labeldp.release.cells_file import CellColumns, CellsFile
from labeldp.release.flow import Drawn, Ready, ReleaseJob, Run, release
from labeldp.release.grid_labels import (
    MOST_SIGNS,
    SumsBudget,
    draw_answer,
    on_grid,
    require_few,
    require_room,
    require_several,
    sums_request,
)
from labeldp.release.label_range import first_look, histogram_parts, histogram_share
from labeldp.release.ledger import Ledger
from labeldp.release.noisy_sums import LARGEST_SUM, Answer
from labeldp.release.private_sums import PrivateSums, clip_units, sums_card
from labeldp.release.sum_queries import SumQueries
from labeldp.release_kind import SUMS, ReleaseKind
from labeldp.sampling.integer_noise import WIDEST
from labeldp.tables.files import Phase, check_density, open_parquet, rows_in

READ_ROWS = 1 << 19
WEIGHT = "weight"
"""The name of the column of weights, next to the ids, where a person is the unit of privacy."""


@dataclass(frozen=True)
class SumsPlan:
    """What a release of sums for columns will do, from ε, the columns and the number of records alone. Contains no label.

    Attributes
    ----------
    epsilon : Fraction
        What all answers cost together.
    columns : CellColumns
        The questions: one sum for each column of signs, and one for each cell of the others.
    records : int
        The number of labels that are summed, or of their persons.
    weight : int
        The weight of a person, where that is the unit of privacy.
    """

    epsilon: Fraction
    columns: CellColumns
    records: int
    weight: int = 1

    @property
    def epsilon_histogram(self) -> Fraction:
        """The part of ε for a histogram of the labels, which sets the clip."""
        return histogram_share(self.epsilon, self.records)

    @property
    def epsilon_each(self) -> Fraction:
        """An equal part of the rest, for all signs together and for each column of cell numbers."""
        return (self.epsilon - self.epsilon_histogram) / self.columns.groups

    def check(self, domain: Domain) -> None:
        """Raise `InvalidInput`, before the charge, for numbers that might leave 64 bits after it, for any clip."""
        cells, signs = self.weight * domain.count, len(self.columns.signs)
        narrowest = (
            max(1, domain.count // histogram_parts(domain, self.records, self.epsilon_histogram) - 1) * self.weight
        )
        # `draw_answer` doubles the grain until the scale is 4·signs, so it ends below twice that.
        grain = max(1.0, float(8 * signs * self.epsilon_each / narrowest))
        if (signs + 1) * cells / self.epsilon_each > WIDEST or self.records * cells * grain >= LARGEST_SUM:
            raise InvalidInput(
                "noise for this number of columns on this grid may not fit into 64-bit integers: give the domain fewer cells, a larger epsilon, "
                "or fewer columns"
            )


def release_sums(
    source: SumInput,
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    *,
    clip: tuple[float, float] | None = None,
    out_of_range: OutOfRange = "clip",
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> PrivateSums:
    """Draw noisy sums over the cells and against the signs of an input, for ε together.

    Parameters
    ----------
    source : SumInput
        The labels and the public columns.
    epsilon, domain, clip, out_of_range, ledger, dataset
        As in `PrivateSums.over_cells`.

    Returns
    -------
    PrivateSums
        With an answer against signs if there are any, then one over cells if there are any.

    Raises
    ------
    InvalidInput
        If something cannot be summed. Nothing is charged then.

    Privacy
    -------
    Costs ε. Every partition and all columns of signs together get an equal share.
    """
    check_out_of_range(out_of_range)
    grid = on_grid(Domain.of(domain))
    lower, upper = clip_units(clip, grid)
    budget = SumsBudget(epsilon, ledger, dataset)
    exact = _exact_sums(source, grid, lower, upper, out_of_range)
    answers: list[Answer] = []
    partitions, signs = len(exact.sizes), exact.sign_sums.size
    # Signs come first. Their noise is at least as wide as that of cells for an equal share, so noise that is refused for being
    # too wide is refused before anything is charged.
    if signs:
        share = budget.epsilon / (partitions + 1)
        answers.append(
            draw_answer(budget, exact, "signs", (signs,), lambda: (exact.sign_sums, exact.sign_counts), share)
        )
    if partitions:
        sums = exact.cell_sums, exact.cell_counts
        answers.append(draw_answer(budget, exact, "cells", exact.sizes, lambda: sums, budget.remaining))
    return PrivateSums(grid, exact.records, tuple(answers), budget.epsilon)


def _exact_sums(source: SumInput, grid: Domain, lower: int, upper: int, out_of_range: OutOfRange) -> ExactSums:
    """Return the exact sums, after every check."""
    sizes = source.sizes()
    require_few(sum(sizes))
    if source.sign_columns > MOST_SIGNS:
        raise InvalidInput(f"one answer has at most {MOST_SIGNS:,} columns of signs, got {source.sign_columns:,}")
    exact = source.sum_labels(grid, lower, upper, sizes, out_of_range)
    require_several(exact.records)
    require_room(exact.records, grid)
    grid.judge_clipping(exact.clipped, exact.records, out_of_range)
    return exact


def ask_columns(queries: SumQueries, plan: SumsPlan, rows: NDArray[np.int64] | None) -> PrivateSums:
    """Ask for the histogram, and then for the sums of each column."""
    columns = plan.columns
    signs = columns.table_of_signs(rows) if columns.signs else None
    sizes = columns.sizes
    first_look(queries)
    part = queries.remaining / columns.groups
    if signs is not None:
        queries.against_signs(signs, part)
    for place, size in zip(columns.whole, sizes, strict=True):
        column = columns.columns[place]
        queries.over_cells(column if rows is None else column[rows], size, part)
    return queries.released


@dataclass(frozen=True)
class SumsOutcome:
    """The result of `sums_for_cells`, for the labels party, which must not pass `clipped` on.

    Attributes
    ----------
    answer : Path
        The folder to send back.
    sums : PrivateSums
        What is in it.
    without_label : int
        How many records of the cells had no label and were left out.
    without_cells : int
        How many labels had no cells and were not used.
    clipped : int
        How many of the labels that were summed lay outside the bounds. This count is private: ε does not cover it.
    """

    answer: Path
    sums: PrivateSums
    without_label: int
    without_cells: int
    clipped: int = field(repr=False)


def sums_for_cells(
    source: LabelSource,
    cells: CellsFile,
    target: Path,
    epsilon: Epsilon,
    domain: Domain,
    *,
    matching: bool = False,
    out_of_range: OutOfRange = "clip",
    **options: Any,
) -> SumsOutcome:
    """Answer a file of cells with noisy sums of the labels in a file.

    Parameters
    ----------
    source : LabelSource
        The file of labels, with an id column.
    cells : CellsFile
        What the features party sent.
    target : Path
        The folder to write, which must not exist yet. It appears whole or not at all.
    epsilon : float, str, Decimal or Fraction
        What the answer costs.
    domain : Domain
        The public bounds.
    matching : bool
        Leave out records of the cells without a label. Otherwise they are an error. The answer lists the ids that were summed, so
        it tells which records have a label.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        As in `PrivateSums.over_cells`.
    **options
        `ledger`, `dataset`, `sign_key` and `phase` as in `privatize`.

    Returns
    -------
    SumsOutcome

    Raises
    ------
    InvalidInput
        If labels, cells or settings are refused. Nothing is charged then.
    InsufficientBudget
        If the ledger has less than ε left.

    Privacy
    -------
    Costs ε. Run it again, and it costs ε again: the noise is drawn afresh.
    """
    job = SumsRelease(source, cells, exact_epsilon(epsilon), domain, matching, out_of_range)
    ready, sums, _ = release(job, target, **options)
    without_label, without_cells = len(cells.ids) - ready.records, ready.labels - ready.records
    return SumsOutcome(target.absolute(), sums, without_label, without_cells, ready.clipped)


@dataclass(frozen=True)
class SumsReady(Ready):
    """Labels that were matched to cells: they wait in `queries` for their questions. `rows` are their rows in the cells."""

    plan: SumsPlan
    queries: SumQueries
    rows: NDArray[np.int64]
    labels: int
    clipped: int


R = TypeVar("R", bound=Ready)


class SummedRelease(ReleaseJob[R]):
    """A release of sums over a file of labels. Its noise is new in each run, so it cannot be resumed."""

    source: LabelSource
    domain: Domain
    out_of_range: OutOfRange

    def __post_init__(self) -> None:
        self.source = replace(self.source, unit=self.domain.unit or self.source.unit)
        self.unit = "record" if self.source.person_column is None else "person"

    def read_labels(self, phase: Phase) -> tuple[pa.Array, Floats, pa.Array | None]:
        """Return all ids and labels of the file, and the persons they belong to if there is a column of persons."""
        with reported_together(self.source, self.domain, self.out_of_range):
            return _read_labels(self.source, phase)


@dataclass(eq=False)
class SumsRelease(SummedRelease[SumsReady]):
    """The release of noisy sums for the columns of a file of cells."""

    kind = SUMS
    source: LabelSource
    cells: CellsFile
    epsilon: Fraction
    domain: Domain
    matching: bool
    out_of_range: OutOfRange

    def read(self, account: Account, phase: Phase) -> SumsReady:  # noqa: ARG002
        """Read all labels, match them to the cells by id, and plan."""
        cells = self.cells
        ids, labels, owners = self.read_labels(phase)
        found = match_ids(cells.ids, ids, cells.path, self.source.path)
        rows = np.flatnonzero(found >= 0)
        require_labels(len(cells.ids) - rows.size, rows.size, cells.path, matching=self.matching)
        own = labels[found[rows]]
        persons = None if owners is None else owners.take(pa.array(found[rows]))
        queries = SumQueries(own, self.epsilon, self.domain, out_of_range=self.out_of_range, persons=persons)
        plan = SumsPlan(self.epsilon, cells.columns, queries.size, queries.weight)
        plan.check(queries.domain)
        clipped = int(np.count_nonzero((own < self.domain.lower) | (own > self.domain.upper)))
        request = sums_request(queries.domain, rows.size)
        return SumsReady(request, rows.size, 0, plan, queries, rows, len(ids), clipped)

    def draw(self, ready: SumsReady, run: Run) -> Drawn:
        """Answer all columns, and write the ids of the records that were summed."""
        run.phase("summing", None)
        cells, columns = self.cells, self.cells.columns
        sums = ask_columns(ready.queries, ready.plan, ready.rows)
        ids = cells.ids.take(pa.array(ready.rows))
        written = {cells.id_column: ids}
        if (weights := ready.queries.weights) is not None:
            written[WEIGHT if cells.id_column != WEIGHT else f"row {WEIGHT}"] = pa.array(weights)
        pq.write_table(pa.table(written).take(pc.array_sort_indices(ids)), run.data, compression="zstd")
        groups = [[cells.names[one] for one in columns.signs]] if columns.signs else []
        groups += [[cells.names[one]] for one in columns.whole]
        card = sums_card(sums, _columns_text(sums, groups))
        return Drawn(sums.epsilon_exact, sums.to_json(), card, lambda _: sums.records, sums)


def require_labels(without: int, records: int, path: Path, *, matching: bool) -> None:
    """Raise `InvalidInput` if no record of the other party's file has a label, or if some unexpectedly lack one."""
    if not records:
        raise InvalidInput(f"no id of {path} has a label: is the id column right?")
    if without and not matching:
        raise InvalidInput(
            f"{count_of(without, 'record')} of {path} {'has' if without == 1 else 'have'} no label, {records:,} have one. If that is right, "
            "give --matching: only records with a label are used then, and the answer shows which or how many they are"
        )


def _read_labels(source: LabelSource, phase: Phase) -> tuple[pa.Array, Floats, pa.Array | None]:
    """Return all ids, labels, and persons if the source has a column of them."""
    tick = phase("reading", None)
    ids: list[pa.Array] = []
    labels: list[NDArray[np.float64]] = []
    persons: list[pa.Array] = []
    for batch in source.batches():
        ids.append(batch.ids)
        labels.append(batch.labels)
        if batch.persons is not None:
            persons.append(batch.persons)
        if tick is not None:
            tick(batch.labels.size)
    if len({one.type for one in ids}) > 1:
        raise InvalidInput(f"the files of {source.path} have ids of several types: give --id-type str")
    if len({one.type for one in persons}) > 1:
        raise InvalidInput(
            f"the files of {source.path} have persons of several types: convert the column to one type first"
        )
    return pa.concat_arrays(ids), np.concatenate(labels), pa.concat_arrays(persons) if persons else None


def is_answer(path: Path) -> bool:
    """Return whether a folder is an answer with sums, as far as its manifest or its file names show."""
    return kind_in(path) == SUMS or (path / SUMS.description).is_file()


S = TypeVar("S", bound=Stored)


def open_sums(
    path: str | os.PathLike[str], kind: ReleaseKind, of: type[S], verify_key: str | os.PathLike[str] | None
) -> tuple[Path, S, Manifest, Signature | None]:
    """Open a folder whose description is noisy sums, compare every file with the manifest, and prove ε again."""
    folder, manifest, signature = open_release(path, kind, verify_key)
    try:
        found = of.from_json(read_text(folder / kind.description))
    except PrivacyRefused:
        raise
    except InvalidInput as error:
        raise InvalidInput(
            f"{folder / kind.description} is damaged: {error}. Copy the folder again, or ask for it again"
        ) from None
    if manifest.epsilon_total != exact_text(found.epsilon_exact):
        raise InvalidInput(f"{folder}: {MANIFEST} has another epsilon_total than {kind.description}. Ask for it again")
    return folder, found, manifest, signature


@dataclass(frozen=True, eq=False)
class SumsAnswer:
    """The folder of a release of sums, opened and checked.

    Attributes
    ----------
    path : Path
        The folder.
    sums : PrivateSums
        A histogram, then sums against signs, then sums over cells.
    ids : pyarrow.Array
        The ids of the records that were summed, in ascending order.
    weights : array of int64 or None
        The weight of each of them, where a person is the unit of privacy.
    manifest : Manifest
        Every file with its size and SHA-256.
    signature : Signature or None
        The fingerprint of the sender's key, if the folder is signed, and whether the signature was verified.
    """

    path: Path
    sums: PrivateSums
    ids: pa.Array
    weights: NDArray[np.int64] | None
    manifest: Manifest
    signature: Signature | None

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify_key: str | os.PathLike[str] | None = None) -> SumsAnswer:
        """Open a folder, compare every file with the manifest, and prove ε again.

        With `verify_key`, the PEM file of the sender's public key, the folder must be signed with it. Without it the checks find
        accidents and careless edits, but not an attacker who wrote a new manifest too.
        """
        folder, sums, manifest, signature = open_sums(path, SUMS, PrivateSums, verify_key)
        file = SUMS.batch_path(folder, 0)
        listed = [(one.name, one.rows) for one in manifest.data]
        if listed != [(file.name, sums.records)]:
            raise InvalidInput(f"{folder}: {MANIFEST} has other records than {SUMS.description}. Ask for it again")
        return cls(folder, sums, *_read_ids(file, sums), manifest, signature)


def _columns_text(sums: PrivateSums, names: Sequence[Sequence[str]]) -> str:
    """Return which columns each answer is about, for the card."""
    lines = [
        f"- Answer {place} ({answer.kind}): {', '.join(repr(name)[:60] for name in columns)}."
        for place, (answer, columns) in enumerate(zip(sums.answers[1:], names, strict=True), 2)
    ]
    return (
        f"\n\n## The columns\n\n{SUMS.description} has a histogram of the labels first. Then it answers these columns:\n\n"
        + "\n".join(lines)
    )


def _read_ids(file: Path, sums: PrivateSums) -> tuple[pa.Array, NDArray[np.int64] | None]:
    """Read the ids of the records, in batches, and stop at the first id that is not larger than the one before it. Also returns their weights.

    `SumsRelease` sorts the ids, so they are distinct exactly if they are strictly increasing.
    """
    records, weighting = sums.records, sums.weighting
    wrong = InvalidInput(
        f"{file.parent} is damaged: {file.name} must list {records:,} different ids in ascending order, one for each label that was summed. "
        "Copy the folder again"
    )
    parts: list[pa.Array] = []
    weights: list[NDArray[np.int64]] = []
    try:
        with open_parquet(file, piecewise=True) as parquet:
            schema = parquet.schema_arrow
            expected = [pa.int64()] * (weighting is not None)
            if schema.types[1:] != expected or pa.types.is_nested(schema.types[0]):
                raise InvalidInput(
                    f"{file} must have one column, the ids{' and their weights' if expected else ''}. Copy the folder again"
                )
            if rows_in(parquet.metadata) != records:
                raise wrong
            check_density(records, file)
            for batch in parquet.iter_batches(READ_ROWS):
                ids = checked_ids(batch.column(0), schema.names[0], sum(map(len, parts)), file, None)
                if not _increasing(parts[-1][-1:] if parts else ids[:0], ids):
                    raise wrong
                parts.append(ids)
                weights += [np.asarray(column.fill_null(0)) for column in batch.columns[1:]]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {why_unreadable(error)}. Copy the folder again") from None
    if sum(map(len, parts)) != records:
        raise wrong
    ids, found = pa.concat_arrays(parts), np.concatenate(weights) if weights else None
    if weighting is not None and (found is None or found.min() < 1 or int(found.sum()) != weighting.total):
        raise InvalidInput(
            f"{file.parent} is damaged: the weights in {file.name} are not those of the sums. Copy the folder again"
        )
    return ids, found


def _increasing(last: pa.Array, ids: pa.Array) -> bool:
    """Return whether ids are strictly increasing, also from the last one before them."""
    together = pa.concat_arrays([last, ids])
    return bool(pc.all(pc.less(together[:-1], together[1:]), min_count=0).as_py())
