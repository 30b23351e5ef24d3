"""The network's entry in the catalogue of learners. Importing this module makes `labeldp train` offer it."""

from typing import Any

from labeldp.paper.network.regressor import NetworkRegressor
from labeldp.paper.network.sizing import network_settings
from labeldp.training.learners import LEARNERS, Learner, LearnerRequest


def _made(request: LearnerRequest) -> Any:
    return NetworkRegressor(
        categorical=request.categorical,
        numeric=request.numeric,
        loss=request.loss,  # type: ignore[arg-type]
        epochs=request.epochs or network_settings(request.records, request.share)["epochs"],
        random_state=request.seed,
        progress=request.progress,
    )


LEARNERS.add(
    Learner(
        "network",
        help="the paper's network; needs the extra labeldp[torch]",
        make=_made,
        losses=("squared", "poisson"),
    )
)
