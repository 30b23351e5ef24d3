"""The content of the page, as plain functions: each takes a frozen `Question`, by which caches are keyed, and returns frozen, cached results.

The figures come from `advise`, `compare` and the plan of a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from labeldp.arrays import Floats
from labeldp.artifact.description import prior_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.evaluate import Advice, Risk, advise
from labeldp.evaluate.advice import EPSILONS
from labeldp.evaluate.comparison import Comparison, bias_and_variance, compare, loss_of_label
from labeldp.evaluate.shapes import shaped_prior
from labeldp.formatting import count_of, percent, plain
from labeldp.losses import get_loss
from labeldp.mechanisms import MECHANISMS, Prediction, design, releasable
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import Cells, merged_prior
from labeldp.mechanisms.prediction import ModelErrors
from labeldp.mechanisms.registry import Request
from labeldp.plots.pictures import joint_mass
from labeldp.priors import BudgetSplit, Prior
from labeldp.release.randomizer import check_bounds

KEPT = 64
"""How many answers of each kind are kept. A user who moves a slider back sees the same figures at once."""
PAGE_CELLS = 100_001
"""The finest grid that the page takes."""
EXPECTATION_LABELS = 401
"""Expectations are taken over at most this number of labels; finer ones are merged at their mean."""
RECEIVED = "as received"
"""The choice of a mechanism that came in a file, instead of one that is designed."""
_shape = lru_cache(maxsize=KEPT)(shaped_prior)


@dataclass(frozen=True)
class Question:
    """Everything that the left side of the page says.

    Parameters
    ----------
    lower, upper : float
        The public bounds of the labels.
    cells : int or None
        The grid; None where `privatize` chooses it from the records and ε.
    whole : bool
        Whether all labels are whole numbers, with a cell for each.
    unit : str or None
        The unit of labels that are durations.
    distribution : str or Prior
        A shape in words, such as "log-normal:mean=80,sd=90", or a distribution that was read from a file.
    public : bool
        Whether a release takes this distribution as its public prior. Otherwise it buys a private one.
    epsilon : float
        What each label may cost.
    records : int
        How many labels are released and trained on.
    explained : float
        The share of the labels' variance that features explain.
    loss : str
        The loss that the mechanism is designed for.
    mechanism : str
        A name in the catalogue, or `RECEIVED`.
    received : FiniteMechanism or None
        The mechanism that came in a file.
    """

    lower: float = 0.0
    upper: float = 400.0
    cells: int | None = None
    whole: bool = False
    unit: str | None = None
    distribution: str | Prior = "log-normal:mean=80,sd=90"
    public: bool = False
    epsilon: float = 1.0
    records: int = 50_000
    explained: float = 0.5
    loss: str = "squared"
    mechanism: str = "auto"
    received: FiniteMechanism | None = None

    @property
    def domain(self) -> Domain:
        """The bounds, as for `privatize`."""
        if self.whole:
            return Domain.integers(int(self.lower), int(self.upper), self.unit)
        return Domain(self.lower, self.upper, self.cells, unit=self.unit)

    @property
    def grid(self) -> Domain:
        """The bounds with the grid that a release takes."""
        return self.domain.resolve(self.records, self.epsilon)

    @property
    def assumed(self) -> Prior:
        """The distribution that a mechanism is designed for: a private prior is on the grid of a release, a public one has its own values."""
        if self.public or isinstance(self.distribution, Prior):
            return self.labels
        return _shape(self.distribution, self.grid)

    @property
    def labels(self) -> Prior:
        """The distribution of the labels at its full resolution, which figures and pictures use."""
        if isinstance(self.distribution, Prior):
            return self.distribution
        return _shape(self.distribution, self.domain)

    @property
    def merged(self) -> Prior:
        """The distribution of the labels on at most 401 of them, for expectations."""
        return merged_prior(self.labels, EXPECTATION_LABELS)[0]

    @property
    def shown_mechanism(self) -> FiniteMechanism | None:
        """The received mechanism, if that is what the page shows."""
        return self.received if self.mechanism == RECEIVED else None

    def check(self) -> None:
        """Refuse bounds, distributions and losses that do not go together, before anything is computed."""
        check_bounds(get_loss(self.loss), self.domain)
        if self.grid.count > PAGE_CELLS:
            raise InvalidInput(
                f"{self.grid.count:,} cells are more than this page can show: choose bounds or a grid of at most {PAGE_CELLS:,}"
            )
        if isinstance(self.distribution, Prior):
            held = self.distribution.values[self.distribution.masses > 0]
            if held[0] < self.lower or held[-1] > self.upper:
                raise InvalidInput(
                    f"the distribution has labels from {held[0]:g} to {held[-1]:g}, and the bounds are {self.lower:g} to {self.upper:g}: "
                    "widen the bounds"
                )

    def without(self, **parts: object) -> Question:
        """Return the same question with some parts replaced, to share cached answers that do not depend on them."""
        return replace(self, **parts)  # type: ignore[arg-type]


SLOW = {"discrete-staircase": 5001, "exponential": 2001}
"""Mechanisms whose design takes longer than a page can wait on more cells than this, or is refused."""
FEW = 10_000
"""Where records times ε are fewer, models on private labels were worse than predicted on some data."""
LOUD = 30.0
"""Predictions were not checked with noise of more than this multiple of the labels' standard deviation."""


