"""The paper's three experiments: data, label range, methods and settings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import get_loss
from labeldp.mechanisms import MECHANISMS, ContinuousMechanism, FiniteMechanism, Mechanism, Request, design
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.prediction import label_share
from labeldp.mechanisms.registry import Entry
from labeldp.paper.data import (
    CALIBRATED,
    CensusFigures,
    CriteoFigures,
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
from labeldp.priors import BudgetSplit, BudgetWarning, Prior, histogram
from labeldp.release.randomizer import LabelRandomizer

INFINITY = math.inf
PAPER_EPSILONS = (0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
QUICK_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_DISCRETE = ("discrete-laplace", "discrete-staircase", "exponential")

Published = dict[tuple[str, str, float], tuple[float, float | None]]
"""The mean and standard deviation that the paper printed, by column ("mechanism" or "test"), method and ε."""


@dataclass(frozen=True)
class Scale:
    """How much to train.

    Parameters
    ----------
    rows : int or None
        Rows of the data set to use, split 80/20 into training and test rows. None means all of them.
    epochs : int
        Passes of the network over the training rows.
    runs : int
        Seeds. Each one splits the data differently.
    epsilons : tuple of float
        Privacy budgets to train at.

    Examples
    --------
    >>> from labeldp.paper.experiments import Scale, get_task
    >>> get_task("criteo").quick
    Scale(rows=200000, epochs=20, runs=3, epsilons=(0.5, 1.0, 2.0, 4.0, 8.0))
    >>> tiny = Scale(rows=3000, epochs=1, runs=1, epsilons=(2.0,))

    """

    rows: int | None
    epochs: int
    runs: int
    epsilons: tuple[float, ...]


@dataclass(frozen=True)
class LabelDistribution:
    """The labels that exact figures are computed for: their distribution, their number in training, and their origin."""

    prior: Prior
    records: int
    description: str


@dataclass(frozen=True)
class Task:
    """One experiment of the paper.

    Parameters
    ----------
    name, title : str
        Its name on the command line, and what it predicts.
    domain : Domain
        The label range.
    loss : {"squared", "poisson"}
        The loss that its network is trained with.
    methods : tuple of str
        The methods to compare, by name: mechanisms of the catalogue, and variants of them.
    baselines : tuple of str
        The methods that the paper compares RR-on-Bins with.
    quick, full : Scale
        How much to train by default, and at the paper's size.
    stand_ins : mapping of str to callable
        Functions that load or generate a stand-in for the paper's data with at most the given number of rows. The first is the default.
    genuine : callable or None
        Loads the paper's own file. None if that file is proprietary.
    calibrated : LabelDistribution or None
        The calibrated distribution of the labels, if there is one.
    published : dict
        The figures that the paper printed.
    stand_in_differs : bool
        Whether the labels of the stand-ins follow another distribution than the calibrated one. Exact figures for them are
        then shown as well.

    Examples
    --------
    >>> from labeldp.paper.experiments import get_task
    >>> task = get_task("census")
    >>> task.title, task.baselines[0]
    ('US census: weeks worked in a year', 'discrete-laplace')

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
    stand_in_differs: bool = False

    def with_methods(self, names: Iterable[str]) -> Task:
        """Return this experiment with more methods to compare.

        Parameters
        ----------
        names : iterable of str
            Methods of the experiment, or other mechanisms of the catalogue.

        Returns
        -------
        Task
            The same experiment with these methods after its own.

        Raises
        ------
        InvalidInput
            If there is no such mechanism, or its training values are not valid for the loss.

        Examples
        --------
        >>> from labeldp.paper.experiments import get_task
        >>> get_task("app-ads").with_methods(["randomized-response"]).methods[-1]
        'randomized-response'

        """
        added = [name for name in dict.fromkeys(names) if name not in self.methods]
        others = [name for name in (*MECHANISMS.names, *VARIANTS) if name not in self.methods]
        for name in added:
            if name not in others:
                raise InvalidInput(
                    f"unknown mechanism {name!r}; {self.name} compares {', '.join(self.methods)}. "
                    f"It also takes any of {', '.join(others)} whose values are valid for {self.loss} loss."
                )
            self._check_values(get_method(name))
        return replace(self, methods=(*self.methods, *added))

    def load(self, data: Path | None, rows: int | None, stand_in: str | None = None) -> Dataset:
        """Load the genuine file or a stand-in.

        Parameters
        ----------
        data : path or None
            The genuine file. None means a stand-in.
        rows : int or None
            The largest number of rows; they are drawn at random, and always the same ones.
        stand_in : str, optional
            Which stand-in. By default the first.

        Returns
        -------
        Dataset
            The data.

        Raises
        ------
        InvalidInput
            If the file or stand-in does not exist for this experiment.

        Examples
        --------
        >>> from labeldp.paper.experiments import get_task
        >>> len(get_task("app-ads").load(None, 1000))
        1000

        """
        if data is None:
            name = next(iter(self.stand_ins)) if stand_in is None else stand_in
            if name not in self.stand_ins:
                raise InvalidInput(f"unknown stand-in {name!r} for {self.name}; it has {', '.join(self.stand_ins)}")
            return _at_most(self.stand_ins[name](rows), rows)
        if self.genuine is None:
            raise InvalidInput(
                f"{self.name} does not accept --data: the paper's file is proprietary. Leave --data out."
            )
        return _at_most(self.genuine(data), rows)

    def domain_of(self, dataset: Dataset) -> Domain:
        """Return the label range for a data set.

        Parameters
        ----------
        dataset : Dataset
            The genuine data or a stand-in.

        Returns
        -------
        Domain
            The experiment's own range, unless the labels of a stand-in have other bounds.

        Examples
        --------
        >>> from labeldp.paper.experiments import get_task
        >>> task = get_task("app-ads")
        >>> task.domain_of(task.load(None, 1000)) == task.domain
        True

        """
        if (dataset.lower, dataset.upper) == (self.domain.lower, self.domain.upper):
            return self.domain
        return Domain.integers(int(dataset.lower), int(dataset.upper))

    def _check_values(self, method: Method) -> None:
        """Make the mechanism once, to see whether it exists for these labels and its values are valid for the loss."""
        prior = Prior.uniform(self.domain) if self.calibrated is None else self.calibrated.prior
        lowest = method.values(method.mechanism(prior, self.domain, 1.0, self.full.rows or 1_000_000)).min()
        valid = get_loss(self.loss).valid_labels
        if lowest < valid.lower:
            raise InvalidInput(
                f"{method.name} cannot be used for {self.name}: its training values go down to {lowest:.3g}, and "
                f"{self.loss} loss takes values in {valid}"
            )


