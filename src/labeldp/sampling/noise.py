"""Profiles of integer noise for `ShiftTable.from_profile`: the relative masses of noise 0, ±1, ±2, …, and of the tail.

The cells are consecutive integers, so the sensitivity is `cells - 1`. Profiles are floats. Privacy does not depend on them, but
on the directed rounding and the exact check of the table that is made from them.
"""

import math

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InvalidInput


def laplace_profile(cells: int, epsilon: float, *, window: int = 0) -> NDArray[np.float64]:
    """Discrete Laplace noise: the mass of t is proportional to e^(−ε|t|/(cells−1))."""
    rate = epsilon / (cells - 1)
    masses: NDArray[np.float64] = np.exp(-rate * np.arange(cells + window))
    masses[-1] /= -math.expm1(-rate)
    return masses


def staircase_profile(cells: int, epsilon: float, steps: int, *, window: int = 0) -> NDArray[np.float64]:
    """Discrete staircase noise: the mass falls by e^−ε after the first `steps` of every `cells − 1` integers."""
    span = cells - 1
    if not 1 <= steps <= span:
        raise InvalidInput(f"the staircase's parameter must lie in 1 … {span} for {cells} cells, got {steps}")
    flight, place = np.divmod(np.arange(cells + window), span)
    masses: NDArray[np.float64] = np.exp(-epsilon * (flight + (place >= steps)))
    # the rest of the flight in which the tail begins, then all whole flights after it
    low = math.exp(-epsilon)
    rest = max(0, steps - int(place[-1])) + low * (span - max(steps, int(place[-1])))
    whole = (steps + low * (span - steps)) * low / -math.expm1(-epsilon)
    masses[-1] = math.exp(-epsilon * int(flight[-1])) * (rest + whole)
    return masses
