"""Noise on a grid, exact in integers: discrete Laplace, discrete staircase (Geng and Viswanath 2014), exponential (McSherry and Talwar 2007)."""

from __future__ import annotations

import math

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import LossLike, get_loss
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import grid_parts, gridded, window_values
from labeldp.mechanisms.registry import Request, mechanism
from labeldp.priors import Prior
from labeldp.sampling import ShiftTable, WeightTable
from labeldp.sampling.noise_tables import laplace_profile, staircase_profile

_MOST_ENTRIES = 1 << 22
_MOST_PAIRS = 1 << 28
"""The most pairs of a label and a noise for which `DiscreteStaircase.optimal` computes a loss, some seconds of work."""
EXPONENTIAL_CELLS = 4472
"""A larger table would have more entries than `WeightTable` allows."""


@mechanism(
    "discrete-laplace",
    title="discrete Laplace",
    help="whole cells of Laplace noise, clipped into the bounds",
    make=lambda r: DiscreteLaplace(r.domain, r.epsilon),
    colour="#01a999",
)
class DiscreteLaplace(FiniteMechanism):
    """The discrete Laplace mechanism: adds t cells of noise with mass e^(−ε|t|/(cells − 1)).

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds and the grid of cells; 1,001 cells by default.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.
    window : int
        The number of extra cells on either side of the range. The default, 0, clips into the range as in the paper.
        Clamping noise to the ends of the window costs no privacy.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import Domain
    >>> from labeldp.mechanisms import DiscreteLaplace
    >>> DiscreteLaplace(Domain.integers(0, 3), epsilon=1, window=2)
    DiscreteLaplace(epsilon=1, outputs=8 values from -2 to 5)
    """

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon, *, window: int = 0) -> None:
        budget, frame = exact_epsilon(epsilon), gridded(domain)
        profile = laplace_profile(frame.count, float(budget), window=window)
        table = ShiftTable.from_profile(profile, budget, cells=frame.count, window=window)
        super().__init__(**grid_parts(frame, budget, table, window), parameters=(("window", window),))


@mechanism(
    "discrete-staircase",
    title="discrete staircase",
    help="whole cells of staircase noise, its step best for the prior where there is one",
    make=lambda r: _made(r),  # noqa: PLW0108 - it is defined below
    colour="#4d56cb",
)
class DiscreteStaircase(FiniteMechanism):
    """The discrete staircase mechanism: the mass of the noise is constant for `r` cells, e^−ε times that for the rest of Δ, and so on.

    `DiscreteStaircase.optimal` finds the `r` of least expected loss under a prior.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds and the grid of cells; 1,001 cells by default.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.
    r : int, optional
        The length of the first step in cells. By default the length that minimises the expected loss of the noise.
    loss : str, Loss or callable
        The loss for the default `r`; a loss of the distance, such as squared or absolute.
    window : int
        The number of extra cells on either side of the range. The default, 0, clips into the range as in the paper.
        Clamping noise to the ends of the window costs no privacy.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import Domain
    >>> from labeldp.mechanisms import DiscreteStaircase
    >>> DiscreteStaircase(Domain.integers(0, 52), epsilon=2).parameter("r")
    18.0
    """

    def __init__(
        self,
        domain: Domain | tuple[float, float],
        epsilon: Epsilon,
        *,
        r: int | None = None,
        loss: LossLike = "squared",
        window: int = 0,
    ) -> None:
        budget, frame = exact_epsilon(epsilon), gridded(domain)
        steps = _best_for_noise(frame.count - 1, float(budget), loss) if r is None else int(r)
        profile = staircase_profile(frame.count, float(budget), steps, window=window)
        table = ShiftTable.from_profile(profile, budget, cells=frame.count, window=window)
        super().__init__(**grid_parts(frame, budget, table, window), parameters=(("r", steps), ("window", window)))

    @classmethod
    def optimal(
        cls,
        prior: Prior,
        epsilon: Epsilon,
        loss: LossLike = "squared",
        *,
        domain: Domain | tuple[float, float],
        window: int = 0,
    ) -> DiscreteStaircase:
        """Find the `r` of least expected loss under a prior: a scan of at most 33 values, then finer ones around the best.

        Parameters
        ----------
        prior : Prior
            The distribution of the labels.
        epsilon : float, str, Decimal or Fraction
            The privacy budget of each label.
        loss : str, Loss or callable
            The loss to minimise.
        domain : Domain or (lower, upper)
            The public bounds and the grid of cells; 1,001 cells by default.
        window : int
            The number of extra cells on either side of the range.

        Returns
        -------
        DiscreteStaircase
        """
        frame, budget = gridded(domain), float(exact_epsilon(epsilon))
        of_noise = _expected_losses(prior, loss, frame, window)
        costs: dict[int, float] = {}

        def cost(r: int) -> float:
            if r not in costs:
                masses = staircase_profile(frame.count, budget, r, window=window)
                costs[r] = float(masses @ of_noise) / float(2 * masses.sum() - masses[0])
            return costs[r]

        low, high = 1, frame.count - 1
        while True:
            scan = np.unique(np.linspace(low, high, 33).astype(int))
            best = min((int(r) for r in scan), key=cost)
            if scan.size == high - low + 1:
                return cls(frame, epsilon, r=best, window=window)
            stride = int(np.diff(scan).max())
            low, high = max(low, best - stride), min(high, best + stride)


