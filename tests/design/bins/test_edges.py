"""Small, empty, extreme and wrong inputs."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from optimum_oracles import LOSSES

from labeldp.design.bins import Bins, optimal_bins
from labeldp.errors import InvalidInput
from labeldp.priors import Prior


@pytest.mark.parametrize("loss", LOSSES)
def test_one_label_is_its_own_output(loss):
    bins = optimal_bins(Prior([3.7], [1]), 1, loss)
    assert (bins.outputs.tolist(), bins.thresholds.tolist(), bins.expected_loss) == ([3.7], [], 0.0)


def test_a_poisson_prior_on_zero_alone_is_answered_with_zero():
    assert optimal_bins(Prior([0.0], [1]), 1, "poisson").expected_loss == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_a_tiny_budget_leaves_few_outputs_and_a_huge_one_gives_every_label_its_own(loss):
    prior = Prior([1.0, 2.0, 4.0, 8.0], [1, 1, 1, 1])
    assert len(optimal_bins(prior, 1e-6, loss)) <= 2
    np.testing.assert_allclose(optimal_bins(prior, 40, loss).outputs, prior.values, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0, -1, 40.001, float("nan"), "much"])
def test_a_budget_outside_its_range_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="epsilon"):
        optimal_bins(Prior([0, 1], [1, 1]), epsilon)


def test_what_is_not_a_prior_is_refused():
    with pytest.raises(InvalidInput, match="prior must be a Prior"):
        optimal_bins(SimpleNamespace(values=np.array([0.0, 1.0]), masses=np.array([1.0, 1.0])), 1)


@pytest.mark.parametrize(("loss", "label"), [("poisson", -1.0), ("gamma", 0.0), ("squared-log", -1.0)])
def test_labels_that_a_loss_does_not_know_are_refused(loss, label):
    with pytest.raises(InvalidInput, match=f"under {loss} loss, must lie in"):
        optimal_bins(Prior([label, 1.0], [1, 1]), 1, loss)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_many_outputs_are_priced_without_a_table_of_labels_by_outputs(loss):
    """At ε = 40 each of 20,000 labels keeps its own output; their loss is known in closed form."""
    k = 20_000
    bins = optimal_bins(Prior(np.arange(float(k)), np.ones(k)), 40, loss)
    assert len(bins) == k
    spread = (k * k - 1) / 6 if loss == "squared" else (k * k - 1) / (3 * k)  # E of (i − j)² and of |i − j|
    assert bins.expected_loss == pytest.approx(k * spread / (np.exp(40) + k - 1), rel=1e-9)


def test_importing_the_room_does_not_import_numba():
    program = "import sys, labeldp.design.bins; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_epsilon_is_stored_as_it_was_given():
    bins = optimal_bins(Prior([0, 1], [1, 1]), "0.1")
    assert isinstance(bins, Bins)
    assert bins.epsilon == 0.1
