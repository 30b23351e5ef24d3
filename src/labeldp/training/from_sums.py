"""The features party's two steps around one answer with sums: cells to send, and the model of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp.budget import Epsilon
from labeldp.central.cells_file import cells_table
from labeldp.central.one_round import CellsPlan
from labeldp.central.sums_release import SumsAnswer
from labeldp.errors import InvalidInput
from labeldp.json_text import read_text
from labeldp.message.id_join import match_ids
from labeldp.message.labels_file import id_kind
from labeldp.release.outcome import Phase
from labeldp.shown import count_of
from labeldp.training.identified_features import IdentifiedFeatures
from labeldp.training.saved import SavedModel
from labeldp.training.sums_regressor import SumsRegressor
from labeldp.training.suspects import warn_of_suspects


def cells_of_file(
    features: Path,
    id_column: str,
    epsilon: Epsilon,
    *,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    exclude: Sequence[str] = (),
    id_type: str | None = None,
    delimiter: str | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> tuple[CellsPlan, pa.Table]:
    """Plan the sums to ask for, and make the columns to send.

    Parameters
    ----------
    features : Path
        A file of features: Parquet (also a folder of parts), CSV or TSV (also gzipped), Arrow IPC.
    id_column : str
        Its column of ids.
    epsilon : float, str, Decimal or Fraction
        What the labels party will spend.
    categorical, numeric : sequence of str
        Columns to read as categories or as numbers whatever their type.
    exclude : sequence of str
        Columns to leave out.
    id_type : {"int", "str"}, optional
        Convert the ids to this type.
    delimiter : str, optional
        What separates the columns of a text file.
    phase : callable, optional
        For progress bars, as in `train_on_message`.

    Returns
    -------
    CellsPlan
        What to keep.
    pyarrow.Table
        What to send: the ids, sorted, and the columns.

    Privacy
    -------
    No label takes part. The table tells the labels party something about the features: in which cell each record is.
    """
    found = IdentifiedFeatures.read(
        features,
        id_column,
        exclude=exclude,
        categorical=categorical,
        numeric=numeric,
        id_type=id_type,
        delimiter=delimiter,
        phase=phase,
    )
    match_ids(found.ids, found.ids, found.path, found.path)  # each id once
    warn_of_suspects(found.table, index=found.index, label_column=None, numeric=numeric, stacklevel=2)
    phase("planning", None)
    plan = CellsPlan.make(found.table, epsilon, categorical=categorical, numeric=numeric)
    return plan, cells_table(plan, found.table, found.ids, id_column)


def train_on_sums(
    answer: SumsAnswer,
    features: Path,
    id_column: str,
    plan: Path,
    *,
    delimiter: str | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> SavedModel:
    """Train a model on an answer with sums.

    Parameters
    ----------
    answer : SumsAnswer
        The answer from the labels party.
    features : Path
        The file from which the cells were made. Rows that were not summed are left out.
    id_column : str
        Its column of ids.
    plan : Path
        The `plan.json` that was written together with the cells.
    delimiter : str, optional
        What separates the columns of a text file.
    phase : callable, optional
        For progress bars.

    Returns
    -------
    SavedModel
        The fitted model and its facts, not saved yet.

    Raises
    ------
    InvalidInput
        If the answer, the plan and the features do not belong together.

    Privacy
    -------
    Costs nothing: the sums are private already, and the features are the reader's own.
    """
    asked = read_plan(plan)
    encoder = asked.partitions.encoder
    found = IdentifiedFeatures.read(
        features,
        id_column,
        columns=encoder.columns,
        categorical=[vocabulary.name for vocabulary in encoder.categorical],
        id_type=id_kind(answer.ids.type),
        delimiter=delimiter,
        phase=phase,
    )
    rows = match_ids(answer.ids, found.ids, answer.path, found.path)
    if (rows < 0).any():
        lost = int(np.count_nonzero(rows < 0))
        raise InvalidInput(
            f"{count_of(lost, 'record')} of {answer.path} {'is' if lost == 1 else 'are'} not in {found.path}: give the features from "
            "which the cells were made"
        )
    table = found.table.take(pa.array(np.sort(rows)))
    phase("training", None)
    model = SumsRegressor(asked, answer.sums).fit(table)
    domain = answer.sums.domain
    facts = {
        "model": "sums",
        "loss": "squared",
        "records": answer.sums.records,
        "features_without_label": found.table.num_rows - table.num_rows,
        "columns": list(encoder.columns),
        "epsilon": float(answer.sums.epsilon_exact),
        "bounds": [domain.lower, domain.upper],
        "unit": domain.unit,
        "explained": _explained(model, table),
    }
    return SavedModel(model, facts)


def read_plan(path: Path) -> CellsPlan:
    """The plan in a file."""
    if path.is_dir():
        path = path / "plan.json"
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}: give the plan.json that labeldp cells wrote beside cells.parquet")
    try:
        return CellsPlan.from_json(read_text(path))
    except InvalidInput as error:
        raise InvalidInput(
            f"{path}: {error}. Give the plan.json that labeldp cells wrote beside cells.parquet"
        ) from None


def _explained(model: SumsRegressor, table: pa.Table) -> dict[str, float]:
    """The share of the variation of clipped labels that the model expects to explain, with a 95 % interval for the noise of the histogram.

    The model is a posterior mean, so its variance over the records is what it expects to explain. The variance of the labels is
    a sum of noisy counts, each times a square. That is not biased, and its own variance is known.
    """
    learned, counts = model.model_, model.sums.answers[0]
    domain, clip = counts.domain, learned.range.clip
    ends = np.concatenate([[0], np.cumsum(counts.counts)])
    middles = domain.lower + domain.step * np.clip((ends[:-1] + ends[1:] - 1) / 2, *clip)
    squares = np.square(middles - learned.mean) / model.sums.records
    variance, error = float(squares @ counts.values), float(np.sqrt(counts.variance * np.square(squares).sum()))
    told = float((learned.predict(table) / learned.range.factor).var())
    return {
        name: min(1.0, told / max(amount, told, 1e-300))
        for name, amount in (
            ("value", variance),
            ("lower", variance + 1.96 * error),
            ("upper", variance - 1.96 * error),
        )
    }
