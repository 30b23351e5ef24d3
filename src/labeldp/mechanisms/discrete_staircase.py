"""The discrete staircase mechanism (Geng and Viswanath 2014) on a grid, exact in integers."""

from __future__ import annotations

import math

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.losses import LossLike, get_loss
from labeldp.mechanisms.catalogue import Request, mechanism
from labeldp.mechanisms.cells import gridded
from labeldp.mechanisms.discrete_laplace import window_values
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior
from labeldp.sampling import ShiftTable
from labeldp.sampling.noise import staircase_profile

_MOST_ENTRIES = 1 << 22
_MOST_PAIRS = 1 << 28
"""The most pairs of a label and a noise for which `DiscreteStaircase.optimal` computes a loss, some seconds of work."""


@mechanism(
    "discrete-staircase",
    title="discrete staircase",
    help="whole cells of staircase noise, its step best for the prior where there is one",
    make=lambda r: _made(r),  # noqa: PLW0108 - it is defined below
    colour="#4d56cb",
)
class DiscreteStaircase(FiniteMechanism):
    """The discrete staircase mechanism: noise with mass at one height for `r` cells, e^−ε of it for the rest of Δ, and on.

    `DiscreteStaircase.optimal` finds the `r` of least expected loss under a prior.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds and the grid of cells; 1,001 cells where none are given.
    epsilon : float, str, Decimal or Fraction
        What each label costs.
    r : int, optional
        The length of the first step in cells. By default the one that minimises the expected loss of the noise.
    loss : str, Loss or callable
        The loss for the default `r`; a loss of the distance, such as squared or absolute.
    window : int
        Cells of room on either side of the range. The default, 0, clips into the range as the paper does. Noise that
        falls outside goes to the window's ends, which costs no privacy.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import DiscreteStaircase, Domain
    >>> DiscreteStaircase(Domain.integers(0, 52), epsilon=2).parameter("r")
    18
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
        cells = frame.count
        steps = _best_for_noise(cells - 1, float(budget), loss) if r is None else int(r)
        profile = staircase_profile(cells, float(budget), steps, window=window)
        super().__init__(
            encoder=Grid(frame),
            table=ShiftTable.from_profile(profile, budget, cells=cells, window=window),
            outputs=window_values(frame, window),
            epsilon_exact=budget,
            domain=frame,
            parameters=(("r", steps), ("window", window)),
        )

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
            What each label costs.
        loss : str, Loss or callable
            What is minimised.
        domain : Domain or (lower, upper)
            The public bounds and the grid of cells; 1,001 cells where none are given.
        window : int
            Cells of room on either side of the range.

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
    """E[ℓ(ŷ + t, y)] + E[ℓ(ŷ − t, y)] under a prior for noise of t = 0, 1, … cells, ŷ the cell of y; for 0, which has no sign, once.

    The last is that of all noise that leaves the window from every cell. If there are more than `_MOST_PAIRS` pairs of a label
    and a noise, quantiles of the prior stand for it: a million cells would take hours.
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
    """The argmin over r of E[ℓ(t, 0)], noise t measured in cells, from running sums over enough flights of the stairs."""
    measure = get_loss(loss)
    if not measure.valid_outputs.contains(-1.0):
        measure = get_loss("squared")  # a loss of positive outputs says nothing of signed noise
    flights = min(math.ceil(40 / epsilon) + 1, max(2, 4_000_000 // span))
    distance = np.arange(flights * span, dtype=np.float64)
    cost = (measure(distance, 0.0) + measure(-distance, 0.0)).reshape(flights, span)
    mass = np.full((flights, span), 2.0)
    mass[0, 0] = 1.0  # zero has no sign
    cost[0, 0] /= 2
    decay = np.exp(-epsilon * np.arange(flights))[:, None]
    low = math.exp(-epsilon)
    weighted, weight = (np.cumsum((decay * array).sum(axis=0)) for array in (cost, mass))
    loss_of = weighted + low * (weighted[-1] - weighted)
    return int(np.argmin(loss_of / (weight + low * (weight[-1] - weight)))) + 1