@dataclass(frozen=True, eq=False)
class Designed:
    """A mechanism and what it costs and gives.

    Attributes
    ----------
    mechanism : FiniteMechanism
        What randomizes the labels.
    epsilon_prior, epsilon_labels : float
        How ε is divided.
    expected_loss : float
        Of one private label, under the assumed distribution; infinite if outputs leave the range of the loss.
    bias : float
        The root of the mean squared bias.
    deviation : float
        The standard deviation of a private label around its mean.
    advice : str or None
        What `privatize` would warn about.
    """

    mechanism: FiniteMechanism
    epsilon_prior: float
    epsilon_labels: float
    expected_loss: float
    bias: float
    deviation: float
    advice: str | None


def designed(question: Question) -> Designed:
    """Return the mechanism that a release would use if its labels were distributed as assumed."""
    return _designed(question.without(explained=0.5))


@lru_cache(maxsize=KEPT)
def _designed(question: Question) -> Designed:
    prior, advice = question.assumed, None
    received = question.shown_mechanism
    if received is not None:
        mechanism, spent = received, float(prior_epsilon(received))
    else:
        question.check()
        split = _split(question)
        _check_speed(question.mechanism, question.grid.count)
        left = question.epsilon if split is None else split.epsilon_labels
        mechanism = design(question.mechanism, Request(question.grid, left, question.loss, prior, question.records))
        spent, advice = (0.0, None) if split is None else (float(split.epsilon_prior), split.advice)
    bias, variance = bias_and_variance(mechanism, _on_grid(question.merged, mechanism))
    return Designed(
        mechanism=mechanism,
        epsilon_prior=spent,
        epsilon_labels=mechanism.epsilon,
        expected_loss=loss_of_label(mechanism, question.merged, get_loss(question.loss)),
        bias=bias,
        deviation=math.sqrt(variance),
        advice=advice,
    )


def _split(question: Question) -> BudgetSplit | None:
    """Return the split of ε in a release; None where it spends nothing on a prior."""
    known = question.assumed if question.public else None
    request = Request(question.grid, question.epsilon, question.loss, known, question.records)
    return releasable(question.mechanism).split_for(request)


def _check_speed(name: str, cells: int) -> None:
    """Raise `InvalidInput` for a mechanism whose design takes minutes on this number of cells."""
    most = SLOW.get(name)
    if most is not None and cells > most:
        raise InvalidInput(
            f"{name} on {cells:,} cells takes longer than a page can wait, or is refused: choose at most {most:,} cells here, or another mechanism"
        )


def _on_grid(prior: Prior, mechanism: FiniteMechanism) -> Prior:
    """Return the distribution on the mechanism's grid. Between its cells, rounding would look like bias."""
    domain = mechanism.domain
    if domain is None or domain.cells is None:
        return prior
    cells, index = np.unique(domain.cell(prior.values), return_inverse=True)
    return Prior(domain.grid[cells], np.bincount(index, prior.masses))


