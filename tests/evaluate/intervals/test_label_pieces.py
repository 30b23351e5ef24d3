"""Pieces cover the bounds, and each has the output probabilities of its labels."""

from __future__ import annotations

import numpy as np
import pytest
from private_populations import DOMAIN, GRID, PRIOR

from labeldp import Domain, Prior
from labeldp.evaluate.constraints import LabelPieces
from labeldp.mechanisms import RROnBins, Unbiased

SKEWED = Prior(GRID.grid, np.exp(-GRID.grid / 30))
FINE = Domain.integers(0, 5000)


@pytest.mark.parametrize(
    "mechanism",
    [Unbiased.optimal(SKEWED, 3, domain=GRID), RROnBins.optimal(SKEWED, 3, domain=GRID), RROnBins.optimal(SKEWED, 3)],
    ids=["grid", "bins", "bins without a domain"],
)
def test_every_label_within_the_bounds_lies_in_a_piece_with_its_probabilities(mechanism):
    pieces = LabelPieces.of(mechanism)
    assert (pieces.low[0], pieces.high[-1]) == (0, 100)
    np.testing.assert_array_equal(pieces.low[1:], pieces.high[:-1])
    labels = np.random.default_rng(0).uniform(0, 100, 1000)
    piece = np.searchsorted(pieces.high, labels)
    np.testing.assert_array_equal(pieces.probabilities[piece], mechanism.matrix(labels))
    assert pieces.widest_gap == 0


def test_whole_labels_are_pieces_without_width():
    pieces = LabelPieces.of(Unbiased.optimal(PRIOR, 2, domain=DOMAIN))
    np.testing.assert_array_equal(pieces.low, DOMAIN.grid)
    np.testing.assert_array_equal(pieces.high, DOMAIN.grid)


def test_a_label_between_two_kept_pieces_has_a_mixture_of_their_probabilities():
    mechanism = Unbiased.optimal(Prior(np.array([0.0, 500, 5000]), [6, 3, 1]), 2, domain=FINE)
    pieces = LabelPieces.of(mechanism)
    assert 500 <= pieces.low.size < 600
    assert pieces.widest_gap == np.diff(pieces.low).max() < 20
    mixed = [np.interp(FINE.grid, pieces.low, column) for column in pieces.probabilities.T]
    np.testing.assert_allclose(np.transpose(mixed), mechanism.matrix(FINE.grid), atol=1e-9)
