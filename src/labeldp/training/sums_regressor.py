"""A regressor that the labels party's answer to a plan of cells stands for."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.central.one_round import CellsPlan, model_from_answer
from labeldp.central.private_sums import PrivateSums
from labeldp.central.sums_model import SumsModel
from labeldp.errors import expect


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
    >>> from labeldp.central.sums_release import answer_columns
    >>> from labeldp.central.one_round import CellsPlan
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