@dataclass(frozen=True)
class Headline:
    """The answer at the current ε.

    Attributes
    ----------
    sentence : str
        What is predicted, in words.
    trained : Prediction
        Of a model for squared loss, trained on the private labels.
    not_private : Prediction
        Of a model trained on true labels.
    risk : Risk
        What this ε lets anybody learn.
    statement : str
        The event that the risk is stated for.
    """

    sentence: str
    trained: Prediction
    not_private: Prediction
    risk: Risk
    statement: str


def curve(question: Question, epsilons: tuple[float, ...] = EPSILONS) -> Advice:
    """Return the advisor's predictions over a list of ε. They depend on neither the current ε, the loss nor the mechanism."""
    return _advice(question.without(loss="squared", mechanism="auto", epsilon=1.0, received=None), epsilons)


@lru_cache(maxsize=4 * KEPT)
def _advice(question: Question, epsilons: tuple[float, ...]) -> Advice:
    return advise(
        question.domain,
        question.records,
        explained=question.explained,
        epsilons=epsilons,
        prior=question.labels,
        public=question.public,
    )


def headline(question: Question) -> Headline:
    """Return the prediction at the current ε, for squared loss, and its sentence.

    Models train on the values that `labeldp train` takes by default. What a release refuses is refused here too.
    """
    advice = curve(question, (question.epsilon,))
    outlook = advice.outlooks[0]
    if (question.mechanism, question.loss) != ("auto", "squared"):
        designed(question)  # for its refusals
    if question.mechanism == "auto":
        trained, by = outlook.labels, "auto"
    else:
        mechanism = designed(question.without(loss="squared")).mechanism
        trained = ModelErrors(question.labels, question.explained).of(mechanism, question.records)
        by = "the received mechanism" if question.mechanism == RECEIVED else question.mechanism
    return Headline(
        _sentence(question, advice, trained, by), trained, advice.not_private, outlook.risk, advice.statement
    )


def _sentence(question: Question, advice: Advice, trained: Prediction, by: str) -> str:
    most = advice.not_private.r2
    if most <= 0:
        return f"Even without privacy {count_of(question.records, 'record')} {'does' if question.records == 1 else 'do'} not teach a model more than the mean."
    kept = f"{percent(min(1.0, trained.r2 / most))} of that"
    if trained.r2 <= 0:
        kept = "worse than always answering the mean"
    return (
        f"At ε = {question.epsilon:.4g}, a model trained on {count_of(question.records, 'private label')} by {by} is predicted to reach R² = {trained.r2:.2f}. "
        f"Without privacy it is {most:.2f}, so this is {kept}."
    )


def caveats(question: Question) -> list[str]:
    """Return the limits of the sentence on top that apply to this question."""
    notes = []
    if question.loss != "squared":
        notes.append(
            f"The prediction is for a model of squared loss. Everything below is designed for {question.loss} loss. docs/guides/mechanisms-and-losses.md "
            "shows what models for other losses reach."
        )
    if question.mechanism != "auto":
        notes.append(
            "Predictions were checked with models on auto's labels and on the paper's bins without decoding. For other mechanisms, and for the values that labeldp "
            "train decodes from bins, the same rule is used."
        )
        loudness = _loudness(question)
        if loudness > LOUD:
            notes.append(
                f"Its noise is {loudness:,.0f} times the spread of the labels. Models on such labels can be far worse than predicted, and than the mean: choose "
                "another mechanism."
            )
    if question.records * question.epsilon < FEW:
        notes.append(
            "Records times ε are fewer than 10,000: models on private labels may be worse than predicted, down to no better than the mean. "
            "docs/guides/choose-epsilon.md has examples."
        )
    return notes


def _loudness(question: Question) -> float:
    """Return the standard deviation of the noise in what models train on, over that of the labels."""
    mechanism, prior = designed(question.without(loss="squared")).mechanism, question.merged
    variances = mechanism.conditional_moments(prior.values, code_values(mechanism))[1]
    return math.sqrt(float(prior.masses @ variances) / prior.variance) if prior.variance else 0.0


def offered() -> list[str]:
    """Return the mechanisms that can be released, and so be compared here."""
    return [entry.name for entry in MECHANISMS if entry.exact]


