"""Statistics of the records are right, and expected where they are found."""

from __future__ import annotations

import numpy as np
import pytest
from private_populations import MECHANISMS, PRIOR, VALUES, population, randomized

from labeldp.evaluate.constraints import LabelPieces, WeightNodes, gather_evidence, separating_scores

WEIGHTS = np.random.default_rng(0).normal(size=500)


def node_shares(nodes):
    """The share of each record at each node, a row a record."""
    shares = np.zeros((nodes.left.size, nodes.values.size))
    rows = np.arange(nodes.left.size)
    shares[rows, nodes.left] = 1 - nodes.share
    shares[rows, nodes.left + 1] += nodes.share
    return shares


def test_a_record_is_split_between_two_nodes_so_that_its_weight_is_kept():
    nodes = WeightNodes.of(WEIGHTS)
    shares = node_shares(nodes)
    assert shares.min() >= 0
    assert shares.sum(axis=1) == pytest.approx(1)
    assert shares @ nodes.values == pytest.approx(WEIGHTS)
    assert nodes.scaled(nodes.values[[0, -1]]).tolist() == [-1, 1]


def test_the_statistics_of_the_shares_are_their_means_and_variances():
    nodes = WeightNodes.of(WEIGHTS)
    mean, variance, span = nodes.share_statistics()
    assert mean == pytest.approx(node_shares(nodes).mean(axis=0))
    assert variance == pytest.approx(node_shares(nodes).var(axis=0))
    assert (span == 1).all()


@pytest.mark.parametrize("kind", MECHANISMS)
def test_with_many_records_each_statistic_is_what_its_pairs_of_node_and_piece_expect(kind):
    labels, weights = population(np.random.default_rng(0), 200_000)
    private = randomized(MECHANISMS[kind], labels)
    pieces, nodes = LabelPieces.of(private.mechanism), WeightNodes.of(weights)
    evidence = gather_evidence(private, weights, nodes, pieces)
    piece = np.searchsorted(pieces.high, labels)
    joint = np.stack([np.bincount(piece, share, pieces.low.size) for share in node_shares(nodes).T]) / labels.size
    error = np.abs(evidence.expected @ joint.ravel() - evidence.mean)
    assert (error <= 5 * np.sqrt(evidence.variance / labels.size) + 1e-12).all()
    assert (4 * evidence.variance <= evidence.span**2).all()


def test_equal_weights_leave_only_the_scores():
    private = randomized(MECHANISMS["unbiased"], VALUES.repeat(100))
    pieces, weights = LabelPieces.of(private.mechanism), np.ones(len(private))
    evidence = gather_evidence(private, weights, WeightNodes.of(weights), pieces)
    scores = separating_scores(private.mechanism, pieces, len(private))
    np.testing.assert_allclose(evidence.expected, (pieces.probabilities @ scores).T)
    assert evidence.mean == pytest.approx(scores[private.codes].mean(axis=0))
    assert evidence.variance == pytest.approx(scores[private.codes].var(axis=0))


def test_more_records_resolve_more_scores_and_all_separate_some_labels():
    mechanism = MECHANISMS["unbiased"]
    pieces = LabelPieces.of(mechanism)
    few, many = (separating_scores(mechanism, pieces, records) for records in (30, 10**6))
    assert few.shape[1] < many.shape[1] <= 12
    np.testing.assert_array_equal(many[:, : few.shape[1]], few)
    assert (np.ptp(mechanism.matrix(PRIOR.values) @ few, axis=0) > 2 / np.sqrt(30)).all()
