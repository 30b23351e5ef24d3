"""The discrete Laplace mechanism on a grid, exact in integers."""

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.cells import gridded
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.sampling import ShiftTable
from labeldp.sampling.noise import laplace_profile


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
        The public bounds and the grid of cells; 1,001 cells where none are given.
    epsilon : float, str, Decimal or Fraction
        What each label costs.
    window : int
        Cells of room on either side of the range. The default, 0, clips into the range as the paper does. Noise that
        falls outside goes to the window's ends, which costs no privacy.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import DiscreteLaplace, Domain
    >>> DiscreteLaplace(Domain.integers(0, 3), epsilon=1, window=2)
    DiscreteLaplace(epsilon=1, outputs=8 values from -2 to 5)
    """

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon, *, window: int = 0) -> None:
        budget, frame = exact_epsilon(epsilon), gridded(domain)
        cells = frame.count
        profile = laplace_profile(cells, float(budget), window=window)
        super().__init__(
            encoder=Grid(frame),
            table=ShiftTable.from_profile(profile, budget, cells=cells, window=window),
            outputs=window_values(frame, window),
            epsilon_exact=budget,
            domain=frame,
            parameters=(("window", window),),
        )


def window_values(domain: Domain, window: int) -> Floats:
    """The grid with `window` more cells on either side."""
    grid = domain.grid
    beyond = domain.step * np.arange(1, window + 1)
    return np.concatenate([domain.lower - beyond[::-1], grid, domain.upper + beyond])
