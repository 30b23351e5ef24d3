"""The paper's three experiments."""

from collections.abc import Iterable
from dataclasses import asdict

from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.paper.data import (
    CALIBRATED,
    CensusFigures,
    CriteoFigures,
    app_ads_like,
    criteo_like,
    fertility,
    load_census,
    load_criteo,
    published_census,
    published_criteo,
    rand_hie,
)
from labeldp.paper.experiments.tasks import PAPER_EPSILONS, QUICK_EPSILONS, LabelDistribution, Published, Scale, Task


def get_task(name: str) -> Task:
    """Return one of the paper's experiments.

    Parameters
    ----------
    name : {"criteo", "census", "app-ads"}
        Which one.

    Returns
    -------
    Task
        The experiment, with its data, methods and settings.

    Raises
    ------
    InvalidInput
        If the paper has no such experiment.

    Examples
    --------
    >>> from labeldp.paper.experiments import get_task
    >>> get_task("criteo").methods[0]
    'rr-on-bins'

    """
    tasks = {"criteo": _criteo, "census": _census, "app-ads": _app_ads}
    if name not in tasks:
        raise InvalidInput(f"unknown experiment {name!r}; the paper has {', '.join(tasks)}")
    return tasks[name]()


def _criteo() -> Task:
    return Task(
        name="criteo",
        title="Criteo Sponsored Search Conversion: the amount of a sale in euros",
        domain=CALIBRATED["criteo"].domain,
        loss="squared",
        methods=(
            "rr-on-bins",
            "laplace",
            "staircase",
            "continuous-exponential",
            "debiased",
            "unbiased",
            "auto",
            "laplace-unclipped",
            "staircase-unclipped",
        ),
        baselines=("laplace", "staircase", "continuous-exponential"),
        quick=Scale(200_000, 20, 3, QUICK_EPSILONS),
        full=Scale(1_732_721, 50, 10, PAPER_EPSILONS),
        stand_ins={"criteo-like": lambda rows: criteo_like(rows or 1_732_721)},
        genuine=load_criteo,
        calibrated=_calibrated("criteo", "Criteo"),
        published=_published(published_criteo()),
    )


def _census() -> Task:
    return Task(
        name="census",
        title="US census: weeks worked in a year",
        domain=CALIBRATED["census"].domain,
        loss="squared",
        methods=(
            "rr-on-bins",
            "discrete-laplace",
            "discrete-staircase",
            "exponential",
            "rr-with-prior",
            "debiased",
            "unbiased",
            "auto",
        ),
        baselines=("discrete-laplace", "discrete-staircase", "exponential", "rr-with-prior"),
        quick=Scale(None, 20, 3, QUICK_EPSILONS),
        full=Scale(None, 200, 10, PAPER_EPSILONS),
        stand_ins={"fertility": lambda rows: fertility()},  # noqa: ARG005
        genuine=load_census,
        calibrated=_calibrated("census", "census"),
        published=_published(published_census()),
        stand_in_differs=True,
    )


def _app_ads() -> Task:
    return Task(
        name="app-ads",
        title="App ads: events counted after a click",
        domain=Domain.integers(0, 50),
        loss="poisson",
        methods=("rr-on-bins", "discrete-laplace", "discrete-staircase", "exponential", "positive"),
        baselines=("discrete-laplace", "discrete-staircase", "exponential"),
        quick=Scale(200_000, 10, 3, QUICK_EPSILONS),
        full=Scale(1_000_000, 50, 10, PAPER_EPSILONS),
        stand_ins={
            "app-ads-like": lambda rows: app_ads_like(rows or 1_000_000),
            "rand-hie": lambda rows: rand_hie(),  # noqa: ARG005
        },
        genuine=None,
        calibrated=None,
        published={},
    )


def _published(rows: Iterable[CriteoFigures | CensusFigures]) -> Published:
    """The figures of the paper's table, from fields such as `test_rr_on_bins` and `test_rr_on_bins_std`."""
    published: Published = {}
    for row in rows:
        fields = asdict(row)
        for name in fields:
            column, _, method = name.partition("_")
            if method and not method.endswith("_std"):
                figures = fields[name], fields.get(f"{name}_std")
                published[column, method.replace("_", "-"), row.epsilon] = figures
    return published


def _calibrated(name: str, title: str) -> LabelDistribution:
    known = CALIBRATED[name]
    return LabelDistribution(
        known.prior(),
        known.train_rows,
        f"the calibrated distribution of {title} labels (fitted to the published figures, not read off the file)",
    )