def label_distribution(dataset: Dataset, domain: Domain) -> LabelDistribution:
    """Return the distribution of all labels of a data set on the domain's grid; 80 % of them are for training."""
    prior = Prior(domain.grid, histogram(dataset.labels, domain))
    return LabelDistribution(prior, len(dataset) * 4 // 5, dataset.description)


def _at_most(dataset: Dataset, rows: int | None) -> Dataset:
    if rows is None or rows >= len(dataset):
        return dataset
    chosen = np.sort(np.random.default_rng(0).choice(len(dataset), rows, replace=False))
    return replace(dataset.take(chosen), description=f"{dataset.description}; {rows:,} rows of it, drawn at random")


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
        If the name is not an experiment of the paper.

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
    baselines = ("laplace", "staircase", "continuous-exponential")
    variants = ("debiased", "unbiased", "auto", "laplace-unclipped", "staircase-unclipped")
    return Task(
        name="criteo",
        title="Criteo Sponsored Search Conversion: the amount of a sale in euros",
        domain=CALIBRATED["criteo"].domain,
        loss="squared",
        methods=("rr-on-bins", *baselines, *variants),
        baselines=baselines,
        quick=Scale(200_000, 20, 3, QUICK_EPSILONS),
        full=Scale(1_732_721, 50, 10, PAPER_EPSILONS),
        stand_ins={"criteo-like": lambda rows: criteo_like(rows or 1_732_721)},
        genuine=load_criteo,
        calibrated=_calibrated("criteo", "Criteo"),
        published=_published(published_criteo()),
    )


def _census() -> Task:
    baselines = (*_DISCRETE, "rr-with-prior")
    return Task(
        name="census",
        title="US census: weeks worked in a year",
        domain=CALIBRATED["census"].domain,
        loss="squared",
        methods=("rr-on-bins", *baselines, "debiased", "unbiased", "auto"),
        baselines=baselines,
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
        methods=("rr-on-bins", *_DISCRETE, "positive"),
        baselines=_DISCRETE,
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
    """Return the figures of the paper's table, from fields such as `test_rr_on_bins` and `test_rr_on_bins_std`."""
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


NOT_PRIVATE = "not-private"


@dataclass(frozen=True, eq=False)
class Targets:
    """What a model trains on, and the share of a true label that each value is worth (None: train as in the paper)."""

    values: Floats
    share: float | None = None


@dataclass(frozen=True)
class Method:
    """A mechanism of the catalogue, and which values its codes are decoded to.

    A mechanism that needs a prior pays for one with a part of ε. The others know only the domain and get all of ε.
    """

    name: str
    title: str
    mechanism_name: str
    decoder: str = "bins"
    clip: bool = True
    own_colour: str = ""

    @property
    def entry(self) -> Entry:
        """The mechanism's entry in the catalogue."""
        return MECHANISMS[self.mechanism_name]

    @property
    def ours(self) -> bool:
        """Whether it goes beyond the paper. Models are then sized by what the values are worth."""
        return self.decoder != "bins" or self.entry.for_training

    @property
    def colour(self) -> str:
        """The colour of its curves: the mechanism's, or its own for a variant of one."""
        return self.own_colour or self.entry.colour

    def split(self, domain: Domain, epsilon: Epsilon, records: int) -> BudgetSplit | None:
        """Return how ε is divided; None where no prior is paid for. Raises InvalidInput if the grid is too fine for the records."""
        return self.entry.split_for(Request(domain, epsilon, records=records))

    def mechanism(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> Mechanism:
        """Return the mechanism for exactly this prior, after paying for it. For exact figures: the prior gets no noise."""
        split = self.split(domain, epsilon, records)
        if split is None:
            return self._without_prior(domain, epsilon)
        return design(self.mechanism_name, Request(domain, split.epsilon_labels, prior=prior, records=records))

    def values(self, mechanism: Mechanism) -> Floats:
        """Return the values to train on, one for each code; of a continuous mechanism the ends of their range."""
        if self.decoder == "bins":
            return mechanism.outputs
        assert isinstance(mechanism, FiniteMechanism)
        return code_values(mechanism, self.decoder)

    def expected_loss(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> float:
        """Return E[(value − label)²] under the prior, computed and not sampled."""
        mechanism = self.mechanism(prior, domain, epsilon, records)
        if isinstance(mechanism, ContinuousMechanism) and not mechanism.clip:
            # Additive noise that is not clipped has the same error for every label.
            return float(mechanism.conditional_loss(prior.values[:1])[0])
        if self.decoder == "bins":
            return mechanism.expected_loss(prior)
        assert isinstance(mechanism, FiniteMechanism)
        positive = prior.masses > 0
        labels, masses = prior.values[positive], prior.masses[positive]
        means, variances = mechanism.conditional_moments(labels, self.values(mechanism))
        return float(masses @ (variances + (means - labels) ** 2))

    def targets(self, labels: Floats, domain: Domain, epsilon: Epsilon, generator: np.random.Generator) -> Targets:
        """Private training values for labels: the paper's two steps if a prior is needed, one draw otherwise.

        Exact mechanisms and the histogram draw from the operating system, as in a release. Float mechanisms draw from
        `generator`.
        """
        if not self.entry.needs_prior:
            mechanism = self._without_prior(domain, epsilon)
            return Targets(mechanism.randomize(labels, randomness=None if mechanism.exact else generator))  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # every run would repeat it
            private = LabelRandomizer(epsilon, domain, mechanism=self.mechanism_name).randomize(labels)
        values = self.values(private.mechanism)
        return Targets(values[private.codes], label_share(private.mechanism, values) if self.ours else None)

    def _without_prior(self, domain: Domain, epsilon: Epsilon) -> Mechanism:
        """Made for the domain alone. A staircase then has the step that minimises the variance of its noise."""
        if self.clip:
            made: Mechanism = self.entry.make(Request(domain, epsilon))
        else:
            assert self.entry.cls is not None
            made = self.entry.cls(domain, epsilon, clip=False)
        return made


VARIANTS = {
    variant.name: variant
    for variant in (
        Method("laplace-unclipped", "Laplace, not clipped", "laplace", clip=False, own_colour="#86a2d5"),
        Method("staircase-unclipped", "staircase, not clipped", "staircase", clip=False, own_colour="#82475c"),
        Method("debiased", "RR-on-Bins, debiased", "rr-on-bins", decoder="debiased", own_colour="#bd9062"),
        Method("positive", "RR-on-Bins, debiased, positive", "rr-on-bins", decoder="positive", own_colour="#7f66ef"),
    )
}
"""Mechanisms without clipping, and RR-on-Bins with other values for its codes."""


def get_method(name: str) -> Method:
    """Return the method of that name: one of the variants, or a mechanism of the catalogue with its own outputs."""
    return VARIANTS.get(name) or Method(name, MECHANISMS[name].title, name)
