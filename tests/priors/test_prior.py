"""Priors, the exact budget split, and the private histogram's noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Domain, Prior
from labeldp.errors import InvalidInput
from labeldp.priors import BudgetWarning, histogram, prior_from_counts, private_prior, split_budget


def test_a_prior_is_sorted_normalised_and_frozen():
    prior = Prior([50, 0, 10], [1, 2, 1])
    assert prior.values.tolist() == [0, 10, 50]
    assert prior.masses.tolist() == [0.5, 0.25, 0.25]
    assert prior.mean == 15
    assert prior.variance == pytest.approx(0.5 * 225 + 0.25 * 25 + 0.25 * 1225)
    with pytest.raises(ValueError, match="read-only"):
        prior.masses[0] = 1


def test_a_prior_becomes_a_frame():
    prior = Prior([0, 10, 50], [2, 1, 1], Fraction(1, 3))
    columns = {"value": [0.0, 10.0, 50.0], "mass": [0.5, 0.25, 0.25]}
    assert prior.to_arrow().to_pydict() == columns
    assert prior.to_pandas().to_dict("list") == columns
    assert prior.to_polars().to_dict(as_series=False) == columns


def test_a_uniform_prior_needs_a_grid_which_bounds_alone_do_not_have():
    assert Prior.uniform(Domain(0, 10, cells=3)) == Prior([0, 5, 10], [1, 1, 1])
    with pytest.raises(InvalidInput, match=r"Domain\(0, 10\) has no grid yet: give cells"):
        Prior.uniform((0, 10))


@pytest.mark.parametrize(
    ("values", "masses", "words"),
    [
        ([], [], "at least one"),
        ([1, 2], [1], "one mass per value"),
        ([1, 1], [1, 1], "index 0 and index 1 "),
        ([1, 2, 3], [1, -1, -2], "negative: that at index 1 is"),
        ([1, 2], [0, 0], "zero"),
        ([1, math.nan], [1, 1], "finite"),
        ([1, 2], [math.inf, 1], "finite"),
    ],
)
def test_bad_priors_are_refused(values, masses, words):
    with pytest.raises(InvalidInput, match=words):
        Prior(values, masses)


@given(
    st.lists(
        st.tuples(st.integers(-(10**6), 10**6), st.floats(1e-300, 1e300)),
        min_size=1,
        max_size=30,
        unique_by=lambda p: p[0],
    )
)
def test_masses_sum_to_one_whatever_their_size(points):
    prior = Prior(*zip(*points, strict=True))
    assert math.fsum(prior.masses) == pytest.approx(1, abs=1e-12)


def test_csv_round_trip_is_lossless(tmp_path):
    prior = Prior(np.linspace(0, 1, 17), np.random.default_rng(0).random(17))
    prior.to_csv(tmp_path / "prior.csv")
    assert Prior.from_csv(tmp_path / "prior.csv") == prior


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "columns value and mass, named in the first line"),
        ("a,b\n1,2\n", "columns value and mass, named in the first line"),
        ("value,mass\n1,1\n2,x\n", "prior.csv, line 3: a mass must be a finite number"),
        ("value,mass\n1,1\n2\n", r"prior.csv, line 3: a mass must be a finite number"),
        ("value,mass\n1,1\n1,1\n", "prior.csv: prior values must differ: those at index 0 and index 1 "),
    ],
)
def test_bad_csv_priors_name_file_and_line(tmp_path, text, words):
    path = tmp_path / "prior.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=words) as error:
        Prior.from_csv(path)
    assert "prior.csv" in str(error.value)


@given(st.fractions(Fraction(1, 100), 20), st.integers(2, 10**6), st.integers(1, 10**9))
def test_the_split_adds_up_exactly_and_never_gives_the_prior_more_than_half(epsilon, cells, records):
    if cells > math.floor(records * epsilon**2):
        with pytest.raises(InvalidInput, match="cells"):
            split_budget(epsilon, cells, records)
        return
    split = split_budget(epsilon, cells, records)
    assert split.epsilon_prior + split.epsilon_labels == split.epsilon == epsilon
    assert 0 < split.epsilon_prior <= epsilon / 2
    assert split.epsilon_prior == 2 / Fraction(split.scale)
    assert float(split.epsilon_prior) == pytest.approx(min(math.sqrt(cells / records), float(epsilon) / 2), rel=1e-12)
    assert (split.advice is not None) == (math.sqrt(cells / records) > float(epsilon) / 2)


def test_the_cap_is_said_and_an_unreachable_grid_says_what_to_change():
    with pytest.warns(BudgetWarning, match="Fewer cells"):
        split_budget(1, 400, 1000).warn()
    with pytest.raises(InvalidInput, match=r"at most 250 cells.*public prior"):
        split_budget(0.5, 401, 1000)
    with pytest.raises(InvalidInput, match="at least 800 records"):
        split_budget(0.05, 2, 10)
    with pytest.raises(InvalidInput, match="no labels"):
        split_budget(1, 2, 0)


def test_the_histogram_counts_every_label_once():
    domain = Domain(0, 10, cells=11)
    labels = np.repeat(np.arange(11.0), np.arange(11))
    assert histogram(labels, domain).tolist() == list(range(11))


@pytest.mark.parametrize("cells", [11, 100_000])
def test_labels_are_counted_piece_by_piece(monkeypatch, cells):
    monkeypatch.setattr("labeldp.priors.private_histogram._CACHED_ROWS", 7)
    labels, domain = np.random.default_rng(0).uniform(0, 10, 1000), Domain(0, 10, cells)
    expected = np.bincount(domain.cell(labels), minlength=cells)
    assert np.array_equal(histogram(labels, domain), expected)


def test_private_counts_carry_integer_laplace_noise_of_sensitivity_two():
    """Replacing one label moves two counts: a noise scale of 1/ε would be half of what ε-DP needs."""
    epsilon, base, cells = 0.5, 10_000, 20_000
    domain = Domain(0, cells - 1, cells)
    scale = 2 / epsilon
    prior = prior_from_counts(np.full(cells, base), domain, scale)
    noise = prior.masses / prior.masses.mean() * base - base  # the sum's own noise is negligible at this size
    q = math.exp(-1 / scale)
    variance = 2 * q / (1 - q) ** 2
    # the variance of a sample of n Laplace variables has relative deviation √(5/n) ≈ 0.016; half the scale, a quarter of it
    assert noise.var() == pytest.approx(variance, rel=0.15)
    assert prior.epsilon_exact == Fraction(1, 2)


def test_private_prior_never_costs_more_than_asked():
    prior = private_prior(np.arange(1000) % 10, Domain.integers(0, 9), 0.3)
    assert Fraction(0) < prior.epsilon_exact <= Fraction(3, 10)
    assert prior.values.tolist() == list(range(10))


def test_all_counts_drowned_gives_a_uniform_prior(monkeypatch):
    monkeypatch.setattr("labeldp.priors.private_histogram.noisy_counts", lambda counts, scale: counts - 5)
    prior = prior_from_counts(np.zeros(4, np.int64), Domain(0, 3, 4), 2.0)
    assert prior.masses.tolist() == [0.25] * 4


def test_noise_is_fresh_on_every_call():
    counts = np.full(50, 1000)
    domain = Domain(0, 49, 50)
    assert prior_from_counts(counts, domain, 10.0) != prior_from_counts(counts, domain, 10.0)


@given(st.floats(3e-6, 1.7e308))
def test_the_cost_of_every_noise_scale_reads_back_exactly(tmp_path_factory, scale):
    path = tmp_path_factory.mktemp("prior") / "prior.csv"
    prior = Prior([0, 1], [1, 2], 2 / Fraction(scale))
    prior.to_csv(path)
    assert Prior.from_csv(path) == prior


@pytest.mark.parametrize("text", ["0.5", " 0.5", "1/2", "5e-1", "0." + "0" * 398 + "5", "1/" + "7" * 900])
def test_a_cost_in_a_file_is_what_it_says(tmp_path, text):
    path = tmp_path / "prior.csv"
    path.write_text(f"value,mass,epsilon\n0,1,{text}\n1,1,{text}\n")
    assert Prior.from_csv(path).epsilon_exact == Fraction(text)


@pytest.mark.parametrize(
    "text",
    ["-0.5", "-1/2", "1/0", "1/" + "7" * 1200, "0." + "0" * 998 + "5", "0." + "0" * 200_000, "1e999", "nan", "x"],
)
def test_a_cost_that_cannot_be_read_makes_no_public_prior(tmp_path, text):
    path = tmp_path / "prior.csv"
    path.write_text(f"value,mass,epsilon\n0,1,{text}\n1,1,{text}\n")
    with pytest.raises(InvalidInput, match=r"prior\.csv"):
        Prior.from_csv(path)


def test_a_cost_that_could_not_be_read_back_is_not_written(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be written"):
        Prior([0, 1], [1, 2], Fraction(1, 3**2200)).to_csv(tmp_path / "prior.csv")
    assert not (tmp_path / "prior.csv").exists()


@pytest.mark.parametrize("cost", [Fraction(10**6) + Fraction(1, 10**9), Fraction(10**999), Fraction(10**5000)])
def test_a_prior_that_cost_more_than_any_budget_is_refused(cost):
    with pytest.raises(InvalidInput, match="at most 1,000,000"):
        Prior([0, 1], [1, 2], cost)
    with pytest.raises(InvalidInput, match="must not be negative"):
        Prior([0, 1], [1, 2], -cost)


@pytest.mark.parametrize("values", [[0, 1e101], [-1e308, 1e308], [1e-300, 1], [1, 1 + 1e-200, 1e-120]])
def test_values_whose_squares_floats_cannot_hold_are_refused(values):
    with pytest.raises(InvalidInput, match="another unit"):
        Prior(values, [1] * len(values))
