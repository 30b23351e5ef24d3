"""Exact mechanisms: the proof, the probabilities, JSON, draws. One law each, for all of them."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from labeldp import Domain, Prior
from labeldp.budget import exp_lower
from labeldp.errors import InvalidInput, LabelDPError, PrivacyRefused
from labeldp.mechanisms import (
    MECHANISMS,
    DiscreteLaplace,
    DiscreteStaircase,
    Exponential,
    FiniteMechanism,
    Laplace,
    Mechanism,
    RandomizedResponse,
    Request,
    RROnBins,
    RRWithPrior,
    design,
    grid_noise,
    releasable,
    verify,
)
from labeldp.sampling import AnchoredTable, KeyedRandomness, OsEntropy

DOMAIN = Domain(0, 10, cells=11)
PRIOR = Prior(DOMAIN.grid, np.arange(11, 0, -1))


def make(kind, epsilon=1.0, domain=DOMAIN, prior=PRIOR):
    return design(kind, Request(domain, epsilon, prior=prior, records=10_000))


every_kind = pytest.mark.parametrize("kind", [entry.name for entry in MECHANISMS if entry.exact and entry.cls])


@every_kind
@given(
    epsilon=st.one_of(st.floats(1e-3, 12), st.sampled_from([1e-6, 0.05, 30.0, 40.0])),
    cells=st.integers(2, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_sampled_integers_are_epsilon_private(kind, epsilon, cells, seed):
    domain = Domain(-3, 17, cells=cells)
    masses = np.random.default_rng(seed).random(cells) ** 3
    try:
        mechanism = make(kind, epsilon, domain, Prior(domain.grid, masses))
    except LabelDPError:
        assert epsilon < 1e-5 or epsilon > 20  # refusing is always safe, but must stay at the edges
        return
    table = mechanism.table
    weights = [[table.weight(i, j) for j in range(table.outputs)] for i in range(table.inputs)]
    assert all(sum(row) == 2**table.scale_bits for row in weights)
    worst = max(Fraction(max(column), min(column)) for column in zip(*weights, strict=True))
    assert worst <= verify(mechanism).ratio <= exp_lower(Fraction(repr(epsilon)), 200)
    if not isinstance(table, AnchoredTable):  # a mixture of rows is bounded by the rows it mixes
        assert verify(mechanism).ratio == worst


@every_kind
@pytest.mark.parametrize("loss", ["squared", "absolute", "huber(2.0)"])
def test_expected_loss_is_the_sum_over_the_integer_table(kind, loss):
    from labeldp.losses import get_loss

    mechanism = make(kind, 1.7)
    measure = get_loss(loss)
    exact_sum = math.fsum(
        mass * mechanism.table.weight(int(symbol), j) / 2**mechanism.table.scale_bits * float(measure(output, value))
        for value, mass, symbol in zip(PRIOR.values, PRIOR.masses, mechanism.encoder.encode(PRIOR.values), strict=True)
        for j, output in enumerate(mechanism.outputs)
    )
    assert mechanism.expected_loss(PRIOR, loss) == pytest.approx(exact_sum, rel=1e-12)


@every_kind
def test_bias_and_variance_make_the_squared_loss(kind):
    mechanism = make(kind, 0.8)
    total = PRIOR.masses @ (mechanism.bias(PRIOR.values) ** 2 + mechanism.variance(PRIOR.values))
    assert mechanism.expected_loss(PRIOR) == pytest.approx(total, rel=1e-12)


@every_kind
def test_matrix_rows_sum_to_one_and_stay_within_epsilon(kind):
    matrix = make(kind, 0.9).matrix(np.linspace(-5, 15, 50))
    assert matrix.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert (matrix.max(axis=0) / matrix.min(axis=0)).max() <= math.exp(0.9) * (1 + 1e-12)


@every_kind
def test_json_keeps_every_number(kind):
    mechanism = make(kind, 0.3)
    again = Mechanism.from_json(mechanism.to_json())
    assert again == mechanism
    assert type(again) is type(mechanism)
    assert again.to_json() == mechanism.to_json()
    assert again.matrix(DOMAIN.grid).tolist() == mechanism.matrix(DOMAIN.grid).tolist()
    assert again.prior == mechanism.prior


@every_kind
@pytest.mark.parametrize(
    "epsilon", ["0." + "3" * 300, f"{10**299}/{10**300 - 1}", Fraction(1, 3) + Fraction(1, 10**350)]
)
def test_json_keeps_an_epsilon_of_many_digits(kind, epsilon):
    mechanism = make(kind, epsilon)
    assert Mechanism.from_json(mechanism.to_json()).epsilon_exact == mechanism.epsilon_exact == Fraction(epsilon)


@every_kind
def test_epsilon_as_a_float_is_never_below_the_true_one(kind):
    mechanism = make(kind, Fraction(1, 3))  # which the nearest float is below
    assert math.nextafter(mechanism.epsilon, 0) < mechanism.epsilon_exact <= mechanism.epsilon


@every_kind
def test_an_edited_description_is_refused(kind):
    record = json.loads(make(kind).to_json())
    for change in (
        {"outputs": [*record["outputs"][:-1], record["outputs"][-1] + 1]},
        {"epsilon": "0.4"},
        {"digest": "0" * 64},
        {"format_version": 99},
        {"format": "other"},
        {"kind": "unheard-of"},
        {"table": {"kind": "response", "outputs": 3, "keep": "1", "other": "1"}},
        {"encoder": {"type": "x"}},
        {"outputs": None},
        {"outputs": ["a"]},
        {"outputs": [[value] for value in record["outputs"]]},
        {"epsilon": "1e30000000"},
        {"epsilon": "1/0"},
        {"epsilon": 1},
        {"loss": ["squared"]},
        {"parameters": {}},
        {"prior": {"epsilon": "-0.5", "values": [0.0, 1.0], "masses": [0.5, 0.5]}},
    ):
        with pytest.raises(InvalidInput):
            Mechanism.from_json(json.dumps(record | change))
    for name in ("epsilon", "table", "encoder", "outputs", "digest"):
        with pytest.raises(InvalidInput):
            Mechanism.from_json(json.dumps({key: value for key, value in record.items() if key != name}))
    with pytest.raises(InvalidInput, match="JSON"):
        Mechanism.from_json(make(kind).to_json()[:-20])


@every_kind
@pytest.mark.parametrize("source", ["os", "keyed"])
def test_draws_follow_the_table(kind, source):
    mechanism = make(kind, 1.2)
    n = 60_000
    for label in (0.0, 4.2, 10.0):
        keyed = {"ids": np.arange(n), "randomness": KeyedRandomness(b"k" * 32, b"r" * 16)}
        codes = mechanism.codes(np.full(n, label), **(keyed if source == "keyed" else {"randomness": OsEntropy()}))
        expected = mechanism.matrix([label])[0] * n
        statistic = ((np.bincount(codes, minlength=expected.size) - expected) ** 2 / expected).sum()
        assert expected.min() > 100  # for smaller ones the statistic's tail is longer than that of chi-square
        assert chi2.sf(statistic, expected.size - 1) > 1e-12


def test_keyed_draws_repeat_for_the_record_and_not_otherwise():
    mechanism = RROnBins([0, 5, 10], 0.5)
    labels, ids = np.tile([1.0, 9.0, 4.0], 200), [f"record {i}" for i in range(600)]
    keyed = KeyedRandomness(b"k" * 32, b"r" * 16)
    first = mechanism.codes(labels, ids, keyed)
    order = np.random.default_rng(0).permutation(600)
    again = mechanism.codes(labels[order], [ids[i] for i in order], keyed)
    assert (again == first[order]).all()
    other = mechanism.codes(labels, ids, KeyedRandomness(b"k" * 32, b"s" * 16))
    assert (other != first).any()


def test_a_changed_symbol_gets_an_independent_draw():
    """A draw shared between two bins would show, for one id, which of two releases changed."""
    mechanism = RROnBins([0, 10], 0.1)
    n = 20_000
    keyed = KeyedRandomness(b"k" * 32, b"r" * 16)
    kept_low = mechanism.codes(np.zeros(n), np.arange(n), keyed) == 0
    kept_high = mechanism.codes(np.full(n, 10.0), np.arange(n), keyed) == 1
    correlation = np.corrcoef(kept_low, kept_high)[0, 1]
    assert abs(correlation) < 6 / math.sqrt(n)


def test_keyed_randomness_needs_one_id_per_label():
    mechanism = RROnBins([0, 10], 1)
    keyed = KeyedRandomness.generate()
    with pytest.raises(InvalidInput, match="needs ids"):
        mechanism.randomize([1, 2], randomness=keyed)
    with pytest.raises(InvalidInput, match="one id per label"):
        mechanism.randomize([1, 2], ids=[1], randomness=keyed)
    with pytest.raises(InvalidInput, match="unique"):
        mechanism.randomize([1, 2], ids=[1, 1], randomness=keyed)


def test_one_output_draws_nothing():
    class NoWords:
        needs_ids = False

        def identify(self, ids, *, digest):
            return None

        def draw(self, *_, **__):
            raise AssertionError("drew a word for a constant")

    assert RROnBins([7], 1).randomize([1, 2, 3], randomness=NoWords()).tolist() == [7, 7, 7]


def test_no_labels_give_no_private_labels():
    assert RROnBins([0, 10], 1).randomize([]).size == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], 1), "at least one"),
        (([2, 1], 1), "increase"),
        (([1, math.inf], 1), "finite"),
        (([1, 2], 0), "greater than 0"),
        (([1, 2], 41), "at most 40"),
        (([1, 2], math.nan), "number"),
        (([1, 2], "a lot"), "number"),
        (([1, 2], True), "number"),
    ],
)
def test_bad_bins_are_refused(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        RROnBins(*arguments)


def test_epsilon_forty_works():
    mechanism = RROnBins(np.arange(5.0), 40)
    labels = np.arange(100_000) % 5
    assert (mechanism.randomize(labels) == labels).mean() > 0.99999


def test_rr_with_prior_takes_the_best_number_of_values():
    for epsilon in (0.1, 1, 3, 6):
        best = RRWithPrior(PRIOR, epsilon)
        chances = []
        for top in range(1, 12):
            mechanism = RRWithPrior(PRIOR, epsilon, top=top)
            right = mechanism.outputs[None, :] == PRIOR.values[:, None]
            chances.append(PRIOR.masses @ (mechanism.matrix(PRIOR.values) * right).sum(axis=1))
        assert best.parameter("top") == int(np.argmax(chances)) + 1


@pytest.mark.parametrize("epsilon", [0.3, 1, 4])
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_staircase_parameter_is_the_best_of_all(epsilon, loss):
    between = Prior(np.linspace(0.3, 9.7, 41), np.arange(1, 42))  # labels that are not grid points
    for prior, window in ((PRIOR, 0), (PRIOR, 4), (between, 0), (between, 4)):
        every = (DiscreteStaircase(DOMAIN, epsilon, r=r, window=window) for r in range(1, 11))
        least = min(each.expected_loss(prior, loss) for each in every)
        best = DiscreteStaircase.optimal(prior, epsilon, loss, domain=DOMAIN, window=window)
        assert best.expected_loss(prior, loss) == pytest.approx(least, rel=1e-12)
    middle, wide = Prior([5], [1]), 60  # in a wide window the noise is not clipped
    free = [DiscreteStaircase(DOMAIN, epsilon, r=r, window=wide).expected_loss(middle, loss) for r in range(1, 11)]
    chosen = int(DiscreteStaircase(DOMAIN, epsilon, loss=loss).parameter("r"))
    if epsilon >= 1:
        assert free[chosen - 1] == pytest.approx(min(free), rel=1e-6)


def test_a_long_prior_is_weighed_by_its_quantiles(monkeypatch):
    """All pairs of a million labels and a million noises took hours."""
    domain = Domain(0, 10, cells=401)
    prior = Prior(domain.grid, np.linspace(1, 5, 401))
    whole = DiscreteStaircase.optimal(prior, 2, domain=domain)
    monkeypatch.setattr(grid_noise, "_MOST_PAIRS", 40 * 401)
    fewer = DiscreteStaircase.optimal(prior, 2, domain=domain)
    assert fewer.expected_loss(prior, "squared") == pytest.approx(whole.expected_loss(prior, "squared"), rel=1e-3)


def test_rr_with_prior_refuses_a_table_that_is_too_large():
    prior = Prior.uniform(Domain(0, 1, cells=5000))
    with pytest.raises(InvalidInput, match="at most 4,471 of them, not 5,000: give fewer cells"):
        RRWithPrior(prior, 1)
    with pytest.raises(InvalidInput, match="at most 4,471 of them"):
        RRWithPrior(prior, 1, top=4472)


def test_a_window_makes_discrete_laplace_less_biased():
    clipped, wide = DiscreteLaplace(DOMAIN, 1), DiscreteLaplace(DOMAIN, 1, window=200)
    assert np.abs(wide.bias(DOMAIN.grid)).max() < 1e-6
    assert np.abs(clipped.bias(DOMAIN.grid)).max() > 1
    assert wide.outputs[0] == pytest.approx(-200)


def test_the_exponential_mechanism_has_the_stated_probabilities():
    weights = np.exp(-0.5 * np.abs(DOMAIN.grid - 3) / 10)
    assert Exponential(DOMAIN, 1).matrix([3])[0] == pytest.approx(weights / weights.sum(), rel=1e-12)


def test_randomized_response_has_the_stated_probabilities():
    row = RandomizedResponse(DOMAIN, 2).matrix([3])[0]
    assert row[3] == pytest.approx(math.exp(2) / (math.exp(2) + 10), rel=1e-12)
    assert row[0] == pytest.approx(1 / (math.exp(2) + 10), rel=1e-12)


def test_kinds_are_checked():
    with pytest.raises(PrivacyRefused, match="comparison only"):
        releasable("laplace")
    with pytest.raises(InvalidInput, match="Did you mean 'rr-on-bins'"):
        releasable("rr-on-bin")
    with pytest.raises(InvalidInput, match="is designed for a prior: give one"):
        design("rr-on-bins", Request(DOMAIN, 1))


def test_a_class_reads_descriptions_of_its_own_kind_only():
    response, laplace = RROnBins([10, 100], 1), Laplace((0, 1), 1)
    for reader in (Mechanism, FiniteMechanism, RROnBins):
        assert reader.from_json(response.to_json()) == response
    assert Mechanism.from_json(laplace.to_json()) == laplace
    with pytest.raises(InvalidInput, match="laplace is not a FiniteMechanism: it is for comparison only"):
        FiniteMechanism.from_json(laplace.to_json())
    with pytest.raises(InvalidInput, match=r"rr-on-bins is not a Laplace$"):
        Laplace.from_json(response.to_json())
