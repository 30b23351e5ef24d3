"""Warner's randomized response over the cells of a grid."""

from __future__ import annotations

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.sampling import ResponseTable


@mechanism(
    "randomized-response",
    title="randomized response",
    help="Warner's: keep the cell or take any other at random",
    make=lambda r: RandomizedResponse(r.domain, r.epsilon),
    colour="#b56576",
)
class RandomizedResponse(FiniteMechanism):
    """Keeps the label's cell with weight e^ε and takes any other cell with weight 1.

    Privacy: ε-DP for each label, exact in integers.
    """

    def __init__(self, domain: Domain, epsilon: Epsilon) -> None:
        budget = exact_epsilon(epsilon)
        grid = domain.grid
        super().__init__(
            encoder=Grid(domain),
            table=ResponseTable(grid.size, budget),
            outputs=grid,
            epsilon_exact=budget,
            domain=domain,
        )
