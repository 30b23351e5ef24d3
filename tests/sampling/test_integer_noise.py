"""Integer noise has the law that it promises: by enumeration of what the code does, and by counting what it draws."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from secrets import randbelow

import numpy as np
import pytest
from scipy import stats

from labeldp.errors import InvalidInput
from labeldp.sampling import integer_noise
from labeldp.sampling.integer_noise import (
    LARGEST_NOISE,
    add_laplace,
    attempt,
    cube_noise,
    geometric,
    inside,
    laplace_noise,
    radius,
)

ALMOST_NEVER = 1e-9


class Path:
    """One way through a random program: it repeats given choices, takes the first option afterwards, and counts options."""

    def __init__(self, given, q, top):
        self.given, self.q, self.top = given, q, top
        self.options, self.chance, self.total = [], Fraction(1), 0

    def _choose(self, options):
        place = len(self.options)
        self.options.append(options)
        return self.given[place] if place < len(self.given) else 0

    def below(self, limit):
        self.chance /= limit
        return self._choose(limit)

    def numbers(self):
        """Geometric numbers in exact fractions, up to a total of `top`."""
        while True:
            number = self._choose(self.top - self.total + 1)
            self.total += number
            self.chance *= (1 - self.q) * self.q**number
            yield number


def enumerated(run, q, top):
    """The exact probability of every outcome of `run(path)`, over all choices."""
    law, given = defaultdict(Fraction), []
    while given is not None:
        path = Path(given, q, top)
        law[run(path)] += path.chance
        taken = given + [0] * (len(path.options) - len(given))
        while taken and taken[-1] == path.options[len(taken) - 1] - 1:
            taken.pop()
        given = [*taken[:-1], taken[-1] + 1] if taken else None
    return law


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(7, 9)])
@pytest.mark.parametrize(("count", "top"), [(1, 6), (2, 4), (3, 3)])
def test_one_attempt_gives_each_radius_the_number_of_points_times_q_to_it(count, top, q):
    law = enumerated(lambda path: radius(count, path.numbers(), path.below), q, top)
    constant = (1 - q) ** (count + 1) / (2**count * math.factorial(count))
    assert {r: law[r] for r in range(top + 1)} == {r: constant * (2 * r + 1) ** count * q**r for r in range(top + 1)}
    assert set(law) == {None, *range(top + 1)}


CUT = (((1, 1), Fraction(4, 3)), ((2, -1), Fraction(5, 4)))
"""Sides that cut the square."""


def size_of(z, sides=()):
    """The smallest body that contains z."""
    ends = [Fraction(abs(sum(a * one for a, one in zip(side, z, strict=False)))) / limit for side, limit in sides]
    return math.ceil(max([*map(abs, z), *ends]))


@pytest.mark.parametrize(("count", "top", "sides"), [(1, 4, ()), (2, 3, ()), (3, 1, ()), (2, 3, CUT)])
def test_every_point_has_a_probability_proportional_to_q_to_its_size(count, top, sides):
    """Radii above `top` are left out of the enumeration, so each point lacks the same sum over them."""
    q = Fraction(2, 3)

    def draw(path):
        found = attempt(count, path.numbers(), path.below, sides)
        return None if found is None else tuple(found)

    law = enumerated(draw, q, top)
    constant = (1 - q) ** count / (2**count * math.factorial(count))
    points = [z for z in itertools.product(range(-top, top + 1), repeat=count) if size_of(z, sides) <= top]
    assert {z: law[z] for z in points} == {z: constant * (q ** size_of(z, sides) - q ** (top + 1)) for z in points}
    assert len(law) == len(points) + 1


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_an_attempt_succeeds_as_often_as_the_docstring_says(count):
    """The chance is Σ (2r + 1)^p·q^r·(1 − q)^(p+1) / (2^p·p!), of which any part of the sum is a lower bound."""
    for q in (Fraction(1, 2), Fraction(9, 10)):
        constant = (1 - q) ** (count + 1) / (2**count * math.factorial(count))
        chance = constant * sum((2 * r + 1) ** count * q**r for r in range(60 * (count + 1)))
        assert chance**2 > q**count * Fraction(999_999, 1_000_000)


def test_a_geometric_number_continues_where_opendp_stops(monkeypatch):
    """Beyond the end of int64 the rest of a geometric number is a fresh one."""
    stop = 2**63 - 1
    drawn = [-3, 5, stop, -(2**63), stop, -1, 7, 0, stop - 1]
    monkeypatch.setattr(integer_noise, "laplace_noise", lambda count, scale: np.array(drawn, np.int64))
    assert list(itertools.islice(geometric(1.0, 9), 4)) == [5, 2 * stop + 7, 0, stop - 1]


@pytest.mark.os_randomness
def test_opendp_stops_at_the_ends_of_int64():
    ends = {-(2**63), 2**63 - 1}
    assert set(laplace_noise(50, 1e60).tolist()) <= ends
    assert set(add_laplace(np.full(50, 2**60), 1e60).tolist()) <= ends


def test_noise_beyond_the_limit_is_cut_off(monkeypatch):
    monkeypatch.setattr(integer_noise, "radius", lambda count, numbers, below: 2**90)
    assert set(cube_noise(20, 100.0).tolist()) <= {-LARGEST_NOISE, LARGEST_NOISE}


def counts_fit(counts, probabilities, draws):
    """A χ² test of counts against probabilities; what is rarer than 10 draws is one class."""
    common = [point for point, chance in probabilities.items() if chance * draws >= 10]
    expected = np.array([probabilities[point] * draws for point in common])
    observed = np.array([counts[point] for point in common])
    expected, observed = np.append(expected, draws - expected.sum()), np.append(observed, draws - observed.sum())
    assert expected.size > 20
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1) > ALMOST_NEVER


def cube_law(count, scale, reach=60, sides=()):
    q = math.exp(-1 / scale)
    points = itertools.product(range(-reach, reach + 1), repeat=count)
    law = {z: q ** size_of(z, sides) for z in points}
    total = (
        sum(law.values()) if sides else sum((2 * r + 1) ** count * q**r for r in range(40 * reach)) * (1 - q)
    )  # what lies beyond `reach` matters for large scales only
    return {z: chance / total for z, chance in law.items()}


def cube_draws(draws, count, scale, sides=()):
    """What `cube_noise` draws, with one stream of numbers for all draws."""
    numbers = geometric(scale, 4096)
    for _ in range(draws):
        found = None
        while found is None:
            found = attempt(count, numbers, randbelow, sides)
        yield tuple(found)


@pytest.mark.parametrize("sides", [(), CUT])
@pytest.mark.parametrize(
    ("draws", "count", "scale"),
    [
        (20_000, 2, 2.5),
        pytest.param(1_000_000, 2, 2.5, marks=pytest.mark.slow),
        pytest.param(300_000, 3, 1.5, marks=pytest.mark.slow),
    ],
)
def test_draws_follow_the_law(draws, count, scale, sides):
    reach = 60 if count == 2 else 16
    counts = Counter(cube_draws(draws, count, scale, sides))
    assert counts_fit(counts, cube_law(count, scale, reach, sides), draws)
    if draws > 100_000:  # enough to tell a scale that is off by 5 %
        assert not counts_fit(counts, cube_law(count, 1.05 * scale, reach, sides), draws)


def test_a_change_within_the_body_costs_its_size():
    """All points and changes of a small grid: the exponents of two neighbours' probabilities differ by at most the size of the change."""
    points = list(itertools.product(range(-7, 8), repeat=2))
    for change in itertools.product(range(-4, 5), repeat=2):
        moved = size_of(change, CUT)
        assert inside(change, moved, CUT)
        assert not moved or max(map(abs, change)) > moved - 1 or not inside(change, moved - 1, CUT)
        for z in points:
            other = tuple(one + by for one, by in zip(z, change, strict=True))
            assert abs(size_of(z, CUT) - size_of(other, CUT)) <= moved