def _made(request: Request) -> DiscreteStaircase:
    if request.prior is None:
        return DiscreteStaircase(request.domain, request.epsilon, loss=request.loss)
    return DiscreteStaircase.optimal(request.prior, request.epsilon, request.loss, domain=request.domain)


def _expected_losses(prior: Prior, loss: LossLike, frame: Domain, window: int) -> Floats:
    """Return E[ℓ(ŷ + t, y)] + E[ℓ(ŷ − t, y)] under a prior for noise of t = 0, 1, … cells, where ŷ is the cell of y. Noise 0 counts once.

    The last value is for all noise that leaves the window from every cell. With more than `_MOST_PAIRS` pairs of a
    label and a noise, quantiles of the prior replace it: a million cells would take hours.
    """
    measure, held = get_loss(loss), prior.masses > 0
    labels, masses, outputs = prior.values[held], prior.masses[held], window_values(frame, window)
    measure.valid_labels.check(labels, "labels")
    measure.valid_outputs.check(outputs, "outputs")
    noise = np.arange(frame.count + window)
    most = max(1, _MOST_PAIRS // noise.size)
    if labels.size > most:
        middles = (np.arange(most) + 0.5) / most
        labels, masses = labels[np.searchsorted(np.cumsum(masses), middles * masses.sum())], np.full(most, 1 / most)
    codes = frame.cell(labels).astype(np.int64) + window
    total = np.zeros(noise.size)
    step = max(1, _MOST_ENTRIES // noise.size)
    for start in range(0, labels.size, step):
        rows = slice(start, start + step)
        for signed in (noise, -noise):
            given = outputs[np.clip(codes[rows, None] + signed, 0, outputs.size - 1)]
            total += masses[rows] @ measure(given, labels[rows, None])
    total[0] /= 2
    return total


def _best_for_noise(span: int, epsilon: float, loss: LossLike) -> int:
    """Return the argmin over r of E[ℓ(t, 0)], noise t measured in cells, from running sums over enough flights of the stairs."""
    measure = get_loss(loss)
    if not measure.valid_outputs.contains(-1.0):
        measure = get_loss("squared")  # a loss of positive outputs is not defined for signed noise
    flights = min(math.ceil(40 / epsilon) + 1, max(2, 4_000_000 // span))
    distance = np.arange(flights * span, dtype=np.float64)
    cost = (measure(distance, 0.0) + measure(-distance, 0.0)).reshape(flights, span)
    mass = np.full((flights, span), 2.0)
    mass[0, 0] = 1.0  # zero counts once
    cost[0, 0] /= 2
    decay = np.exp(-epsilon * np.arange(flights))[:, None]
    low = math.exp(-epsilon)
    weighted, weight = (np.cumsum((decay * array).sum(axis=0)) for array in (cost, mass))
    loss_of = weighted + low * (weighted[-1] - weighted)
    return int(np.argmin(loss_of / (weight + low * (weight[-1] - weight)))) + 1


@mechanism(
    "exponential",
    title="exponential",
    help="near cells exponentially more often than far ones, on a grid",
    make=lambda r: Exponential(r.domain, r.epsilon),
    colour="#e97498",
)
class Exponential(FiniteMechanism):
    """The exponential mechanism on a grid: returns cell ŷ with weight e^(−ε|ŷ − y|/2Δ), Δ the width of the domain.

    Half of ε pays for the score and half for the normalising constant, which depends on the label.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds and the grid of at most 4,472 cells; 1,001 cells by default.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import Domain
    >>> from labeldp.mechanisms import Exponential
    >>> Exponential(Domain.integers(0, 3), epsilon=1).matrix([0]).round(2)
    array([[0.32, 0.27, 0.23, 0.19]])
    """

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon) -> None:
        budget, frame = exact_epsilon(epsilon), gridded(domain)
        if frame.count > EXPONENTIAL_CELLS:
            raise InvalidInput(
                f"the exponential mechanism has a table of cells by cells, so it takes at most {EXPONENTIAL_CELLS:,} cells, not {frame.count:,}: "
                "give fewer, or choose discrete-laplace"
            )
        cells = np.arange(frame.count)
        distance = np.abs(cells[:, None] - cells[None, :]) / (frame.count - 1)
        rows = np.exp(-float(budget) / 2 * distance)
        table = WeightTable.from_probabilities(rows / rows.sum(axis=1, keepdims=True), budget)
        super().__init__(**grid_parts(frame, budget, table))
