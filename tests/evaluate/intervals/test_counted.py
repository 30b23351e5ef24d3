"""What noisy counts add: sums of any function of the label, with the error that their noise has."""

from __future__ import annotations

import numpy as np
import pytest
from private_populations import DOMAIN, PRIOR, VALUES, population, randomized
from scipy import stats

from labeldp import Domain, LabelRandomizer, Prior, estimate_error
from labeldp.errors import InvalidInput
from labeldp.evaluate import estimate_gain, estimate_mean, estimate_r2
from labeldp.evaluate.constraints import CountedLabels, CountedMean, LabelPieces, usable_counts
from labeldp.evaluate.estimates import made_assumptions
from labeldp.evaluate.intervals import known_mean
from labeldp.mechanisms import BiasVariance, PrivateLabels, RROnBins
from labeldp.priors import NoisyCounts, noisy_counts

SCALE = 20.0


def counts_of(labels, seed):
    random = np.random.default_rng(seed)
    first, second = (random.geometric(1 - np.exp(-1 / SCALE), VALUES.size) for _ in range(2))
    return NoisyCounts(np.bincount(labels.astype(int), minlength=VALUES.size) + first - second, SCALE, labels.size)


def with_counts(labels, others=(), seed=0):
    """Private labels whose prior carries the counts of these and of other labels."""
    counts = counts_of(np.r_[labels, others], seed)
    prior = Prior(VALUES, PRIOR.masses, counts.epsilon_exact, counts)
    mechanism = BiasVariance.optimal(prior, 2, 0.003, visible=0.7, domain=DOMAIN)
    return randomized(mechanism, labels, seed)


def counted_labels(private, **more):
    return CountedLabels.of(private.mechanism, LabelPieces.of(private.mechanism), len(private), **more)


def test_the_mean_of_a_function_is_off_by_noise_of_the_stated_size():
    labels = np.random.default_rng(0).choice(VALUES, 5000, p=PRIOR.masses)
    square, off = VALUES**2, []
    for seed in range(1000):
        found = CountedLabels(counts_of(labels, seed), np.eye(21), PRIOR.masses, 5000).mean(square)
        assert found.low == found.high
        off.append((found.low - np.mean(labels**2)) / found.noise)
    assert np.std(off) == pytest.approx(1, abs=0.1)
    assert stats.kurtosis(off) == pytest.approx(found.kurtosis, abs=0.5)


def test_labels_that_were_counted_but_are_not_here_may_be_anything():
    labels = np.random.default_rng(0).choice(VALUES, 5000, p=PRIOR.masses)
    for others in (np.zeros(500), np.full(500, 20.0)):
        found = counted_labels(with_counts(labels, others)).mean(VALUES)
        assert found.low - 5 * found.noise < labels.mean() < found.high + 5 * found.noise
        assert found.high - found.low == pytest.approx(20 * 500 / 5000)
    part = counted_labels(with_counts(labels, labels), random_part=True).mean(VALUES)
    assert part.low == part.high == pytest.approx(labels.mean(), abs=5 * part.noise)


def test_counts_are_used_only_where_they_are_counts_of_these_labels():
    labels = population(np.random.default_rng(0), 1000)[0]
    private = with_counts(labels)
    assert usable_counts(private.mechanism, 1000) is not None
    assert usable_counts(private.mechanism, 1001) is None
    assert usable_counts(RROnBins.optimal(private.mechanism.prior, 2), 1000) is None


def test_codes_and_counts_together_are_unbiased_where_codes_alone_are_not():
    """Where every label has the same output probabilities, only the counts can tell the square."""
    private = with_counts(np.random.default_rng(0).choice(VALUES, 5000, p=PRIOR.masses))
    counted = counted_labels(private)
    channel = np.full((21, 3), 1 / 3)
    codes, cells = counted.fit(channel, (VALUES**2)[:, None], 1.0)
    bias = channel @ codes[:, 0] + cells[:, 0] - VALUES**2
    assert np.abs(bias).max() < 0.1 * 400
    doubtless = counted.fit(channel, (VALUES**2)[:, None], 1e-3, doubt=1e-9)
    assert counted.masses @ (channel @ doubtless[0][:, 0]) == pytest.approx(counted.masses @ VALUES**2, rel=0.01)
    assert counted.mean(doubtless[1][:, 0]).noise < 0.01 * counted.mean(cells[:, 0]).noise


