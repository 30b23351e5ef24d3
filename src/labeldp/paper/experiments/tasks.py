"""The paper's three experiments: their data, label ranges, networks and settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.paper.data import (
    CALIBRATED,
    Dataset,
    app_ads_like,
    criteo_like,
    fertility,
    load_census,
    load_criteo,
    published_census,
    published_criteo,
    rand_hie,
)
from labeldp.paper.network.weights import TrainingLoss
from labeldp.priors import Prior, histogram

INFINITY = math.inf
PAPER_EPSILONS = (0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
QUICK_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)

Published = dict[tuple[str, str, float], tuple[float, float | None]]
"""Mean and standard deviation that the paper printed, by column ("mechanism" or "test"), method and ε."""


@dataclass(frozen=True)
class Scale:
    """How much to train. `rows` None is all there are."""

    rows: int | None
    epochs: int
    runs: int
    epsilons: tuple[float, ...]


@dataclass(frozen=True)
class LabelDistribution:
    """What exact figures are computed from: a distribution of labels, how many there are in training, and its origin."""

    prior: Prior
    records: int
    description: str


@dataclass(frozen=True)
class Task:
    """One experiment of the paper. `stand_ins` make data of at most so many rows; the first is the default.

    `stand_in_beside`: the stand-ins' labels are not drawn from the calibrated distribution, so exact figures for them are
    shown beside the calibrated ones.
    """

    name: str
    title: str
    domain: Domain
    loss: TrainingLoss
    methods: tuple[str, ...]
    baselines: tuple[str, ...]
    quick: Scale
    full: Scale
    stand_ins: Mapping[str, Callable[[int | None], Dataset]]
    genuine: Callable[[Path], Dataset] | None
    calibrated: LabelDistribution | None
    published: Published
    stand_in_beside: bool = False

    def load(self, data: Path | None, rows: int | None, stand_in: str | None = None) -> Dataset:
        """The genuine file, or the stand-in; at most `rows` of it, drawn at random but always the same ones."""
        if data is None:
            return _at_most(self.stand_ins[self._stand_in(stand_in)](rows), rows)
        if self.genuine is None:
            raise InvalidInput(f"{self.name} takes no --data: the paper's file is proprietary and nobody can have it")
        return _at_most(self.genuine(data), rows)

    def domain_of(self, dataset: Dataset) -> Domain:
        """The label range: the experiment's own, except where a stand-in counts further."""
        if (dataset.lower, dataset.upper) == (self.domain.lower, self.domain.upper):
            return self.domain
        return Domain.integers(int(dataset.lower), int(dataset.upper))

    def _stand_in(self, name: str | None) -> str:
        if name is None:
            return next(iter(self.stand_ins))
        if name not in self.stand_ins:
            raise InvalidInput(f"unknown stand-in {name!r} for {self.name}; it has {', '.join(self.stand_ins)}")
        return name


def labels_of(dataset: Dataset, domain: Domain) -> LabelDistribution:
    """The distribution of all labels of a data set on the domain's grid; 80 % of them are for training."""
    prior = Prior(domain.grid, histogram(dataset.labels, domain))
    return LabelDistribution(prior, len(dataset) * 4 // 5, dataset.description)


def get_task(name: str) -> Task:
    """`criteo`, `census` or `app-ads`."""
    tasks = {"criteo": _criteo, "census": _census, "app-ads": _app_ads}
    if name not in tasks:
        raise InvalidInput(f"unknown experiment {name!r}; the paper has {', '.join(tasks)}")
    return tasks[name]()


def _criteo() -> Task:
    published: Published = {}
    for row in published_criteo():
        for method in ("laplace", "rr_on_bins"):
            for column in ("mechanism", "test"):
                figures = getattr(row, f"{column}_{method}"), getattr(row, f"{column}_{method}_std")
                published[column, method.replace("_", "-"), row.epsilon] = figures
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
        published=published,
    )


def _census() -> Task:
    published: Published = {}
    for row in published_census():
        for method in ("rr_with_prior", "rr_on_bins"):
            for column in ("mechanism", "test"):
                name = method.replace("_", "-")
                published[column, name, row.epsilon] = (getattr(row, f"{column}_{method}"), None)
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
        published=published,
        stand_in_beside=True,
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


def _calibrated(name: str, title: str) -> LabelDistribution:
    known = CALIBRATED[name]
    return LabelDistribution(
        known.prior(),
        known.train_rows,
        f"the calibrated distribution of {title} labels (fitted to the published figures, not read off the file)",
    )


def _at_most(dataset: Dataset, rows: int | None) -> Dataset:
    if rows is None or rows >= len(dataset):
        return dataset
    chosen = np.sort(np.random.default_rng(0).choice(len(dataset), rows, replace=False))
    return replace(dataset.take(chosen), description=f"{dataset.description}; {rows:,} rows of it, drawn at random")
