"""Bounds and grids come from the user; labels are validated by row."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from sklearn.linear_model import Ridge

from labeldp import Domain, LabelDPRegressor, LabelRandomizer
from labeldp.arrays import label_array
from labeldp.errors import ClippingWarning, InvalidInput
from labeldp.mechanisms import Laplace, RROnBins
from labeldp.priors import private_prior
from labeldp.release.sum_queries import SumQueries


@pytest.mark.parametrize(
    "labels",
    [
        [1, 2.5, 3],
        (1, 2.5, 3),
        np.array([1, 2.5, 3]),
        pd.Series([1, 2.5, 3]),
        pd.Series([1, 2.5, 3], dtype="Float64"),
        pl.Series([1.0, 2.5, 3.0]),
        pa.array([1, 2.5, 3]),
        pa.chunked_array([[1.0], [2.5, 3.0]]),
    ],
    ids=lambda labels: type(labels).__module__.split(".")[0] + "." + type(labels).__name__,
)
def test_every_kind_of_series_becomes_the_same_floats(labels):
    assert label_array(labels).tolist() == [1, 2.5, 3]
    assert label_array(labels).dtype == np.float64


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, None, 3], "index 1"),
        ([1.0, math.nan], "index 1"),
        ([math.inf, 1.0], "index 0"),
        (pd.Series([1, None, 3], dtype="Int64"), "index 1"),
        (pl.Series([1, 2, None]), "index 2"),
        (pa.array([None, 1]), "index 0"),
        (["a", "b"], "text"),
        ([1, "x"], "must be numbers"),
        (pl.Series(["a"]), "must be numbers"),
        ([True, "x"], "must be numbers"),
        ([[1, 2], [3, 4]], "one-dimensional"),
        ([[1], [2, 3]], "flat list"),
        ("123", "got str"),
        ([np.nan] * 10, "7 more"),
    ],
)
def test_bad_labels_are_refused_by_row(labels, words):
    with pytest.raises(InvalidInput, match=words):
        label_array(labels)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1, 1), "below"),
        ((0, math.inf), "finite"),
        (("a", 1), "finite number"),
        ((0, 1, 1), "cells"),
        ((0, 1, 2.5), "cells"),
        ((0, 1, 2**33), "cells"),
        ((1e16, 1e16 + 8, 1000), "closer together than floats"),
        ((-1e308, 1e308), "another unit"),
        ((0, 1e101), "another unit"),
        ((1, 1 + 2e-16, 10**400), "cells"),
        ((0, 10**400), "must be a number"),
        ((1e-90, 1e-90 * (1 + 1e-15)), "another unit"),
    ],
)
def test_bad_bounds_are_refused(bounds, words):
    with pytest.raises(InvalidInput, match=words):
        Domain(*bounds)


def test_a_pair_is_a_domain_and_nothing_is_an_error():
    assert Domain.of((0, 400)) == Domain(0, 400)
    with pytest.raises(InvalidInput, match="must be given"):
        Domain.of(None)
    with pytest.raises(InvalidInput, match="pair"):
        Domain.of((1, 2, 3))


def test_integer_domains_have_one_cell_each():
    weeks = Domain.integers(0, 52)
    assert weeks.cells == 53
    assert weeks.grid.tolist() == list(range(53))
    with pytest.raises(InvalidInput, match="whole number"):
        Domain.integers(0, 2.5)
    with pytest.raises(InvalidInput, match="whole number"):
        Domain.integers(0, float("nan"))
    with pytest.raises(InvalidInput, match=r"upper bound .* is too large"):
        Domain.integers(0, 99999999999999999999)
    with pytest.raises(InvalidInput, match=r"lower bound .* is too large"):
        Domain.integers(-(2**53) - 2, 0)


@given(
    st.integers(-(10**9), 10**9).map(lambda n: n / 1000),
    st.floats(1e-3, 1e6),
    st.integers(2, 5000),
    st.lists(st.floats(0, 1), min_size=1),
)
def test_cell_is_the_nearest_grid_point(lower, width, cells, places):
    domain = Domain(lower, lower + width, cells)
    labels = np.clip(lower + np.asarray(places) * width, domain.lower, domain.upper)
    distance = np.abs(domain.grid[domain.cell(labels)] - labels)
    assert (distance <= domain.step / 2 * (1 + 1e-6) + 1e-9 * abs(lower)).all()


@pytest.mark.parametrize("made", [list, np.array, pl.Series, pa.array, lambda given: pd.Series(given, dtype="boolean")])
def test_booleans_are_zeros_and_ones(made):
    assert Domain(0, 1).check(made([True, False, True])).tolist() == [1, 0, 1]


def test_out_of_range_labels_are_clipped_or_refused():
    domain = Domain(0, 10)
    with pytest.warns(ClippingWarning):
        assert domain.check([5, 20]).tolist() == [5, 10]
    assert domain.check([-1, 5, 20], "clip-all").tolist() == [0, 5, 10]
    with pytest.raises(InvalidInput, match="index 0, index 2 are outside"):
        domain.check([-1, 5, 20], out_of_range="error")
    with pytest.raises(InvalidInput, match="out_of_range"):
        domain.check([-1], out_of_range="ignore")


def test_up_to_5_percent_are_clipped_in_silence_up_to_20_with_a_warning_and_more_only_on_request():
    domain = Domain(0, 10)
    labels = np.full(100, 5.0)
    labels[:5] = 11
    assert domain.check(labels).max() == 10
    labels[5] = -1
    with pytest.warns(ClippingWarning, match=r"6\.0% of the labels .* This share is about the true labels: keep it"):
        assert domain.check(labels).min() == 0
    assert domain.check(labels, "clip-all").tolist() == np.clip(labels, 0, 10).tolist()
    labels[:20] = 11
    with pytest.warns(ClippingWarning, match=r"20\.0% of the labels"):
        domain.check(labels)
    for outside in (21, 100):
        labels[:outside] = 11
        with pytest.raises(InvalidInput, match="more than 20% of the labels lie outside the bounds 0 to 10") as refused:
            domain.check(labels)
        assert 'out_of_range="clip-all"' in str(refused.value)
        assert f"{outside}" not in str(refused.value)
        assert domain.check(labels, "clip-all").tolist() == [10] * outside + [5] * (100 - outside)
    assert domain.check([]).size == 0


def test_one_label_alone_is_never_refused():
    """Whoever sees that a program failed on one record would learn something about its label."""
    with pytest.warns(ClippingWarning, match=r"100\.0%"):
        assert Domain(0, 10).check([11]).tolist() == [10]
    with pytest.warns(ClippingWarning):
        assert RROnBins([2, 8], epsilon=1, domain=(0, 10)).randomize([11.0]).size == 1


@pytest.mark.parametrize(
    "use",
    [
        LabelRandomizer(1, (0, 10)).randomize,
        LabelRandomizer(1, (0, 10)).fit,
        RROnBins([2, 8], epsilon=1, domain=(0, 10)).randomize,
        lambda labels: Laplace((0, 10), 1).randomize(labels),
        lambda labels: private_prior(labels, (0, 10), 1),
        lambda labels: LabelDPRegressor(domain=(0, 10)).fit(labels[:, None], labels),
        lambda labels: LabelDPRegressor(Ridge(), domain=(0, 10)).fit(labels[:, None], labels),
        lambda labels: SumQueries(labels, 1, (0, 10)),
    ],
    ids=["randomize", "fit", "mechanism", "float mechanism", "prior", "regressor", "regressor by labels", "sums"],
)
def test_every_way_in_judges_the_share_outside(use):
    labels = np.linspace(0, 10, 2000)
    use(labels)
    labels[:200] = 99
    with pytest.warns(ClippingWarning, match=r"10\.0%"):
        use(labels)
    labels[:500] = 99
    with pytest.raises(InvalidInput, match="more than 20% of the labels"):
        use(labels)


def test_default_cells_grow_with_the_data_and_epsilon_within_limits():
    domain = Domain(0, 1)
    sizes = [domain.resolve(n, 1.0).cells for n in (1, 10_000, 50_000, 10**9)]
    assert sizes == [2, 100, 500, 1001]
    assert domain.resolve(10_000, 0.5).cells < domain.resolve(10_000, 1.0).cells
    assert Domain(0, 1, 7).resolve(10**9, 1.0).cells == 7


def test_whole_labels_have_a_cell_each():
    assert Domain.integers(0, 52).whole
    assert not Domain(0, 52, 53).whole
    assert Domain(*Domain.integers(-3, 52).to_json()).whole
    assert not Domain(*Domain(0, 52).to_json()).whole
    for lower, upper, cells in ((0, 52, 52), (0.5, 51.5, 52), (0, 52, None)):
        with pytest.raises(InvalidInput, match=r"Domain\.integers"):
            Domain(lower, upper, cells, whole=True)


def test_whole_bounds_take_whole_labels_only():
    whole = Domain.integers(0, 48)
    assert whole.check([3.0, 7, 48]).tolist() == [3, 7, 48]
    with pytest.raises(InvalidInput, match=r"index 1 is not\. Is the label column .* Domain\(0, 48\)"):
        whole.check([3.0, 2.45])
    assert Domain(0, 48, 49).check([2.45]).tolist() == [2.45]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 4])
def test_default_cells_are_never_two_where_more_are_affordable(epsilon):
    for worth in (8, 20, 36, 60, 290, 310, 899, 901, 3000, 50_000, 10**6):
        records = worth / epsilon**2
        cells = Domain(0, 400).resolve(records, epsilon).cells
        assert cells == int(min(1001, max(min(9, worth / 4), worth / 100)) + 1e-9)
        assert cells / records <= epsilon**2 / 4 + 1e-12  # so that a prior costs at most half of epsilon


def test_rounding_to_default_cells_keeps_the_mean_of_few_labels():
    prices = 4.7e5 * np.exp(0.5 * ndtri((np.arange(1000) + 0.5) / 1000))
    grid = Domain(0, 2_000_000).resolve(1000, 0.5)
    assert abs(grid.grid[grid.cell(prices)].mean() - prices.mean()) < 0.05 * prices.std()
