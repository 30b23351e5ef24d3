"""Laws that hold for all inputs: how the optimum changes when its input does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optimum_oracles import LOSSES

from labeldp.design.bins import optimal_bins
from labeldp.losses import get_loss
from labeldp.priors import Prior


@st.composite
def priors(draw, min_size=1, max_size=40):
    steps = draw(st.lists(st.floats(0.01, 50), min_size=min_size, max_size=max_size))
    masses = draw(st.lists(st.floats(0.001, 1), min_size=len(steps), max_size=len(steps)))
    return Prior(np.cumsum(steps), masses)


epsilons = st.floats(0.01, 12)


def loss_of(values, masses, epsilon, loss):
    return optimal_bins(Prior(values, masses), epsilon, loss).expected_loss


@pytest.mark.parametrize(
    ("loss", "mirrored"), [("squared",) * 2, ("absolute",) * 2, ("huber(2)",) * 2, ("pinball(0.2)", "pinball(0.8)")]
)
@given(prior=priors(), epsilon=epsilons)
def test_mirroring_the_labels_does_not_change_the_optimum(loss, mirrored, prior, epsilon):
    there = loss_of(prior.values, prior.masses, epsilon, loss)
    back = loss_of(-prior.values[::-1], prior.masses[::-1], epsilon, mirrored)
    assert back == pytest.approx(there, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball(0.3)", "huber(1.5)"])
@given(prior=priors(), epsilon=epsilons, shift=st.floats(-1e4, 1e4))
def test_shifting_the_labels_does_not_change_the_optimum(loss, prior, epsilon, shift):
    there = loss_of(prior.values, prior.masses, epsilon, loss)
    assert loss_of(prior.values + shift, prior.masses, epsilon, loss) == pytest.approx(there, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize(
    ("loss", "degree"), [("squared", 2), ("absolute", 1), ("pinball(0.3)", 1), ("poisson", 1), ("gamma", 0)]
)
@given(prior=priors(), epsilon=epsilons, factor=st.sampled_from([2.0**-40, 0.125, 3.0, 2.0**40]))
def test_scaling_the_labels_scales_the_optimum_by_the_degree_of_the_loss(loss, degree, prior, epsilon, factor):
    there = loss_of(prior.values, prior.masses, epsilon, loss)
    scaled = loss_of(prior.values * factor, prior.masses, epsilon, loss)
    assert scaled / factor**degree == pytest.approx(there, rel=1e-10, abs=1e-12)


def loss_of_a_label(bins, label, epsilon, loss):
    """The expected loss of a label under randomized response on the outputs of `bins`, by its definition."""
    losses = get_loss(loss)(bins.outputs, label)
    return (losses.sum() + np.expm1(epsilon) * losses.min()) / (np.exp(epsilon) + losses.size - 1)


@pytest.mark.parametrize("loss", LOSSES)
@given(prior=priors(min_size=2), epsilon=epsilons, data=st.data())
def test_after_moving_a_labels_mass_to_its_neighbour_the_old_bins_are_no_better_than_the_new(
    loss, prior, epsilon, data
):
    """Both optima are optimal: neither set of bins, used for the other prior, beats the bins made for that prior."""
    where = data.draw(st.integers(0, prior.values.size - 2))
    moved, masses = prior.masses[where], prior.masses.copy()
    masses[where : where + 2] = 0.0, masses[where] + masses[where + 1]
    before = optimal_bins(prior, epsilon, loss)
    after = optimal_bins(Prior(prior.values, masses), epsilon, loss)
    changes = [
        moved * np.subtract(*(loss_of_a_label(bins, prior.values[where + side], epsilon, loss) for side in (1, 0)))
        for bins in (before, after)
    ]
    assert after.expected_loss <= (before.expected_loss + changes[0]) * (1 + 1e-9) + 1e-12
    assert before.expected_loss <= (after.expected_loss - changes[1]) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("loss", LOSSES)
@given(prior=priors(), epsilon=st.floats(0.01, 10), more=st.floats(0.01, 10))
def test_more_budget_never_costs_more(loss, prior, epsilon, more):
    little, much = optimal_bins(prior, epsilon, loss), optimal_bins(prior, epsilon + more, loss)
    assert much.expected_loss <= little.expected_loss * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@given(prior=priors(), epsilon=epsilons, data=st.data())
def test_labels_of_mass_zero_have_no_say(loss, prior, epsilon, data):
    extra = data.draw(st.lists(st.floats(0.001, 3000), min_size=1, max_size=5, unique=True))
    values = np.union1d(prior.values, extra)
    masses = np.zeros(values.size)
    masses[np.searchsorted(values, prior.values)] = prior.masses
    assert optimal_bins(Prior(values, masses), epsilon, loss) == optimal_bins(prior, epsilon, loss)


@pytest.mark.parametrize("loss", LOSSES)
@given(prior=priors(), epsilon=epsilons)
def test_every_label_goes_to_an_output_where_it_loses_least(loss, prior, epsilon):
    bins, rule = optimal_bins(prior, epsilon, loss), get_loss(loss)
    own = rule(bins.outputs[bins.encode(prior.values)], prior.values)
    least = rule(bins.outputs[:, None], prior.values[None, :]).min(axis=0)
    np.testing.assert_allclose(own, least, rtol=1e-9, atol=1e-12)