@pytest.mark.parametrize("risk", [0.1, 0.01, 0.001])
def test_quantiles_of_known_noise_are_never_too_small(risk):
    """One count has Laplace noise, whose quantile is known; many counts have nearly normal noise."""
    one = CountedMean(np.ones(1), 0.0, 0.0, noise=1.0, kurtosis=3.0, sampling=0.0)
    exact = stats.laplace.ppf(1 - risk / 2) / np.sqrt(2)
    assert 0.97 * exact <= known_mean(0.0, one, risk) <= 1.45 * exact
    many = CountedMean(np.ones(1), 0.0, 0.0, noise=1.0, kurtosis=0.0, sampling=0.0)
    assert known_mean(0.0, many, risk) == pytest.approx(stats.norm.ppf(1 - risk / 2))
    both = CountedMean(np.ones(1), 0.0, 0.0, noise=1.0, kurtosis=0.0, sampling=1.0)
    assert known_mean(2.0, both, risk) == pytest.approx(np.sqrt(10) * stats.norm.ppf(1 - risk / 2))


@pytest.mark.slow
def test_intervals_with_counts_cover_and_are_narrower():
    random = np.random.default_rng(5)
    labels, feature = population(random, 500_000)
    error = np.mean((feature - labels) ** 2)
    truth = error, np.mean((feature.mean() - labels) ** 2) - error, 1 - error / labels.var()
    covered, narrower = np.zeros(3, int), 0
    for seed in range(20):
        labels, feature = population(random, 5000)
        private = with_counts(labels, seed=seed)
        found = [each(private, feature) for each in (estimate_error, estimate_gain, estimate_r2)]
        covered += [e.lower <= true <= e.upper for e, true in zip(found, truth, strict=True)]
        prior = Prior(VALUES, PRIOR.masses)
        bare = BiasVariance.optimal(prior, 2, 0.003, visible=0.7, domain=DOMAIN)
        without = estimate_error(randomized(bare, labels, seed), feature)
        narrower += found[0].upper - found[0].lower < without.upper - without.lower
    assert covered.min() >= 18
    assert narrower >= 18


@pytest.mark.parametrize("mirrored", [False, True])
def test_tails_that_run_against_the_predictions_are_covered_without_assumptions(mirrored):
    """The largest labels go with small predictions, or mirrored: what "tails" rules out must be covered without it."""
    random = np.random.default_rng(2)
    domain = Domain(0, 400)

    def draw(size):
        feature = random.normal(size=size)
        labels = np.clip(90 + 30 * feature + random.normal(0, 20, size), 0, 400)
        labels[(random.random(size) < 0.05) & (feature < -1)] = 395
        predictions = np.clip(90 + 30 * feature, 0, 400)
        return (400 - labels, 400 - predictions) if mirrored else (labels, predictions)

    labels, predictions = draw(200_000)
    error = np.mean((predictions - labels) ** 2)
    truth = np.mean((predictions.mean() - labels) ** 2) - error, 1 - error / labels.var()
    labels, predictions = draw(20_000)
    private = LabelRandomizer(1, domain, mechanism="auto").randomize(labels)
    found = estimate_gain(private, predictions), estimate_r2(private, predictions)
    for estimate, true in zip(found, truth, strict=True):
        assert estimate.lower <= true <= estimate.upper


def test_assumptions_narrow_and_are_named():
    random = np.random.default_rng(1)
    feature = random.normal(size=20_000)
    labels = np.exp(3.6 + 0.7 * feature + 0.4 * random.normal(size=20_000))
    private = LabelRandomizer(1, Domain(0, 400), mechanism="auto").randomize(labels)
    predictions = np.exp(3.7 + 0.7 * feature)
    bare, assumed = (estimate_gain(private, predictions, assume=assume) for assume in ((), ("tails", "part")))
    assert bare.lower - 1e-6 <= assumed.lower < assumed.upper <= bare.upper + 1e-6
    assert made_assumptions(private, ("tails", "part")) == ["tails"]
    assert made_assumptions(private[:500], ("tails", "part")) == ["tails", "part"]
    assert made_assumptions(private[:500], ()) == []
    with pytest.raises(InvalidInput, match="assume takes 'tails' and 'part'"):
        estimate_gain(private, predictions, assume=("luck",))


