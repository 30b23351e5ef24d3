"""RPWithPrior: the window and the interval of its paper, against brute force, closed forms and the optimum of all mechanisms."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.errors import InvalidInput
from labeldp.losses import get_loss
from labeldp.mechanisms import MECHANISMS, Request, RPWithPrior, RROnBins, code_values
from labeldp.mechanisms.decoding import symbol_means
from labeldp.mechanisms.rp_with_prior import DESIGN_CELLS
from labeldp.paper.data import criteo_prior
from labeldp.sampling import WindowTable

epsilons = st.floats(0.05, 9)
seeds = st.integers(0, 2**32 - 1)


def random_prior(cells, seed):
    return Prior(np.arange(float(cells)), np.random.default_rng(seed).random(cells) ** 3 + 1e-3)


def expected(prior, epsilon, first, last, reach, loss):
    """The expected loss of one window, label by label and output by output."""
    total, outputs = 0.0, np.arange(first - reach, last + reach + 1.0)
    for label, mass in zip(prior.values, prior.masses, strict=True):
        centre = min(max(label, first), last)
        weights = np.where(np.abs(outputs - centre) <= reach, math.exp(epsilon), 1.0)
        total += mass * (weights @ get_loss(loss)(outputs, label)) / weights.sum()
    return total


def windows(cells):
    """All windows on cells 0 … cells − 1 that are no longer than their interval."""
    for reach in range((cells + 1) // 2):
        for first in range(cells):
            for last in range(first + 2 * reach, cells):
                yield first, last, reach


def chance(prior, epsilon, first, last, reach):
    """The paper's F, up to a factor: how often the interval holds the label and the output lies in the label's window."""
    held = prior.masses[first : last + 1].sum()
    return held * (2 * reach + 1) / (2 * reach + 1 + math.exp(-epsilon) * (last - first))


def made_of(mechanism):
    """Interval and reach on a grid of whole numbers."""
    first, last, half_width = (mechanism.parameter(name) for name in ("lower", "upper", "half_width"))
    return int(first), int(last), int(half_width - 0.5)


@given(
    cells=st.integers(2, 9), epsilon=epsilons, seed=seeds, loss=st.sampled_from(["squared", "absolute", "huber(2.0)"])
)
def test_optimal_is_the_best_of_all_windows(cells, epsilon, seed, loss):
    prior = random_prior(cells, seed)
    best = min(expected(prior, epsilon, *window, loss) for window in windows(cells))
    mechanism = RPWithPrior.optimal(prior, epsilon, loss)
    assert mechanism.expected_loss(prior, loss) == pytest.approx(best, rel=1e-9)
    assert expected(prior, epsilon, *made_of(mechanism), loss) == pytest.approx(best, rel=1e-9)


@given(cells=st.integers(2, 9), epsilon=epsilons, seed=seeds)
def test_the_interval_maximises_the_chance_of_an_output_near_the_label(cells, epsilon, seed):
    prior = random_prior(cells, seed)
    for reach in range((cells + 1) // 2):
        chances = [chance(prior, epsilon, *window) for window in windows(cells) if window[2] == reach]
        found = made_of(RPWithPrior(prior, epsilon, half_width=reach + 0.5))
        assert found[2] == reach
        assert chance(prior, epsilon, *found) == pytest.approx(max(chances), rel=1e-12)


@given(cells=st.integers(2, 9), epsilon=epsilons, seed=seeds, loss=st.sampled_from(["squared", "absolute"]))
def test_the_default_half_width_loses_least_among_those_intervals(cells, epsilon, seed, loss):
    prior = random_prior(cells, seed)
    likeliest = [
        max((w for w in windows(cells) if w[2] == reach), key=lambda w: chance(prior, epsilon, *w))
        for reach in range((cells + 1) // 2)
    ]
    best = min(expected(prior, epsilon, *window, loss) for window in likeliest)
    assert RPWithPrior(prior, epsilon, loss).expected_loss(prior, loss) == pytest.approx(best, rel=1e-9)


@given(cells=st.integers(3, 9), epsilon=epsilons, seed=seeds)
def test_a_given_interval_gets_the_half_width_of_least_loss(cells, epsilon, seed):
    prior = random_prior(cells, seed)
    mechanism = RPWithPrior(prior, epsilon, interval=(1, cells - 1))
    best = min(expected(prior, epsilon, 1, cells - 1, reach, "squared") for reach in range((cells - 2) // 2 + 1))
    assert mechanism.expected_loss(prior) == pytest.approx(best, rel=1e-9)


@given(
    cells=st.integers(2, 40),
    epsilon=epsilons,
    seed=seeds,
    loss=st.sampled_from(["squared", "absolute", "pinball(0.9)", "huber(3.0)"]),
)
def test_no_window_beats_randomized_response_on_the_best_bins(cells, epsilon, seed, loss):
    prior = random_prior(cells, seed)
    bins = RROnBins.optimal(prior, epsilon, loss).expected_loss(prior, loss)
    optimal = RPWithPrior.optimal(prior, epsilon, loss).expected_loss(prior, loss)
    published = RPWithPrior(prior, epsilon, loss).expected_loss(prior, loss)
    assert bins * (1 - 1e-9) <= optimal <= published * (1 + 1e-9)


def test_the_window_has_the_stated_probabilities():
    prior = random_prior(11, 0)
    row = RPWithPrior(prior, 2, half_width=1.5, interval=(3, 8)).matrix([5])[0]
    total = 3 * math.exp(2) + 5
    assert row == pytest.approx([1 / total] * 2 + [math.exp(2) / total] * 3 + [1 / total] * 3, rel=1e-12)


def test_labels_outside_of_the_interval_count_as_its_ends():
    mechanism = RPWithPrior(random_prior(11, 0), 2, half_width=0.5, interval=(3, 8))
    matrix = mechanism.matrix([0, 3, 8, 10])
    assert (matrix[0] == matrix[1]).all()
    assert (matrix[2] == matrix[3]).all()
    assert mechanism.outputs.tolist() == [3, 4, 5, 6, 7, 8]


def uniform_loss(epsilon, delta):
    """The mean squared error for labels that are uniform on [0, 1], all of it the interval. By integration."""
    ratio = math.exp(epsilon)
    everywhere = ((1 + delta) ** 4 - delta**4) / 6
    return (everywhere + (ratio - 1) * 2 * delta**3 / 3) / (1 + 2 * delta * ratio)


@pytest.mark.parametrize("epsilon", [1, 3, 6])
def test_finer_grids_approach_the_continuous_mechanism_on_uniform_labels(epsilon):
    scan = np.linspace(1e-4, 0.5, 20_000)
    costs = [uniform_loss(epsilon, delta) for delta in scan]
    best = scan[int(np.argmin(costs))]
    gaps = []
    for cells in (51, 201, 801):
        prior = Prior(np.linspace(0, 1, cells), np.ones(cells))
        mechanism = RPWithPrior(prior, epsilon)
        assert (mechanism.parameter("lower"), mechanism.parameter("upper")) == (0, 1)
        gaps.append(abs(mechanism.expected_loss(prior) / min(costs) - 1))
    assert gaps[2] < gaps[1] < gaps[0]
    assert gaps[2] < 0.01
    assert mechanism.parameter("half_width") == pytest.approx(best, abs=0.004)


@pytest.mark.parametrize("half_width", [0.02, 0.1, 0.3])
def test_a_given_half_width_approaches_the_continuous_loss(half_width):
    prior = Prior(np.linspace(0, 1, 1001), np.ones(1001))
    mechanism = RPWithPrior(prior, 2, half_width=half_width, interval=(0, 1))
    width = mechanism.parameter("half_width")
    assert width == pytest.approx(half_width, abs=0.0006)
    assert mechanism.expected_loss(prior) == pytest.approx(uniform_loss(2, width), rel=0.004)


def test_grids_beyond_the_design_are_as_good():
    losses = []
    for cells in (DESIGN_CELLS, 3_001):
        values = np.linspace(0, 1, cells)
        prior = Prior(values, values * np.exp(-6 * values))
        for make in (RPWithPrior, RPWithPrior.optimal):
            mechanism = make(prior, 2, domain=Domain(0, 1, cells))
            assert mechanism.outputs.size > cells / 4
            losses.append(mechanism.expected_loss(prior))
    assert losses[2:] == pytest.approx(losses[:2], rel=0.005)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_a_tiny_epsilon_leaves_one_answer(loss):
    prior = criteo_prior()
    constant = min(float(prior.masses @ get_loss(loss)(value, prior.values)) for value in prior.values)
    found = RPWithPrior.optimal(prior, "1e-5", loss).expected_loss(prior, loss)
    assert found == pytest.approx(constant, rel=1e-4)


@pytest.mark.parametrize("make", [RPWithPrior, RPWithPrior.optimal])
def test_a_large_epsilon_keeps_every_label(make):
    prior = criteo_prior()
    mechanism = make(prior, 40)
    assert mechanism.outputs.tolist() == prior.values.tolist()
    assert mechanism.expected_loss(prior) < 1e-9


@given(cells=st.integers(2, 30), epsilon=epsilons, seed=seeds, scale=st.floats(0.01, 100), start=st.integers(-50, 50))
def test_shift_scale_and_mirror_change_the_loss_as_they_should(cells, epsilon, seed, scale, start):
    prior = random_prior(cells, seed)
    moved = Prior(start + scale * prior.values, prior.masses)
    mirrored = Prior(prior.values, prior.masses[::-1])
    for make in (RPWithPrior, RPWithPrior.optimal):
        loss = make(prior, epsilon).expected_loss(prior)
        assert make(moved, epsilon).expected_loss(moved) == pytest.approx(scale**2 * loss, rel=1e-6)
        assert make(mirrored, epsilon).expected_loss(mirrored) == pytest.approx(loss, rel=1e-6)


def test_outputs_stay_where_the_loss_is_defined():
    prior = Prior(np.arange(53.0), np.arange(53, 0, -1))
    for make in (RPWithPrior, RPWithPrior.optimal):
        mechanism = make(prior, 1, "poisson")
        assert mechanism.outputs[0] > 0
        assert math.isfinite(mechanism.expected_loss(prior, "poisson"))
    assert RPWithPrior(prior, 1).outputs[0] < 0  # where the loss lets them


def test_labels_that_never_vary_need_no_noise():
    domain = Domain(0, 100, cells=101)
    mechanism = RPWithPrior.optimal(Prior([40], [1]), 1, domain=domain)
    assert mechanism.outputs.tolist() == [40]
    assert mechanism.randomize([3.0, 40.0, 99.0]).tolist() == [40, 40, 40]


def test_a_prior_off_the_grid_is_moved_to_it():
    prior = Prior([0.2, 9.7, 31.4, 80.0], [1, 2, 3, 1])
    mechanism = RPWithPrior(prior, 3, domain=Domain(0, 100, cells=11))
    assert set(np.round(mechanism.outputs) % 10) == {0}
    assert mechanism.expected_loss(prior) >= RROnBins.optimal(prior, 3).expected_loss(prior)


def test_uneven_priors_without_a_domain_get_an_even_grid():
    mechanism = RPWithPrior(Prior([0, 1, 10], [1, 2, 1]), 1)
    assert set(np.diff(mechanism.outputs)) <= {1.0}


def test_training_values_have_the_right_mean_for_every_label():
    prior = criteo_prior()
    mechanism = RPWithPrior(prior, 1, domain=Domain(0, 400, cells=401))
    values = code_values(mechanism, "auto")
    symbols = mechanism.encoder.encode(prior.values)
    means = mechanism.matrix(prior.values) @ values
    assert means == pytest.approx(symbol_means(mechanism)[symbols], rel=1e-9, abs=1e-6)


def test_a_message_of_pure_noise_cannot_be_debiased():
    mechanism = RPWithPrior(random_prior(5, 0), 1, half_width=1.5, interval=(0, 4))
    outside = 2**64 // 7
    flat = WindowTable.from_weights(5, 3, (2**64 - 4 * outside) // 3, outside)
    assert flat.inside == flat.outside
    made = copy.copy(mechanism)
    object.__setattr__(made, "table", flat)
    with pytest.raises(InvalidInput, match="nothing can be learned"):
        code_values(made, "debiased")


def test_a_window_that_the_loss_does_not_allow_is_refused_with_advice():
    with pytest.raises(InvalidInput, match="smaller half_width"):
        RPWithPrior(Prior(np.arange(5.0), np.ones(5)), 1, "poisson", half_width=2.5)


def test_a_private_prior_is_bought_and_labels_of_a_fine_grid_are_released():
    labels = np.random.default_rng(0).exponential(60, 20_000).clip(0, 400)
    private = LabelRandomizer(2, Domain(0, 400, cells=8001), mechanism="rp-with-prior").randomize(labels)
    assert private.mechanism.epsilon_exact + private.mechanism.prior.epsilon_exact == 2
    assert private.mechanism.proof().holds
    assert private.values("auto").shape == (20_000,)
    assert len(private.mechanism.to_json()) < 2_000_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"half_width": 0}, "above 0"),
        ({"half_width": True}, "above 0"),
        ({"half_width": math.inf}, "at most half of the domain"),
        ({"interval": 3}, "two numbers"),
        ({"interval": (5, 3)}, "lower end first"),
        ({"interval": (-1, 3)}, "within the domain"),
        ({"loss": "poisson", "prior": Prior([-3, 0, 3], [1, 1, 1])}, "labels under poisson loss"),
        ({"prior": Prior([4], [1])}, "give a domain"),
        ({"prior": "prior.csv"}, "prior must be a Prior, got str"),
        ({"epsilon": 0}, "greater than 0"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    settings_of = {"prior": random_prior(11, 0), "epsilon": 1} | arguments
    with pytest.raises(InvalidInput, match=words):
        RPWithPrior(**settings_of)


def steep(scale):
    return Request(Domain.integers(0, 40), 1, lambda output, label: scale * np.expm1(abs(output - label)))


@pytest.mark.parametrize("scale", [1, 1e280, 1e291])  # with the last, only outputs in the middle have finite losses
@pytest.mark.parametrize("held", [[0], [40], [0, 40], range(41)])
def test_a_loss_that_the_check_accepts_has_a_design_for_all_labels(scale, held):
    entry, request = MECHANISMS["rp-with-prior"], steep(scale)
    entry.check(request)
    masses = np.zeros(41)
    masses[held] = 1
    assert entry.make(replace(request, prior=Prior(request.domain.grid, masses))).proof().holds


def test_a_loss_without_finite_sums_is_refused_by_the_check():
    with pytest.raises(InvalidInput, match="no window fits"):
        MECHANISMS["rp-with-prior"].check(steep(1e308))
