"""labeldp: train regression and classification models when the labels are private.

Start with `LabelRandomizer` (labels in an array), `privatize` (labels in a file) or `LabelDPRegressor` (one team has
labels and features). Everything else is in `labeldp.mechanisms`, `labeldp.losses`, `labeldp.evaluate`, `labeldp.learn`,
`labeldp.design`, `labeldp.priors`, `labeldp.sampling`, `labeldp.spark` and `labeldp.paper`. Names are imported when
first used.

Examples
--------
>>> import numpy as np, labeldp
>>> labels = np.minimum(np.random.default_rng(0).exponential(90, 100_000), 400)
>>> private = labeldp.LabelRandomizer(epsilon=1.0, domain=(0, 400)).randomize(labels)
>>> private.values().shape
(100000,)
"""

from importlib import import_module
from typing import Any

_MODULE_OF = {
    # the labels party
    "Domain": "domain",
    "Prior": "priors",
    "LabelRandomizer": "release.randomizer",
    "LabelSource": "engines.arrow.source",
    "privatize": "release.labels",
    "apply": "release.apply",
    "Ledger": "release.ledger",
    "score": "evaluate.score",
    "report": "learn.group_report",
    # the features party
    "Message": "artifact",
    "train": "learn.train",
    "SavedModel": "learn.saved",
    "estimate_error": "evaluate.estimates",
    # a team that holds both sides
    "LabelDPRegressor": "learn.regressor",
    "LabelDPClassifier": "learn.classifier",
    "PrivateSums": "release.private_sums",
    "held_out_error": "evaluate.held_out",
    # everyone
    "advise": "evaluate.advice",
    "compare": "evaluate.comparison",
    # errors and warnings
    "LabelDPError": "errors",
    "InvalidInput": "errors",
    "InsufficientBudget": "errors",
    "PrivacyRefused": "errors",
    "RepeatedRelease": "errors",
    "ClippingWarning": "errors",
    "ClassesWarning": "errors",
    "BudgetWarning": "priors",
    "FeatureWarning": "learn.joined_features",
}
"""The module of every public name; `__init__.pyi` is the same list for type checkers."""
_ROOMS = ("design", "evaluate", "learn", "losses", "mechanisms", "paper", "plots", "priors", "sampling", "spark")

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - one list, not two


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("labeldp")
    if name in _ROOMS:
        return import_module(f"labeldp.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    return getattr(import_module(f"labeldp.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_ROOMS, "__version__"])
