"""Every mechanism side by side under one prior, by exact expectations and never sampled.

The error of the labels is one thing, the error of a model that is trained on them another: noise averages out in
training, bias does not. So each row has both, and a choice for training goes by the second.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.model_error import ModelErrors
from labeldp.mechanisms.registry import MECHANISMS, Request
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior

RECORDS = 100_000
"""The number of training records that `compare` assumes unless it is told."""
NOT_PRIVATE, MEAN_ONLY = "not-private", "mean-only"
REFERENCES = (NOT_PRIVATE, MEAN_ONLY)
"""What mechanisms are measured against: the labels themselves, and answering the prior's mean for every record."""


@dataclass(frozen=True)
class Comparison:
    """One mechanism at one ε, by exact expectations under the prior.

    Attributes
    ----------
    mechanism : str
        Its name in the catalogue; or "not-private", the labels themselves, or "mean-only", the prior's mean for all.
    epsilon : float
        The ε of one label.
    expected_loss : float
        Of a private label.
    bias : float
        The root of E[bias(y)²].
    variance : float
        E[Var(ŷ | y)].
    outputs : int or None
        How many there are; None for a continuous mechanism.
    exact : bool
        Whether it may be released.
    model_error : float or None
        The squared test error that the rule of `auto` expects of a model trained on the mechanism's training values,
        for features that explain 0.7 of the label. None for losses other than squared.
    records : int
        The number of records that the model is trained on.

    Examples
    --------
    >>> from labeldp import Prior, compare
    >>> next(compare(Prior([0, 10], [1, 1]), [1.0], mechanisms=["rr-on-bins"])).outputs
    2
    """

    mechanism: str
    epsilon: float
    expected_loss: float
    bias: float
    variance: float
    outputs: int | None
    exact: bool
    model_error: float | None
    records: int


def comparable() -> list[str]:
    """What `compare` shows by default: all mechanisms, then the references."""
    return [*(entry.name for entry in MECHANISMS), *REFERENCES]


def compare(
    prior: Prior,
    epsilons: Iterable[Epsilon],
    loss: LossLike = "squared",
    *,
    mechanisms: Iterable[str] | None = None,
    domain: Domain | tuple[float, float] | None = None,
    records: int = RECORDS,
) -> Iterator[Comparison]:
    """Compare mechanisms by the expected error of a private label and of a model trained on such labels.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilons : iterable
        What a label may cost.
    loss : str, Loss or callable
        What is expected.
    mechanisms : iterable of str, optional
        Names in the catalogue, "not-private" or "mean-only"; by default all that are defined for this loss.
    domain : Domain or (lower, upper), optional
        The grid; by default the prior's own even one.
    records : int
        How many records the model is trained on, for which "auto" is designed.

    Yields
    ------
    Comparison
        Each mechanism at each ε, in this order of nesting.

    Examples
    --------
    >>> from labeldp import Prior, compare
    >>> rows = compare(Prior([0, 1, 2], [1, 1, 1]), [1.0], mechanisms=["auto", "rr-on-bins", "exponential"])
    >>> [(row.mechanism, round(row.expected_loss, 3), round(row.model_error, 3)) for row in rows]
    [('auto', 3.881, 0.269), ('rr-on-bins', 0.569, 0.316), ('exponential', 1.099, 0.546)]
    """
    expect_prior(prior)
    frame = grid_of(prior) if domain is None else Domain.of(domain)
    if frame.cells is None:
        frame = frame.with_cells(grid_of(prior).count)
    measure, budgets = get_loss(loss), [exact_epsilon(epsilon) for epsilon in epsilons]
    measure.valid_labels.check(prior.values[prior.masses > 0], f"labels under {measure.name} loss")
    models = ModelErrors(prior, records) if measure.name == "squared" else None

    def row(name: str, epsilon: Fraction) -> Comparison:
        if name in REFERENCES:
            return _reference(name, epsilon, prior, measure, models, records)
        made = MECHANISMS[name].make(Request(frame, epsilon, measure, prior, records))
        return _row(name, made, prior, measure, models, records)

    undefined: set[str] = set()
    jobs = ((name, epsilon) for name in (comparable() if mechanisms is None else mechanisms) for epsilon in budgets)
    for (name, _), answer in _two_at_a_time(row, jobs):
        if name in undefined:
            continue
        try:
            found = answer.result()
        except InvalidInput:
            if mechanisms is not None:
                raise
            undefined.add(name)  # its outputs leave the range that the loss is defined on
        else:
            yield found


def _two_at_a_time(
    row: Callable[[str, Fraction], Comparison], jobs: Iterator[tuple[str, Fraction]]
) -> Iterator[tuple[tuple[str, Fraction], Future[Comparison]]]:
    """Each job with its answer, in order. Solvers and NumPy work without Python's lock, so a second thread is worth it."""
    threads = ThreadPoolExecutor(2, "labeldp-compare")
    try:
        begun = deque((job, threads.submit(row, *job)) for job in islice(jobs, 3))
        while begun:
            yield begun.popleft()
            begun.extend((job, threads.submit(row, *job)) for job in islice(jobs, 1))
    finally:
        threads.shutdown(cancel_futures=True)


def _row(
    name: str, mechanism: Mechanism, prior: Prior, loss: Loss, models: ModelErrors | None, records: int
) -> Comparison:
    points, masses = prior.values[prior.masses > 0], prior.masses[prior.masses > 0]
    mean, variance = mechanism.conditional_moments(points)
    return Comparison(
        mechanism=name,
        epsilon=float(mechanism.epsilon_exact),
        expected_loss=_expected_loss(name, mechanism, prior, loss),
        bias=math.sqrt(float(masses @ (mean - points) ** 2)),
        variance=float(masses @ variance),
        outputs=mechanism.outputs.size if mechanism.exact else None,
        exact=mechanism.exact,
        model_error=None if models is None else models.of(mechanism),
        records=records,
    )


def _expected_loss(name: str, mechanism: Mechanism, prior: Prior, loss: Loss) -> float:
    """The loss of a label. It is infinite for values that are meant for training and leave the range of the loss."""
    try:
        return mechanism.expected_loss(prior, loss)
    except InvalidInput:
        if not MECHANISMS[name].for_training:
            raise
        return math.inf


def _reference(
    name: str, epsilon: Fraction, prior: Prior, loss: Loss, models: ModelErrors | None, records: int
) -> Comparison:
    """The row of the labels themselves, or of one answer for all. Neither depends on ε."""
    points, masses = prior.values[prior.masses > 0], prior.masses[prior.masses > 0]
    private = name == MEAN_ONLY
    answers = np.full_like(points, prior.mean) if private else points
    return Comparison(
        mechanism=name,
        epsilon=float(epsilon),
        expected_loss=float(masses @ loss(answers, points)) if private else 0.0,
        bias=math.sqrt(float(masses @ (answers - points) ** 2)),
        variance=0.0,
        outputs=1 if private else points.size,
        exact=private,
        model_error=None if models is None else models.mean_only if private else models.not_private,
        records=records,
    )


def grid_of(prior: Prior) -> Domain:
    """The domain whose grid the prior's values are, or at least one that covers them with as many cells (at most 1,001)."""
    values = prior.values
    if values.size < 2:
        raise InvalidInput("comparing needs a prior with at least two values")
    step = float(np.diff(values).min())
    cells = round((values[-1] - values[0]) / step) + 1
    return Domain(float(values[0]), float(values[-1]), int(min(max(cells, 2), 1001)))
