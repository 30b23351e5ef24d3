"""The cells that the features party sends for one round of sums, and the plan that it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.artifact.id_join import require_distinct
from labeldp.budget import Epsilon
from labeldp.errors import InvalidInput
from labeldp.json_text import read_text
from labeldp.learn.joined_features import read_features, warn_of_suspects
from labeldp.learn.sums.cells_plan import CellsPlan
from labeldp.tables.files import Phase


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
        Columns to read as categories or as numbers regardless of their type.
    exclude : sequence of str
        Columns to leave out.
    id_type : {"int", "str"}, optional
        Convert the ids to this type.
    delimiter : str, optional
        What separates the columns of a text file.
    phase : callable, optional
        For progress bars, as in `train`.

    Returns
    -------
    CellsPlan
        What to keep.
    pyarrow.Table
        What to send: the ids, sorted, and the columns.

    Privacy
    -------
    Labels are not used. The table reveals something about the features to the labels party: the cell of each record.
    """
    found = read_features(
        features,
        id_column,
        exclude=exclude,
        categorical=categorical,
        numeric=numeric,
        id_type=id_type,
        delimiter=delimiter,
        phase=phase,
    )
    require_distinct(found.ids, found.path)
    warn_of_suspects(found.table, index=found.index, label_column=None, numeric=numeric, stacklevel=2)
    phase("planning", None)
    plan = CellsPlan.make(found.table, epsilon, categorical=categorical, numeric=numeric)
    return plan, _cells_table(plan, found.table, found.ids, id_column)


def _cells_table(plan: CellsPlan, features: pa.Table, ids: pa.Array, id_column: str) -> pa.Table:
    """Return the ids and the columns to send, in the order of the ids, which reveals nothing about the file of features.

    Columns of signs are int8; names reveal nothing about the features.
    """
    sent = plan.columns(features)
    order = np.asarray(pc.array_sort_indices(ids))
    names = [f"c{place}" for place in range(len(sent))]
    if id_column in names:
        raise InvalidInput(f"the id column cannot be called {id_column!r}, as the columns to send are: rename it")
    return pa.table([ids.take(pa.array(order)), *(pa.array(one[order]) for one in sent)], [id_column, *names])


def read_plan(path: Path) -> CellsPlan:
    """Return the plan in a file."""
    if path.is_dir():
        path = path / "plan.json"
    if not path.is_file():
        raise InvalidInput(
            f"there is no file {path}: give the plan.json that labeldp cells wrote next to cells.parquet"
        )
    try:
        return CellsPlan.from_json(read_text(path))
    except InvalidInput as error:
        raise InvalidInput(
            f"{path}: {error}. Give the plan.json that labeldp cells wrote next to cells.parquet"
        ) from None
