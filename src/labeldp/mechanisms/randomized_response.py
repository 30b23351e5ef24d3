"""Warner's randomized response over the cells of a grid."""

from __future__ import annotations

from typing import ClassVar

from labeldp.budget import Epsilon, exact
from labeldp.domain import Domain
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.sampling import ResponseTable


class RandomizedResponse(FiniteMechanism):
    """Keeps the label's cell with weight e^ε and takes any other cell with weight 1.

    Privacy: ε-DP for each label, exact in integers.
    """

    kind: ClassVar[str] = "randomized-response"

    def __init__(self, domain: Domain, epsilon: Epsilon) -> None:
        budget = exact(epsilon)
        grid = domain.grid
        super().__init__(
            encoder=Grid(domain), table=ResponseTable(grid.size, budget), outputs=grid, epsilon=budget, domain=domain
        )
