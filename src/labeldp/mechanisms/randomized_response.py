"""Warner's randomized response over the cells of a grid."""

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.cells import gridded
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.sampling import ResponseTable


@mechanism(
    "randomized-response",
    title="randomized response",
    help="Warner's: keep the cell or take any other at random",
    make=lambda r: RandomizedResponse(r.domain, r.epsilon),
    training_values="debiased",
    colour="#994506",
)
class RandomizedResponse(FiniteMechanism):
    """Warner's randomized response: keeps the label's cell with weight e^ε, takes any other cell with weight 1.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds and the grid of cells; 1,001 cells where none are given.
    epsilon : float, str, Decimal or Fraction
        What each label costs.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import Domain, RandomizedResponse
    >>> RandomizedResponse(Domain.integers(0, 3), epsilon=1)
    RandomizedResponse(epsilon=1, outputs=[0, 1, 2, 3])
    """

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon) -> None:
        budget, frame = exact_epsilon(epsilon), gridded(domain)
        grid = frame.grid
        super().__init__(
            encoder=Grid(frame),
            table=ResponseTable(grid.size, budget),
            outputs=grid,
            epsilon_exact=budget,
            domain=frame,
        )
