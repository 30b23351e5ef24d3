"""A comparison of all mechanisms under one prior, by exact expectations without sampling.

The error of the labels differs from the error of a model that is trained on them: noise averages out in training, bias
does not. So each row has both, and a choice for training should use the second.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms.bias_variance import VISIBLE, BiasVariance, Unbiased, weight_of_variance
from labeldp.mechanisms.label_cells import even_grid, merged_prior
from labeldp.mechanisms.mechanism import Mechanism
from labeldp.mechanisms.prediction import ANCHORS, EXPLAINED, PREDICTION_LABELS, ModelErrors, check_share
from labeldp.mechanisms.registry import MECHANISMS, Request
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RECORDS = 100_000
"""The default number of training records."""
QUICK_ANCHORS = {4.0: 31, 8.0: 41}
"""The number of anchors of quick designs by ε, 21 at every other ε. Full designs would take seconds."""
NO_BIAS = 1e-12
"""A squared bias of less than this share of the variance is rounding."""
NOT_PRIVATE, MEAN_ONLY = "not-private", "mean-only"
REFERENCES = (NOT_PRIVATE, MEAN_ONLY)
"""References for the mechanisms: the labels themselves, and predicting the prior's mean for every record."""


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
        The expected loss of a private label.
    bias : float
        The root of E[bias(y)²].
    variance : float
        E[Var(ŷ | y)].
    outputs : int or None
        The number of outputs; None for a continuous mechanism.
    exact : bool
        Whether it may be released.
    model_error : float or None
        The predicted squared test error of a model trained on the mechanism's training values
        (`labeldp.mechanisms.prediction`). None for losses other than squared.
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
    """Return the default rows of `compare`: all mechanisms, then the references."""
    return [*(entry.name for entry in MECHANISMS), *REFERENCES]


def compare(
    prior: Prior,
    epsilons: Iterable[Epsilon],
    loss: LossLike = "squared",
    *,
    mechanisms: Iterable[str] | None = None,
    domain: Domain | tuple[float, float] | None = None,
    records: int = RECORDS,
    explained: float = EXPLAINED,
    quick: bool = False,
) -> Iterator[Comparison]:
    """Compare mechanisms by the expected error of a private label and of a model trained on such labels.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilons : iterable
        Privacy budgets of one label. All of ε is spent on the labels.
    loss : str, Loss or callable
        The loss of a private label.
    mechanisms : iterable of str, optional
        Names in the catalogue, "not-private" or "mean-only"; by default all that are defined for this loss.
    domain : Domain or (lower, upper), optional
        The public bounds. Without a number of cells, its grid is the same as for a release with these records and ε. By
        default the range of the prior, with a grid as fine as the prior's values.
    records : int
        The number of records that the model is trained on, for which "auto" is designed.
    explained : float
        The share of the labels' variance that features explain, from 0 to 1, for the error of the model.
    quick : bool
        Whether to compute in a fraction of the time: labels are merged into 101, and designs have few anchors. Errors differ by up to
        2 %, and 5 % at ε = 8.

    Yields
    ------
    Comparison
        Each mechanism at each ε; ε varies fastest.

    Examples
    --------
    >>> from labeldp import Prior, compare
    >>> rows = compare(Prior([0, 1, 2], [1, 1, 1]), [1.0], mechanisms=["auto", "rr-on-bins", "exponential"])
    >>> [(row.mechanism, round(row.expected_loss, 3), round(row.model_error, 3)) for row in rows]
    [('auto', 3.881, 0.342), ('rr-on-bins', 0.569, 0.377), ('exponential', 1.099, 0.571)]
    """
    expect_prior(prior)
    check_share(explained)
    frame = even_grid(prior) if domain is None else Domain.of(domain)
    measure, budgets = get_loss(loss), [exact_epsilon(epsilon) for epsilon in epsilons]
    measure.valid_labels.check(prior.values[prior.masses > 0], f"labels under {measure.name} loss")
    models = ModelErrors(prior, explained) if measure.name == "squared" else None
    judged = merged_prior(prior, PREDICTION_LABELS if quick else prior.values.size)[0]

    def row(name: str, epsilon: Fraction) -> Comparison:
        if name in REFERENCES:
            return _reference(name, epsilon, judged, measure, models, records)
        made = _quick_design(name, judged, epsilon, measure, records) if quick else None
        if made is None:
            grid = frame.resolve(records, float(epsilon))
            made = MECHANISMS[name].make(Request(grid, epsilon, measure, prior, records))
        any_range = quick or MECHANISMS[name].for_training
        return _row(name, made, judged, measure, models, records, any_range=any_range)

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
            undefined.add(name)  # its outputs are outside of the range of the loss
        else:
            yield found


