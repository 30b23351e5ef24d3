"""The exponential mechanism on a grid (McSherry and Talwar 2007)."""

import numpy as np

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.cells import gridded
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.sampling import WeightTable

MOST_CELLS = 4472
"""A larger table would have more entries than `WeightTable` takes."""


@mechanism(
    "exponential",
    title="exponential",
    help="near cells exponentially more often than far ones, on a grid",
    make=lambda r: Exponential(r.domain, r.epsilon),
    colour="#e97498",
)
class Exponential(FiniteMechanism):
    """The exponential mechanism on a grid: takes cell ŷ with weight e^(−ε|ŷ − y|/2Δ), Δ the width of the domain.

    Half of ε pays for the score and half for the normalising constant, which depends on the label.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds and the grid of at most 4,472 cells; 1,001 cells where none are given.
    epsilon : float, str, Decimal or Fraction
        What each label costs.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import Domain, Exponential
    >>> Exponential(Domain.integers(0, 3), epsilon=1).matrix([0]).round(2)
    array([[0.32, 0.27, 0.23, 0.19]])
    """

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon) -> None:
        budget, frame = exact_epsilon(epsilon), gridded(domain)
        grid = frame.grid
        if grid.size > MOST_CELLS:
            raise InvalidInput(
                f"the exponential mechanism has a table of cells by cells, so it takes at most {MOST_CELLS:,} cells, not {grid.size:,}: give fewer, or "
                "choose discrete-laplace"
            )
        cells = np.arange(grid.size)
        distance = np.abs(cells[:, None] - cells[None, :]) / (grid.size - 1)
        rows = np.exp(-float(budget) / 2 * distance)
        super().__init__(
            encoder=Grid(frame),
            table=WeightTable.from_probabilities(rows / rows.sum(axis=1, keepdims=True), budget),
            outputs=grid,
            epsilon_exact=budget,
            domain=frame,
        )
