"""Integer noise with an exactly known distribution: Laplace noise, and noise for numbers that all change at once.

One number is drawn by OpenDP's exact sampler of integer Laplace noise. `cube_noise` is built from such numbers, uniform
integers and coins with rational probabilities, so no draw depends on a float. `docs/concepts/private-sums.md` has the
proof.
"""

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InvalidInput, LabelDPError, described

LARGEST_NOISE = 2**62
"""Cube noise is clamped to this size. Added to a sum below 2^61, it still fits int64, and the result can be clamped to 2^61."""

WIDEST = 2**55
"""The largest scale times numbers plus one. Noise then reaches `LARGEST_NOISE` with a probability below e^-120."""

MOST_PER_SCALE = 8
"""The most numbers per unit of scale. An attempt then succeeds with a probability of at least e^-4."""

_STOP = 2**63 - 1
"""OpenDP returns this for every larger number."""

Below = Callable[[int], int]
Side = tuple[Sequence[int], Fraction]
"""A pair of opposite sides of the noise's body: the integers a and the number l of |a·z| ≤ l·r."""


def laplace_noise(count: int, scale: float) -> NDArray[np.int64]:
    """Draw independent integers z with probability proportional to e^(−|z|/scale), by OpenDP's exact sampler.

    Parameters
    ----------
    count : int
        The number of draws.
    scale : float
        The scale, taken as the exact binary fraction that the float is.

    Returns
    -------
    array of int64
        A number beyond int64 becomes the nearer end of int64.

    Raises
    ------
    LabelDPError
        If OpenDP cannot be loaded. Nothing is drawn then.

    Examples
    --------
    >>> from labeldp.sampling.integer_noise import laplace_noise
    >>> laplace_noise(3, scale=1e-3).tolist()
    [0, 0, 0]
    """
    return add_laplace(np.zeros(count, np.int64), scale)