def test_r2_says_no_more_than_is_known_of_labels_that_may_be_all_equal():
    prior = Prior(VALUES, PRIOR.masses)
    mechanism = RROnBins.optimal(prior, 0.1)
    found = estimate_r2(PrivateLabels(mechanism.codes(np.full(50, 3.0)), mechanism), np.arange(50) % 7)
    assert found.lower == -np.inf or found.lower < 0
    assert found.lower <= found.value <= found.upper <= 1


def test_noise_of_the_tests_is_that_of_the_release():
    """A difference of two geometric numbers is integer Laplace noise, as OpenDP draws it."""
    drawn = noisy_counts(np.zeros(4000, np.int64), SCALE)
    assert np.var(drawn) == pytest.approx(NoisyCounts([0], SCALE, 1).noise_variance, rel=0.25)


def test_the_mean_is_known_as_well_as_codes_and_counts_together_tell():
    """Codes alone are biased at labels that the prior thinks rare. With counts, little is left but noise and sampling."""
    random, off = np.random.default_rng(0), []
    for seed in range(20):
        labels = random.choice(VALUES, 5000, p=PRIOR.masses)
        estimate = estimate_mean(with_counts(labels, seed=seed))
        off.append((estimate.value - PRIOR.mean) / estimate.standard_error)
        assert estimate.upper - estimate.lower < 6.5 * estimate.standard_error
        assert estimate.lower < PRIOR.mean < estimate.upper
    assert abs(np.mean(off)) < 0.8  # without bias the standard deviation of this mean is at most 0.22


def test_a_gain_of_a_quarter_of_the_variance_is_seen_in_17520_records():
    random = np.random.default_rng(0)
    feature, rest = random.normal(size=(2, 17_520))
    labels, predictions = np.clip(155 + 60 * feature + 105 * rest, 0, 400), np.clip(157 + 54 * feature, 0, 400)
    private = LabelRandomizer(1, Domain(0, 400)).randomize(labels)
    assert estimate_gain(private, predictions, assume=("tails",)).lower > 0
    assert estimate_r2(private, predictions, assume=("tails",)).lower > 0


def test_later_batches_make_an_interval_narrower_if_they_are_like_the_first():
    random = np.random.default_rng(0)
    labels, feature = population(random, 15_000)
    first = with_counts(labels[:5000])
    private = randomized(first.mechanism, labels, seed=3)
    assume = ("tails", "part", "batches")
    for estimate in (
        lambda size: estimate_mean(private[:size], assume=assume),
        lambda size: estimate_gain(private[:size], np.clip(feature[:size], 0, 20), assume=assume),
    ):
        widths = [found.upper - found.lower for found in map(estimate, (5000, 10_000, 15_000))]
        assert widths[0] > widths[1] > widths[2]
    found, bare = estimate_mean(private, assume=assume), estimate_mean(private, assume=("tails", "part"))
    assert found.lower < PRIOR.mean < found.upper
    assert bare.lower <= found.lower
    assert found.upper <= bare.upper
    assert made_assumptions(private, assume) == ["tails", "batches"]


def test_counts_of_a_first_batch_are_means_over_that_batch():
    labels = np.random.default_rng(0).choice(VALUES, 5000, p=PRIOR.masses)
    mechanism = with_counts(labels).mechanism
    found = CountedLabels.of(mechanism, LabelPieces.of(mechanism), 20_000, random_part=True).mean(VALUES)
    assert found.low == found.high == pytest.approx(labels.mean(), abs=5 * found.noise)
    assert found.sampling == pytest.approx(labels.std() / np.sqrt(5000), rel=0.1)
    assert CountedLabels.of(mechanism, LabelPieces.of(mechanism), 20_000) is None


def test_a_group_of_the_counted_labels_is_estimated_by_its_codes():
    """The other labels may be anything, so that counts say little about the mean of one group."""
    random = np.random.default_rng(0)
    labels, others = random.choice(VALUES, 1000, p=PRIOR.masses), random.choice(VALUES, 9000, p=PRIOR.masses)
    private = with_counts(labels, others)
    group = estimate_mean(private)
    bare = estimate_mean(PrivateLabels(private.codes, private.mechanism.without_counts()))
    assert group.value == pytest.approx(bare.value, abs=0.5 * bare.standard_error)
    assert group.upper - group.lower < 1.3 * (bare.upper - bare.lower)
