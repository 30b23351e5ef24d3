"""The labels party's whole job for one round: match labels to cells by id, charge, sum with noise, and write the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.central.cell_columns import answer_columns
from labeldp.central.cells_file import CellsFile
from labeldp.central.id_matching import rows_of
from labeldp.central.private_sums import PrivateSums
from labeldp.central.sums_answer import write_answer
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.arrow.input_report import reported_together
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.formatting import count_of
from labeldp.release.ledger import Ledger
from labeldp.release.outcome import Phase
from labeldp.release.staging import publish, staging


@dataclass(frozen=True)
class SumsOutcome:
    """What a run did. It is for the labels party, which must not pass `clipped` on.

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
    ledger: Ledger | None = None,
    dataset: str | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
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
    out_of_range, ledger, dataset
        As in `PrivateSums.over_cells`.
    phase : callable, optional
        For progress bars.

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
    exact_epsilon(epsilon)
    target = target.absolute()
    if target.exists():
        raise InvalidInput(f"{target} exists: choose another --out, nothing is overwritten")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist: make it first")
    with reported_together(source, domain, out_of_range):
        ids, labels = _read(source, phase)
    found = rows_of(cells.ids, ids, cells.path, source.path)
    places = np.flatnonzero(found >= 0)
    _require_labels(len(cells.ids) - places.size, places.size, cells, matching=matching)
    own = labels[found[places]]
    with staging(target) as place:
        phase("summing", None)
        sums = answer_columns(
            own, cells.columns, epsilon, domain, rows=places, out_of_range=out_of_range, ledger=ledger, dataset=dataset
        )
        folder = place / "answer"
        folder.mkdir()
        groups = [[cells.names[one] for one in cells.columns.signs]] if cells.columns.signs else []
        groups += [[cells.names[one]] for one in cells.columns.whole]
        write_answer(folder, sums, cells.ids.take(pa.array(places)), cells.id_column, groups)
        publish(folder, target)
    clipped = int(np.count_nonzero((own < domain.lower) | (own > domain.upper)))
    return SumsOutcome(target, sums, len(cells.ids) - places.size, len(ids) - places.size, clipped)


def _require_labels(without: int, records: int, cells: CellsFile, *, matching: bool) -> None:
    if not records:
        raise InvalidInput(
            f"no id of {cells.path} has a label: is the id column right? In {cells.path} it is the first column"
        )
    if without and not matching:
        raise InvalidInput(
            f"{count_of(without, 'record')} of {cells.path} {'has' if without == 1 else 'have'} no label, {records:,} have one. If that is "
            "right, give --matching: only records with a label are summed then, and the answer lists their ids"
        )


def _read(source: LabelSource, phase: Phase) -> tuple[pa.Array, Floats]:
    """All ids and labels."""
    tick = phase("reading", None)
    ids: list[pa.Array] = []
    labels: list[NDArray[np.float64]] = []
    for batch in source.batches():
        ids.append(batch.ids)
        labels.append(batch.labels)
        if tick is not None:
            tick(batch.labels.size)
    if len({one.type for one in ids}) > 1:
        raise InvalidInput(f"the files of {source.path} have ids of several types: give --id-type str")
    return pa.concat_arrays(ids), np.concatenate(labels)
