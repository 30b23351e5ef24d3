"""The exponential mechanism on a grid (McSherry and Talwar 2007)."""

from __future__ import annotations

import numpy as np

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.sampling import WeightTable


@mechanism(
    "exponential",
    title="exponential",
    help="near cells exponentially more often than far ones, on a grid",
    make=lambda r: Exponential(r.domain, r.epsilon),
    colour="#8d5a97",
)
class Exponential(FiniteMechanism):
    """Takes cell ŷ with weight e^(−ε|ŷ − y|/2Δ), Δ the width of the domain.

    Half of ε pays for the score and half for the normalising constant, which depends on the label.
    Privacy: ε-DP for each label, exact in integers. Needs cells² ≤ 2·10⁷.
    """

    def __init__(self, domain: Domain, epsilon: Epsilon) -> None:
        budget = exact_epsilon(epsilon)
        grid = domain.grid
        cells = np.arange(grid.size)
        distance = np.abs(cells[:, None] - cells[None, :]) / (grid.size - 1)
        rows = np.exp(-float(budget) / 2 * distance)
        super().__init__(
            encoder=Grid(domain),
            table=WeightTable.from_probabilities(rows / rows.sum(axis=1, keepdims=True), budget),
            outputs=grid,
            epsilon_exact=budget,
            domain=domain,
        )
