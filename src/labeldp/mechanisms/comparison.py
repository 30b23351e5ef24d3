"""Every mechanism side by side under one prior: expected loss, bias and variance against ε, exact and never sampled."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, expect
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.catalogue import MECHANISMS, Request
from labeldp.priors import Prior


@dataclass(frozen=True)
class Comparison:
    """One mechanism at one ε, by exact expectations under the prior.

    Attributes
    ----------
    mechanism : str
        Its name in the catalogue.
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


def comparable() -> list[str]:
    """The mechanisms that `compare` shows by default: all that are designed for the labels, not for training on them."""
    return [entry.name for entry in MECHANISMS if not entry.needs_records]


def compare(
    prior: Prior,
    epsilons: Iterable[Epsilon],
    loss: LossLike = "squared",
    *,
    mechanisms: Iterable[str] | None = None,
    domain: Domain | tuple[float, float] | None = None,
    records: int | None = None,
) -> Iterator[Comparison]:
    """Compare mechanisms by the expected loss of a private label.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilons : iterable
        What a label may cost.
    loss : str, Loss or callable
        What is expected.
    mechanisms : iterable of str, optional
        Names in the catalogue; by default all that are designed for the labels and defined for this loss.
    domain : Domain or (lower, upper), optional
        The grid; by default the prior's own even one.
    records : int, optional
        For mechanisms that are designed for training on so many.

    Yields
    ------
    Comparison
        Each mechanism at each ε, in this order of nesting.

    Examples
    --------
    >>> from labeldp import Prior, compare
    >>> rows = compare(Prior([0, 1, 2], [1, 1, 1]), [1.0], mechanisms=["rr-on-bins", "exponential"])
    >>> [(row.mechanism, round(row.expected_loss, 3)) for row in rows]
    [('rr-on-bins', 0.569), ('exponential', 1.099)]
    """
    expect(prior, Prior, "prior", "make one with Prior(values, masses) or Prior.from_csv(path)")
    frame = grid_of(prior) if domain is None else Domain.of(domain)
    if frame.cells is None:
        frame = Domain(frame.lower, frame.upper, grid_of(prior).count)
    measure, budgets = get_loss(loss), [exact_epsilon(epsilon) for epsilon in epsilons]
    measure.valid_labels.check(prior.values[prior.masses > 0], f"labels under {measure.name} loss")
    for name in comparable() if mechanisms is None else mechanisms:
        entry = MECHANISMS[name]
        for epsilon in budgets:
            try:
                row = _row(name, entry.make(Request(frame, epsilon, measure, prior, records)), prior, measure)
            except InvalidInput:
                if mechanisms is not None:
                    raise
                break  # its outputs leave the range that the loss is defined on
            yield row


def _row(name: str, mechanism: Mechanism, prior: Prior, loss: Loss) -> Comparison:
    points, masses = prior.values[prior.masses > 0], prior.masses[prior.masses > 0]
    mean, variance = mechanism.conditional_moments(points)
    return Comparison(
        mechanism=name,
        epsilon=float(mechanism.epsilon_exact),
        expected_loss=mechanism.expected_loss(prior, loss),
        bias=math.sqrt(float(masses @ (mean - points) ** 2)),
        variance=float(masses @ variance),
        outputs=mechanism.outputs.size if mechanism.exact else None,
        exact=mechanism.exact,
    )


def grid_of(prior: Prior) -> Domain:
    """The domain whose grid the prior's values are, or at least one that covers them with as many cells (at most 1,001)."""
    values = prior.values
    if values.size < 2:
        raise InvalidInput("comparing needs a prior with at least two values")
    step = float(np.diff(values).min())
    cells = round((values[-1] - values[0]) / step) + 1
    return Domain(float(values[0]), float(values[-1]), int(min(max(cells, 2), 1001)))
