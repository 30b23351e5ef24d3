"""The discrete Laplace mechanism on a grid, exact in integers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact
from labeldp.domain import Domain
from labeldp.mechanisms.encoders import Grid
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.sampling import ShiftTable
from labeldp.sampling.noise import laplace_profile


class DiscreteLaplace(FiniteMechanism):
    """Adds whole cells of noise, t with mass e^(−ε|t|/(cells − 1)), and stays in a window around the range.

    `window` cells of room on either side; 0, the default, clips into the range as the paper does. What falls outside
    goes to the window's ends, which costs no privacy.
    Privacy: ε-DP for each label, exact in integers.
    """

    kind: ClassVar[str] = "discrete-laplace"

    def __init__(self, domain: Domain, epsilon: Epsilon, *, window: int = 0) -> None:
        budget = exact(epsilon)
        cells = len(domain.grid)
        profile = laplace_profile(cells, float(budget), window=window)
        super().__init__(
            encoder=Grid(domain),
            table=ShiftTable.from_profile(profile, budget, cells=cells, window=window),
            outputs=window_values(domain, window),
            epsilon=budget,
            domain=domain,
            details={"window": window},
        )


def window_values(domain: Domain, window: int) -> Floats:
    """The grid with `window` more cells on either side."""
    grid = domain.grid
    beyond = domain.step * np.arange(1, window + 1)
    return np.concatenate([domain.lower - beyond[::-1], grid, domain.upper + beyond])