def add_laplace(values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Return the values plus `laplace_noise`, added by OpenDP.

    Parameters
    ----------
    values : array of int64
        Exact whole numbers.
    scale : float
        The scale of the noise.

    Returns
    -------
    array of int64
        A sum beyond int64 becomes the nearer end of int64, which is post-processing of the exact sum.

    Raises
    ------
    LabelDPError
        If OpenDP cannot be loaded. Nothing is drawn then.

    Privacy
    -------
    d/scale-DP, where d is the largest change of the values (in absolute values, added up) that one label can cause.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.sampling.integer_noise import add_laplace
    >>> add_laplace(np.array([500, 300, 200]), scale=1e-3).tolist()
    [500, 300, 200]
    """
    try:
        from opendp.domains import atom_domain, vector_domain  # opendp.prelude would import scikit-learn as well
        from opendp.measurements import make_laplace
        from opendp.metrics import l1_distance
        from opendp.mod import enable_features
    except ImportError:
        raise
    except Exception as error:  # opendp's error type if its library cannot be mapped, for example under a memory limit
        raise LabelDPError(
            "OpenDP's library, which draws the noise, cannot be loaded: there may be too little memory (ulimit -v), or the "
            "installation is damaged. Nothing was drawn"
        ) from error

    enable_features("contrib")
    noisy = make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)
    return np.asarray(noisy(values.tolist()), np.int64)


def cube_noise(count: int, scale: float, sides: Sequence[Side] = ()) -> NDArray[np.int64]:
    """Draw integers z₁ … z_p with joint probability exactly proportional to e^(−max|zᵢ|/scale).

    First a radius r is drawn, with a probability proportional to (2r + 1)^p·e^(−r/scale). Then each number is uniform on {−r … r}.
    So z has the weight e^(−r/scale) from every r ≥ max|zᵢ|, and these weights add up to a multiple of e^(−max|zᵢ|/scale). An
    attempt takes O(p) draws, and e^(p/(2·scale)) attempts are enough on average.

    With sides, a pair of r and z is kept only if |a·z| ≤ l·r for each of them, and is otherwise drawn again. The probability of z is then
    proportional to e^(−m/scale), where m is the smallest r that allows z. The number of attempts grows by the share of the cube that is cut off.

    Parameters
    ----------
    count : int
        The number of draws, p.
    scale : float
        The scale, taken as the exact binary fraction that the float is.
    sides : sequence of pairs of integers and a Fraction, optional
        The coefficients a of the first numbers, and l.

    Returns
    -------
    array of int64
        A number beyond 2^62 in size becomes ±2^62.

    Raises
    ------
    InvalidInput
        If the numbers might not fit into int64, or if the scale is below p/8, where attempts hardly ever succeed.

    Privacy
    -------
    Integer sums with this noise are d/scale-DP if one label changes each sum by at most d and each a·sums by at most l·d.

    Examples
    --------
    >>> from labeldp.sampling.integer_noise import cube_noise
    >>> cube_noise(5, scale=100.0).shape
    (5,)
    """
    check_cube(count, scale)
    numbers = geometric(scale, 2 * count + 8)
    drawn = None
    while drawn is None:
        drawn = attempt(count, numbers, secrets.randbelow, sides)
    return np.array([min(max(z, -LARGEST_NOISE), LARGEST_NOISE) for z in drawn], np.int64)


def check_cube(count: int, scale: float) -> None:
    """Raise `InvalidInput` if `cube_noise` cannot draw this noise, before anything is charged."""
    if type(count) is not int or count < 1:
        raise InvalidInput(f"cube noise needs a whole number of at least 1 as its count, got {described(count)}")
    if not (0 < scale < math.inf) or (count + 1) * scale > WIDEST:
        raise InvalidInput(f"cube noise of {count:,} numbers and scale {scale:g} may not fit into 64-bit integers")
    if count > MOST_PER_SCALE * scale:
        raise InvalidInput(
            f"cube noise of {count:,} numbers needs a scale of at least {count / MOST_PER_SCALE:g}, got {scale:g}: use finer units"
        )


def attempt(count: int, numbers: Iterator[int], below: Below, sides: Sequence[Side] = ()) -> list[int] | None:
    """Try once to draw cube noise. Return None if the attempt fails."""
    found = radius(count, numbers, below)
    if found is None:
        return None
    drawn = coordinates(count, found, below)
    return drawn if inside(drawn, found, sides) else None


def inside(z: Sequence[int], reach: int, sides: Sequence[Side]) -> bool:
    """Return whether all sides of the body allow z if its radius is `reach`."""
    return all(
        abs(sum(a * one for a, one in zip(side, z, strict=False) if a)) * limit.denominator <= limit.numerator * reach
        for side, limit in sides
    )


def radius(count: int, numbers: Iterator[int], below: Below) -> int | None:
    """Try once to draw the radius. Return None if the attempt fails.

    The sum r of p + 1 geometric numbers has a probability proportional to (r+1)…(r+p)·q^r. Keeping it with probability
    Π (2r + 1)/(2(r + i)) for i = 1 … p leaves (2r + 1)^p·q^r.
    """
    total = sum(next(numbers) for _ in range(count + 1))
    kept = all(below(2 * (total + i)) < 2 * total + 1 for i in range(1, count + 1))
    return total if kept else None


def coordinates(count: int, reach: int, below: Below) -> list[int]:
    """Draw independent integers, uniform on {−reach … reach}."""
    return [below(2 * reach + 1) - reach for _ in range(count)]


def geometric(scale: float, batch: int) -> Iterator[int]:
    """Draw numbers g ≥ 0 with probability (1 − q)·q^g, where q = e^(−1/scale): Laplace numbers without the negative ones.

    OpenDP stops at the end of int64. A geometric number is memoryless: its excess beyond that end has the distribution
    of the number itself. So another draw is added there, and the distribution is exact.
    """
    beyond = 0
    while True:
        for drawn in laplace_noise(batch, scale).tolist():
            if drawn == _STOP:
                beyond += _STOP
            elif drawn >= 0:
                yield beyond + drawn
                beyond = 0
