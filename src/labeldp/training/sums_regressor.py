"""The features party's two steps around one answer with sums: the cells to send, and the model of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.budget import Epsilon
from labeldp.central.cells_file import cells_table
from labeldp.central.cells_plan import CellsPlan, model_from_answer
from labeldp.central.private_sums import PrivateSums
from labeldp.central.sums_model import SumsModel
from labeldp.errors import InvalidInput, expect
from labeldp.json_text import read_text
from labeldp.release.outcome import Phase
from labeldp.training.joined_features import matched_rows, read_features
from labeldp.training.suspects import warn_of_suspects


class SumsRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from features and from noisy sums of labels, without a label.

    Parameters
    ----------
    plan : CellsPlan
        Which sums were asked for.
    sums : PrivateSums
        The answer.

    Attributes
    ----------
    model_ : SumsModel
        The fitted model.

    Privacy
    -------
    Fitting costs nothing: the sums are private already.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.central.cell_columns import answer_columns
    >>> from labeldp.central.cells_plan import CellsPlan
    >>> from labeldp.training.sums_regressor import SumsRegressor
    >>> features = np.random.default_rng(0).normal(size=(5000, 2))
    >>> amounts = np.clip(100 + 40 * features[:, 0], 0, 400)  # the labels party's
    >>> plan = CellsPlan.make(features, epsilon=1)
    >>> sums = answer_columns(amounts, plan.columns(features), epsilon=1, domain=(0, 400))
    >>> SumsRegressor(plan, sums).fit(features).predict(features).shape
    (5000,)
    """

    def __init__(self, plan: CellsPlan, sums: PrivateSums) -> None:
        self.plan = plan
        self.sums = sums

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn passes it
        """Make the model.

        Parameters
        ----------
        X : table or array
            The features of exactly the records that were summed, in any order.
        y : None
            There is no label.

        Returns
        -------
        SumsRegressor
            This one.
        """
        expect(self.plan, CellsPlan, "plan", "make one with CellsPlan.make(features, epsilon)")
        expect(self.sums, PrivateSums, "sums", "read them with PrivateSums.from_json(text)")
        self.model_: SumsModel = model_from_answer(self.plan, X, self.sums)
        return self

    def predict(self, X: Any) -> Floats:
        """The expected label of each record.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array of float
        """
        check_is_fitted(self, "model_")
        return self.model_.predict(X)


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
        For progress bars, as in `train`.

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
    matched_rows(found.ids, found.ids, found.path, found.path)  # each id once
    warn_of_suspects(found.table, index=found.index, label_column=None, numeric=numeric, stacklevel=2)
    phase("planning", None)
    plan = CellsPlan.make(found.table, epsilon, categorical=categorical, numeric=numeric)
    return plan, cells_table(plan, found.table, found.ids, id_column)


def read_plan(path: Path) -> CellsPlan:
    """Return the plan in a file."""
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