def compared(question: Question, names: tuple[str, ...]) -> tuple[tuple[Comparison, ...], dict[str, str]]:
    """Return figures of several mechanisms over a fixed list of ε, and, by name, why others are missing."""
    rows: list[Comparison] = []
    refused: dict[str, str] = {}
    for name in names:
        try:
            rows += _compared(question.without(mechanism=name, epsilon=1.0, received=None, public=False))
        except InvalidInput as error:
            refused[name] = str(error)
    return tuple(rows), refused


@lru_cache(maxsize=4 * KEPT)
def _compared(question: Question) -> tuple[Comparison, ...]:
    domain, name, records = question.domain, question.mechanism, question.records
    for epsilon in EPSILONS:
        _check_speed(name, domain.resolve(records, epsilon).count)
    return tuple(
        compare(
            question.labels,
            EPSILONS,
            question.loss,
            mechanisms=[name],
            domain=domain,
            records=records,
            explained=question.explained,
            quick=True,
        )
    )


@dataclass(frozen=True, eq=False)
class SimulatedPrior:
    """A private prior for invented labels.

    Attributes
    ----------
    assumed : Prior
        The distribution that labels were drawn from, on the grid.
    drawn : Prior
        The private prior that came out.
    epsilon_prior : float
        What it would cost.
    scale : float
        The scale of the noise on each count.
    expected_loss : float
        Of a private label, by the mechanism designed for the drawn prior, under the assumed distribution.
    """

    assumed: Prior
    drawn: Prior
    epsilon_prior: float
    scale: float
    expected_loss: float

    @property
    def distance(self) -> float:
        """Half the sum of the differences of masses: the share of mass that is in the wrong cells."""
        both = np.union1d(self.assumed.values, self.drawn.values)

        def spread(prior: Prior) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            masses = np.zeros(both.size)
            masses[np.searchsorted(both, prior.values)] = prior.masses
            return masses

        return float(np.abs(spread(self.assumed) - spread(self.drawn)).sum() / 2)


def why_none(question: Question) -> str | None:
    """Return why a release does not draw a private prior, or None if it does."""
    if question.shown_mechanism is not None:
        return "A received mechanism is shown unchanged, so no prior is drawn."
    if not releasable(question.mechanism).needs_prior:
        return f"{question.mechanism} is not designed for a distribution, so no prior is drawn and all of ε goes to the labels."
    if question.public:
        return "The distribution is taken as public, so no private prior is drawn and all of ε goes to the labels."
    return None


def simulated_prior(question: Question, draw: int) -> SimulatedPrior:
    """Return a private prior for invented labels, which are drawn from the assumed distribution. Nothing is released.

    Another number of the draw gives another one.
    """
    return _simulated(question.without(explained=0.5, received=None), draw)


@lru_cache(maxsize=KEPT)
def _simulated(question: Question, draw: int) -> SimulatedPrior:
    question.check()
    split = _split(question)
    if split is None:
        raise InvalidInput(why_none(question) or "no prior is drawn")
    grid, entry = question.grid, releasable(question.mechanism)
    cells = Cells.of(question.assumed, grid)
    counts = np.random.default_rng(draw).multinomial(question.records, cells.masses / cells.masses.sum())
    request = Request(grid, question.epsilon, question.loss, None, question.records)
    drawn = entry.fit_prior(counts.astype(np.int64), split.scale, request)
    mechanism = design(question.mechanism, Request(grid, split.epsilon_labels, question.loss, drawn, question.records))
    coarse = Cells.of(question.assumed, grid if len(drawn) == grid.count else grid.with_cells(len(drawn)))
    return SimulatedPrior(
        assumed=Prior(coarse.labels, coarse.masses),
        drawn=drawn,
        epsilon_prior=float(split.epsilon_prior),
        scale=split.scale,
        expected_loss=loss_of_label(mechanism, question.merged, get_loss(question.loss)),
    )


CELLS = 60
"""The most cells on each side of the picture."""


