"""Shapes are the distributions that they are called, clipped to the bounds and on the grid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from labeldp import Domain, InvalidInput
from labeldp.evaluate.shapes import SHAPES, shaped_prior

WIDE = {
    "normal:mean=80,sd=30": (-200, 400, 80, 30),
    "log-normal:mean=80,sd=90": (0, 20_000, 80, 90),
    "gamma:mean=80,sd=60": (0, 3_000, 80, 60),
    "exponential:mean=90": (0, 3_000, 90, 90),
    "poisson:mean=3": (0, 100, 3, 3**0.5),
    "uniform": (0, 12, 6, 12 / 12**0.5),
}


@pytest.mark.parametrize("text", WIDE)
def test_mean_and_spread_are_those_asked_for_where_no_bound_clips(text):
    lower, upper, mean, sd = WIDE[text]
    grid = Domain.integers(lower, upper) if "poisson" in text else Domain(lower, upper, 20_001)
    prior = shaped_prior(text, grid)
    assert prior.mean == pytest.approx(mean, rel=0.01)
    assert prior.variance**0.5 == pytest.approx(sd, rel=0.02)
    assert prior.epsilon_exact == 0


def test_every_shape_is_tried():
    assert {text.partition(":")[0] for text in WIDE} == set(SHAPES)


def test_counts_have_the_masses_of_the_poisson_distribution():
    prior = shaped_prior("poisson:mean=3", Domain.integers(0, 10))
    assert prior.masses[:10] == pytest.approx(stats.poisson(3).pmf(range(10)))
    assert prior.masses[10] == pytest.approx(stats.poisson(3).sf(9))  # 10 and more are moved to the bound


def test_what_lies_beyond_a_bound_is_moved_to_it():
    prior = shaped_prior("normal:mean=0,sd=10", Domain(0, 100, 101))
    assert prior.masses[0] == pytest.approx(stats.norm(0, 10).cdf(0.5))


@pytest.mark.parametrize(
    "text", ["log-normal:mean=5,sd=1", "gamma:mean=5,sd=1", "exponential:mean=5", "poisson:mean=5"]
)
def test_positive_shapes_have_no_mass_below_zero(text):
    prior = shaped_prior(text, Domain(-10, 20, 31))
    assert prior.masses[prior.values < 0].max(initial=0) == pytest.approx(0, abs=1e-12)


def test_bounds_without_a_grid_get_one():
    assert len(shaped_prior("exponential:mean=90", (0, 400))) == 1001


def test_a_very_fine_grid_is_made_coarser():
    assert len(shaped_prior("uniform", Domain(0, 1, 2**30))) <= 100_001


def test_spaces_and_capitals_do_not_matter():
    text = " Log-Normal: mean = 80 , sd = 90 "
    assert np.array_equal(shaped_prior(text, (0, 9)).masses, shaped_prior("log-normal:sd=90,mean=80", (0, 9)).masses)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("lognormal:mean=1,sd=1", "Did you mean 'log-normal:mean=…,sd=…'?"),
        ("gauss", "Known: uniform"),
        ("", "unknown shape ''"),
        ("normal", "is written normal:mean=…,sd=…"),
        ("normal:mean=1", "is written normal:mean=…,sd=…"),
        ("normal:mean=1,sd=2,sd=3", "is written"),
        ("normal:mean=1,scale=3", "is written"),
        ("uniform:mean=1", "is written uniform"),
        ("normal:mean=1,sd=0", "sd of the shape normal must be greater than 0"),
        ("normal:mean=x,sd=1", "mean of the shape normal must be a finite number"),
        ("normal:mean=nan,sd=1", "must be a finite number"),
        ("gamma:mean=0,sd=1", "mean of the shape gamma must be greater than 0"),
        ("log-normal:mean=0,sd=1", "mean of the shape log-normal must be greater than 0"),
        ("poisson:mean=-1", "must be greater than 0"),
        (3, "a shape is given as text"),
    ],
)
def test_what_is_no_shape_is_refused_with_a_hint(text, part):
    with pytest.raises(InvalidInput, match=part.replace("?", r"\?")):
        shaped_prior(text, (0, 400))
