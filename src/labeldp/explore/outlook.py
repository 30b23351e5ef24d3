"""What a model is predicted to be worth: the advisor's curve over ε, and the sentence on top of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import cast

from labeldp.advice import Advice, Prediction, advise
from labeldp.advice.learned import Learned
from labeldp.advice.question import EPSILONS
from labeldp.advice.words import Risk, percent
from labeldp.arrays import Floats
from labeldp.budget import exact_epsilon
from labeldp.explore.designed import designed, merged
from labeldp.explore.question import KEPT, RECEIVED, Question
from labeldp.formatting import count_of
from labeldp.mechanisms.auto import MOST_FOR_PRIOR
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.randomized_response import RROnBins
from labeldp.priors import Prior

FEW = 10_000
"""Where records times ε are fewer, models on private labels were worse than predicted on some data."""
LOUD = 30.0
"""So many times the spread of the labels is more noise than predictions were checked with."""


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
        What the risk is told about.
    """

    sentence: str
    trained: Prediction
    not_private: Prediction
    risk: Risk
    statement: str


def curve(question: Question) -> Advice:
    """The advisor's predictions over a fixed list of ε. They depend on neither the current ε, nor the loss, nor the mechanism.

    With a public distribution all of ε goes to the labels.
    """
    return _advice(_advised(question), EPSILONS)


def headline(question: Question) -> Headline:
    """The prediction at the current ε, for squared loss, and its sentence.

    Models train on the values that `labeldp train` takes by default. What a release refuses is refused here too.
    """
    advice = _advice(_advised(question), (question.epsilon,))
    outlook = advice.outlooks[0]
    if (question.mechanism, question.loss) != ("auto", "squared"):
        designed(question)  # for its refusals
    if question.mechanism == "auto":
        trained, by = outlook.labels, "auto"
    else:
        mechanism = designed(question.without(loss="squared")).mechanism
        decoded = cast("FiniteMechanism", _Decoded(mechanism, code_values(mechanism)))
        mse = Learned.of(advice.prior, question.explained).error(decoded, question.records)
        trained = Prediction(max(mse, 0.0), advice.mean_only.spread)
        by = "the received mechanism" if question.mechanism == RECEIVED else question.mechanism
    return Headline(
        _sentence(question, advice, trained, by), trained, advice.not_private, outlook.risk, advice.statement
    )


@dataclass(frozen=True, eq=False)
class _Decoded:
    """A mechanism whose codes stand for other numbers than its outputs."""

    mechanism: FiniteMechanism
    numbers: Floats

    def conditional_moments(self, labels: Floats) -> tuple[Floats, Floats]:
        return self.mechanism.conditional_moments(labels, self.numbers)


def _sentence(question: Question, advice: Advice, trained: Prediction, by: str) -> str:
    most = advice.not_private.r2
    if most <= 0:
        return f"Even without privacy {count_of(question.records, 'record')} {'does' if question.records == 1 else 'do'} not teach a model more than the mean."
    kept = f"{percent(min(1.0, trained.r2 / most))} of that"
    if trained.r2 <= 0:
        kept = "worse than answering the mean for all"
    return (
        f"At ε = {question.epsilon:.4g} a model trained on {count_of(question.records, 'label')} made private by {by} is predicted to reach R² = {trained.r2:.2f}, "
        f"where no privacy gives {most:.2f}: {kept}."
    )


def caveats(question: Question) -> list[str]:
    """What the sentence on top does not say, as far as the question calls for it."""
    notes = []
    if question.loss != "squared":
        notes.append(
            f"The prediction is for a model of squared loss. What follows is designed for {question.loss} loss; docs/guides/losses.md has what models for "
            "other losses reach."
        )
    if question.mechanism != "auto":
        notes.append(
            "Predictions were checked with models on auto's labels and on the paper's bins as they are sent. For other mechanisms, and for the values that labeldp "
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
    """The standard deviation of the noise in what models train on, over that of the labels."""
    mechanism, prior = designed(question.without(loss="squared")).mechanism, merged(question.labels)
    variances = mechanism.conditional_moments(prior.values, code_values(mechanism))[1]
    return math.sqrt(float(prior.masses @ variances) / prior.variance) if prior.variance else 0.0


def _advised(question: Question) -> Question:
    """The parts of a question that the advisor looks at."""
    return question.without(loss="squared", mechanism="auto", epsilon=1.0, received=None)


@lru_cache(maxsize=4 * KEPT)
def _advice(question: Question, epsilons: tuple[float, ...]) -> Advice:
    known = question.distribution

    def asked(budgets: Iterable[float | Fraction]) -> Advice:
        return advise(
            question.domain,
            question.records,
            explained=question.explained,
            epsilons=budgets,
            prior=known if isinstance(known, Prior) else None,
            shape=known if isinstance(known, str) else None,
        )

    advice = asked(epsilons)
    if not question.public:
        return advice
    free = asked(_with_prior(epsilon) for epsilon in epsilons)
    learned = Learned.of(advice.prior, question.explained)
    outlooks = []
    for each, shifted in zip(advice.outlooks, free.outlooks, strict=True):
        bins = learned.error(RROnBins.optimal(advice.prior, each.epsilon), question.records)
        paper = Prediction(max(bins, 0.0), advice.mean_only.spread)
        outlooks.append(replace(each, labels=shifted.labels, paper=paper))
    return replace(advice, outlooks=tuple(outlooks))


def _with_prior(epsilon: float) -> Fraction:
    """The budget of which just ε is left for the labels once the advisor has bought a prior: a public one costs nothing."""
    left = exact_epsilon(epsilon)
    return left + min(left / 24, MOST_FOR_PRIOR)