@dataclass(frozen=True, eq=False)
class Channel:
    """P[report j | label in cell i].

    Attributes
    ----------
    label_edges : array
        The borders of the cells of labels.
    reports : array
        The outputs in increasing order, or the middles of cells if there are too many.
    shares : array
        One row per cell of labels; each sums to one, or is zero if the distribution contains no labels there.
    single : bool
        Whether each report is one output.
    """

    label_edges: Floats
    reports: Floats
    shares: Floats
    single: bool


def channel(mechanism: FiniteMechanism, prior: Prior, bounds: tuple[float, float]) -> Channel:
    """Return the channel in at most 60 × 60 cells. Labels within a cell count as often as the distribution has them."""
    lower, upper = min(bounds[0], float(prior.values[0])), max(bounds[1], float(prior.values[-1]))
    label_edges = np.linspace(lower, upper, min(CELLS, max(2, prior.values.size)) + 1)
    outputs = np.sort(mechanism.outputs)
    single = outputs.size <= CELLS
    report_edges = _around(outputs) if single else np.linspace(outputs[0], outputs[-1], CELLS + 1)
    chances = mechanism.matrix(prior.values)
    shares = joint_mass((prior.values, prior.masses), mechanism.outputs, chances, label_edges, report_edges)
    totals = shares.sum(axis=1, keepdims=True)
    reports = outputs if single else (report_edges[:-1] + report_edges[1:]) / 2
    return Channel(label_edges, reports, np.divide(shares, totals, out=shares, where=totals > 0), single)


def grouped(outputs: Floats, weights: Floats, most: int) -> tuple[Floats, Floats]:
    """Return outputs in increasing order with their weights; if there are more than `most`, the middles of `most` cells with sums."""
    order = np.argsort(outputs, kind="stable")
    outputs, weights = outputs[order], weights[order]
    if outputs.size <= most:
        return outputs, weights
    sums, edges = np.histogram(outputs, most, weights=weights)
    return (edges[:-1] + edges[1:]) / 2, sums


def _around(outputs: Floats) -> Floats:
    """Return borders halfway between outputs, and at the same distance beyond the first and last."""
    if outputs.size == 1:
        return np.array([outputs[0] - 0.5, outputs[0] + 0.5])
    middles = (outputs[:-1] + outputs[1:]) / 2
    return np.concatenate([[2 * outputs[0] - middles[0]], middles, [2 * outputs[-1] - middles[-1]]])


@dataclass(frozen=True, eq=False)
class Reported:
    """The distribution of the private version of one label.

    Attributes
    ----------
    label : float
        The true label.
    outputs, probabilities : arrays
        What it can become, in increasing order, and how often.
    mean, deviation : float
        Of the private label.
    """

    label: float
    outputs: Floats
    probabilities: Floats
    mean: float
    deviation: float

    @property
    def likeliest(self) -> int:
        """The place of the output with the largest probability."""
        return int(np.argmax(self.probabilities))

    def sentence(self) -> str:
        """Return a description of what happens to this label."""
        often, value = float(self.probabilities[self.likeliest]), self.outputs[self.likeliest]
        if self.outputs.size == 1:
            return f"Every label is reported as {plain(value)}, so the report reveals nothing about it."
        return (
            f"A label of {plain(self.label)} is reported as one of {self.outputs.size:,} values, most often as {plain(value)} ({percent(often)}). "
            f"Its reports are {plain(self.mean)} on average, with a standard deviation of {plain(self.deviation)}."
        )


def reported(mechanism: FiniteMechanism, label: float) -> Reported:
    """Return the distribution of a mechanism's outputs for one label, from its integer weights."""
    order = np.argsort(mechanism.outputs, kind="stable")
    outputs, row = mechanism.outputs[order], mechanism.matrix([label])[0][order]
    mean = float(row @ outputs)
    return Reported(label, outputs, row, mean, math.sqrt(float(row @ np.square(outputs - mean))))


def apart(first: Reported, second: Reported) -> str:
    """Return a sentence on how well one report distinguishes two labels."""
    ratios = first.probabilities / second.probabilities
    most = max(float(ratios.max()), float(1 / ratios.min()))
    return (
        f"No report is more than {plain(most, 3)} times as likely for a label of {plain(first.label)} as for one of {plain(second.label)}, or "
        "vice versa."
    )
