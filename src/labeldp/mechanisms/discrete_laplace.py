"""The discrete Laplace mechanism on a grid, exact in integers."""

from __future__ import annotations

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.sampling import ShiftTable
from labeldp.sampling.noise import laplace_profile


@mechanism(
    "discrete-laplace",
    title="discrete Laplace",
    help="whole cells of Laplace noise, clipped into the bounds",
    make=lambda r: DiscreteLaplace(r.domain, r.epsilon),
    colour="#2f6f8f",
)
class DiscreteLaplace(FiniteMechanism):
    """Adds whole cells of noise, t with mass e^(−ε|t|/(cells − 1)), and stays in a window around the range.

    `window` cells of room on either side; 0, the default, clips into the range as the paper does. What falls outside
    goes to the window's ends, which costs no privacy.
    Privacy: ε-DP for each label, exact in integers.
    """

    def __init__(self, domain: Domain, epsilon: Epsilon, *, window: int = 0) -> None:
        budget = exact_epsilon(epsilon)
        cells = len(domain.grid)
        profile = laplace_profile(cells, float(budget), window=window)
        super().__init__(
            encoder=Grid(domain),
            table=ShiftTable.from_profile(profile, budget, cells=cells, window=window),
            outputs=window_values(domain, window),
            epsilon_exact=budget,
            domain=domain,
            parameters=(("window", window),),
        )


def window_values(domain: Domain, window: int) -> Floats:
    """The grid with `window` more cells on either side."""
    grid = domain.grid
    beyond = domain.step * np.arange(1, window + 1)
    return np.concatenate([domain.lower - beyond[::-1], grid, domain.upper + beyond])
