"""The test error of an estimator that is trained on private labels, by cross-validation on the same labels."""

from typing import Any

from labeldp.arrays import Floats
from labeldp.errors import expect
from labeldp.evaluation.estimates import ErrorEstimate, estimate_error
from labeldp.mechanisms import PrivateLabels


def cross_validated_error(
    estimator: Any, X: Any, private: PrivateLabels, *, decoder: str = "auto", folds: int = 5, confidence: float = 0.95
) -> ErrorEstimate:
    """Estimate the test error of an estimator trained on private labels.

    Every record is predicted by a model that was trained without it. So the estimate is that of models trained on
    (folds − 1)/folds of the records.

    Parameters
    ----------
    estimator : scikit-learn regressor
        What to train; it is cloned for each fold.
    X : array or table
        The features, a row for each private label.
    private : PrivateLabels
        The private labels, whose mechanism carries a prior.
    decoder : {"auto", "bins", "debiased", "positive"}
        The values to train on, see `PrivateLabels.values`.
    folds : int
        The number of folds, and of models trained.
    confidence : float
        How often the interval is to cover the truth.

    Returns
    -------
    ErrorEstimate

    Raises
    ------
    InvalidInput
        If the mechanism carries no prior.

    Privacy
    -------
    Costs nothing: it reads private labels and public numbers only.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from labeldp import Domain, LabelRandomizer, cross_validated_error
    >>> feature = np.random.default_rng(0).integers(0, 10, 5000)
    >>> private = LabelRandomizer(epsilon=4, domain=Domain.integers(0, 9), mechanism="unbiased").randomize(feature)
    >>> estimate = cross_validated_error(LinearRegression(), feature[:, None], private)
    >>> bool(estimate.upper < np.var(feature))  # much of the label is explained
    True
    """
    expect(private, PrivateLabels, "private", "LabelRandomizer(...).randomize(labels) gives one, Message.labels too")
    predictions = out_of_fold_predictions(estimator, X, private.values(decoder), folds)
    return estimate_error(private, predictions, confidence=confidence)


def out_of_fold_predictions(estimator: Any, X: Any, targets: Floats, folds: int) -> Floats:
    """A prediction for every record by a clone of `estimator` that was trained without the record's fold."""
    from sklearn.model_selection import KFold, cross_val_predict

    # A fixed shuffle: which record falls into which fold must not depend on the order of labels.
    predictions: Floats = cross_val_predict(estimator, X, targets, cv=KFold(folds, shuffle=True, random_state=0))
    return predictions