@pytest.mark.os_randomness
def test_laplace_draws_follow_the_law():
    scale, draws = 7.25, 50_000
    q = math.exp(-1 / scale)
    law = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-400, 401)}
    assert counts_fit(Counter(laplace_noise(draws, scale).tolist()), law, draws)


def test_many_numbers_have_the_size_that_the_law_says():
    """A mean square over 60 draws of 100 numbers deviates by 3 % (one standard deviation), mostly from the radius."""
    drawn = np.array([cube_noise(100, 1e6) for _ in range(60)], np.float64)
    assert (drawn**2).mean() == pytest.approx(101 * 102 / 3 * 1e12, rel=0.25)


@pytest.mark.parametrize(
    ("count", "scale", "words"),
    [
        (0, 1.0, "at least 1"),
        (-1, 1.0, "at least 1"),
        (2.0, 1.0, "at least 1"),
        (True, 1.0, "at least 1"),
        (3, 0.0, "may not fit"),
        (3, -1.0, "may not fit"),
        (3, math.inf, "may not fit"),
        (3, math.nan, "may not fit"),
        (3, 2.0**54, "may not fit"),
        (100, 12.0, "at least 12.5, got 12: use finer units"),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused(count, scale, words):
    with pytest.raises(InvalidInput, match=words):
        cube_noise(count, scale)


@pytest.mark.os_randomness
def test_noise_is_never_the_same_twice():
    assert len({tuple(cube_noise(3, 1e9)) for _ in range(20)}) == 20
    assert laplace_noise(0, 1.0).size == 0
