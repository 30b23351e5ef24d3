"""Which regressors can learn from private values: those that seek a mean."""

from typing import Any

from labeldp.errors import InvalidInput
from labeldp.losses import Loss, Squared

ROBUST = {
    "absolute_error": "absolute",
    "lad": "absolute",
    "quantile": "pinball",
    "huber": "huber",
    "median": "absolute",
}
"""Values of scikit-learn's parameters `loss`, `criterion` and `strategy` whose answer is no mean, and the loss to name instead."""
ROBUST_ESTIMATORS = {
    "QuantileRegressor": "pinball",
    "HuberRegressor": "huber",
    "TheilSenRegressor": "absolute",
    "RANSACRegressor": "absolute",
    "SVR": "absolute",
    "NuSVR": "absolute",
    "LinearSVR": "absolute",
}


def check_learns_means(estimator: Any, loss: Loss) -> None:
    """Refuse a regressor that seeks a median or a quantile: those of private values estimate nothing."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name, part in [("", estimator), *parameters.items()]:
        setting = name.split("__")[-1] in ("loss", "criterion", "strategy") and isinstance(part, str)
        wanted = ROBUST.get(part) if setting else ROBUST_ESTIMATORS.get(type(part).__name__)
        if wanted is not None:
            what = f"{name}={part!r}" if setting else type(part).__name__
            level = next((value for key, value in parameters.items() if key.split("__")[-1] == "quantile"), 0.5)
            named = {"pinball": f"pinball({level})", "huber": "huber(10)"}.get(wanted, wanted)
            asked = named if isinstance(loss, Squared) else loss.name
            raise InvalidInput(
                f"{what} does not seek the mean of its targets, and its answer for private values is not that for the labels. "
                f"Name the loss instead: LabelDPRegressor(loss={asked!r}, ...), with a regressor of squared loss or none"
            )
