"""A scikit-learn scorer that takes the known noise of private labels out of the squared error."""

from collections.abc import Callable
from typing import Any

import numpy as np

from labeldp.arrays import number_array
from labeldp.errors import InvalidInput, described, expect
from labeldp.evaluation.intervals.target import Target
from labeldp.evaluation.moments import moment_values
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.mechanisms.decoding import code_values


def noise_corrected_scorer(mechanism: FiniteMechanism, decoder: str = "auto") -> Callable[[Any, Any, Any], float]:
    """Make a scikit-learn scorer for private labels: minus the mean squared error against the true labels, estimated.

    Use it as `scoring=` in `cross_val_score` or `GridSearchCV`. With few records noise can take a score above zero. It
    is the same noise for all models, so they can still be compared.

    Parameters
    ----------
    mechanism : FiniteMechanism
        What randomized the labels, `private.mechanism`. It must carry a prior.
    decoder : {"auto", "bins", "debiased", "positive"}
        The values that models are trained on and scored against, see `PrivateLabels.values`.

    Returns
    -------
    callable
        `score(estimator, X, y)`, where y are some of `private.values(decoder)`.

    Privacy
    -------
    Costs nothing: it reads private labels and public numbers only.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GridSearchCV
    >>> from labeldp import Domain, LabelRandomizer, noise_corrected_scorer
    >>> feature = np.random.default_rng(0).integers(0, 10, 5000)
    >>> private = LabelRandomizer(epsilon=4, domain=Domain.integers(0, 9), mechanism="unbiased").randomize(feature)
    >>> search = GridSearchCV(Ridge(), {"alpha": [1, 1e9]}, scoring=noise_corrected_scorer(private.mechanism))
    >>> search.fit(feature[:, None], private.values()).best_params_
    {'alpha': 1}
    """
    expect(mechanism, FiniteMechanism, "mechanism", "give the mechanism of private labels or of a message")
    values = code_values(mechanism, decoder)
    order = np.argsort(values, kind="stable")

    def score(estimator: Any, X: Any, y: Any) -> float:
        targets = number_array(y, "y")
        codes = order[np.searchsorted(values, targets, sorter=order).clip(max=values.size - 1)]
        if not np.array_equal(values[codes], targets):
            raise InvalidInput(
                "y holds numbers that are not this mechanism's values. Score against private.values(decoder), with the "
                f"decoder of the scorer, {described(decoder)}."
            )
        squared = Target.error(mechanism, np.asarray(estimator.predict(X), np.float64))
        moments = moment_values(mechanism, codes.size, origin=squared.origin)
        return -float(squared.values(moments, PrivateLabels(codes, mechanism)).mean())

    return score