def _quick_design(name: str, prior: Prior, epsilon: Fraction, loss: Loss, records: int) -> Mechanism | None:
    """Design a mechanism on merged labels and with few anchors. Return None if its design does not use a program."""
    anchors, tau = QUICK_ANCHORS.get(float(epsilon), ANCHORS), weight_of_variance(records)
    if name == "auto":
        own = anchors if loss.name == "squared" else None
        return BiasVariance.optimal(prior, epsilon, tau, visible=VISIBLE, loss=loss, anchors=own)
    if name == "bias-variance":
        return BiasVariance.optimal(prior, epsilon, tau, anchors=anchors)
    if name == "unbiased" and loss.name == "squared":
        return Unbiased.optimal(prior, epsilon, anchors=anchors)
    return None


def _two_at_a_time(
    row: Callable[[str, Fraction], Comparison], jobs: Iterator[tuple[str, Fraction]]
) -> Iterator[tuple[tuple[str, Fraction], Future[Comparison]]]:
    """Yield each job with its answer, in order. Solvers and NumPy release Python's lock, so a second thread helps."""
    threads = ThreadPoolExecutor(2, "labeldp-compare")
    try:
        started = deque((job, threads.submit(row, *job)) for job in islice(jobs, 3))
        while started:
            yield started.popleft()
            started.extend((job, threads.submit(row, *job)) for job in islice(jobs, 1))
    finally:
        threads.shutdown(cancel_futures=True)


def bias_and_variance(mechanism: Mechanism, prior: Prior) -> tuple[float, float]:
    """Return the root of the mean squared bias, 0 if it is only rounding, and the mean variance of a private label."""
    mean, variances = mechanism.conditional_moments(prior.values)
    squared, variance = float(prior.masses @ np.square(mean - prior.values)), float(prior.masses @ variances)
    return math.sqrt(squared) if squared > NO_BIAS * variance else 0.0, variance


def loss_of_label(mechanism: Mechanism, prior: Prior, loss: Loss) -> float:
    """Return the expected loss of a private label; infinite if outputs are outside of the range of the loss."""
    try:
        return mechanism.expected_loss(prior, loss)
    except InvalidInput:
        return math.inf


def _row(
    name: str,
    mechanism: Mechanism,
    prior: Prior,
    loss: Loss,
    models: ModelErrors | None,
    records: int,
    *,
    any_range: bool,
) -> Comparison:
    """Return the row of a mechanism; with `any_range`, its outputs may be outside of the range of the loss."""
    bias, variance = bias_and_variance(mechanism, prior)
    return Comparison(
        mechanism=name,
        epsilon=float(mechanism.epsilon_exact),
        expected_loss=loss_of_label(mechanism, prior, loss) if any_range else mechanism.expected_loss(prior, loss),
        bias=bias,
        variance=variance,
        outputs=mechanism.outputs.size if mechanism.exact else None,
        exact=mechanism.exact,
        model_error=None if models is None else models.of(mechanism, records).mse,
        records=records,
    )


def _reference(
    name: str, epsilon: Fraction, prior: Prior, loss: Loss, models: ModelErrors | None, records: int
) -> Comparison:
    """Return the row of the labels themselves, or of one answer for all. Neither depends on ε."""
    points, masses = prior.values, prior.masses
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
        model_error=None if models is None else (models.mean_only() if private else models.not_private(records)).mse,
        records=records,
    )


def plot_comparison(rows: Sequence[Comparison], loss: str) -> Axes:
    """Draw the errors of models against ε, or the errors of labels if model errors are not predicted."""
    from labeldp import plots

    modelled = any(row.model_error is not None for row in rows)
    lines: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row.epsilon):
        if modelled or row.mechanism != NOT_PRIVATE:  # its labels have zero error, which a logarithm cannot show
            lines.setdefault(row.mechanism, []).append(ranking_error(row))
    floats = [row.mechanism for row in rows if row.outputs is None]
    return plots.curves(
        sorted({row.epsilon for row in rows}),
        lines,
        colours={name: plots.QUIET if name in REFERENCES else MECHANISMS[name].colour for name in lines},
        dashed=[*floats, *REFERENCES],
        ylabel=f"expected {loss} loss",
        title=f"error of {'a model' if modelled else 'a private label'}{' (dashed: float mechanisms)' if floats else ''}",
    )


def ranking_error(row: Comparison) -> float:
    """Return the error to choose by: the error of a model if it is predicted, otherwise the error of a label."""
    return row.expected_loss if row.model_error is None else row.model_error
