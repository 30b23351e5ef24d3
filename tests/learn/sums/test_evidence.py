"""Counts of records in pairs of cells, questions and answers, against one-hot matrices."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_evidence import drawn_evidence

from labeldp import Domain
from labeldp.learn.sums.inference import Evidence
from labeldp.release import grid_labels
from labeldp.release.sum_queries import SumQueries


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_products_of_one_hot_matrices(seed):
    drawn = drawn_evidence(seed)
    np.testing.assert_array_equal(drawn.evidence.gram, drawn.one_hot.T @ drawn.one_hot)


@pytest.mark.parametrize("seed", range(5))
def test_partitions_may_be_added_at_once_or_one_by_one(seed):
    first = drawn_evidence(seed).evidence
    second = Evidence(first.records, first.offset)
    second.add(first.blocks, first.codes)
    np.testing.assert_array_equal(first.gram, second.gram)
    np.testing.assert_array_equal(first.roots(), second.roots())


def test_roots_stand_in_the_rows_of_their_own_block():
    evidence = drawn_evidence(0).evidence
    owners = evidence.owners()
    for number, block in enumerate(evidence.blocks):
        rows = evidence.roots()[evidence.place(number)]
        np.testing.assert_array_equal(rows[:, owners == number], block.roots)
        assert not rows[:, owners != number].any()


def test_a_question_is_about_the_block_of_its_cells():
    evidence = drawn_evidence(0).evidence
    for number in range(len(evidence.blocks)):
        assert {evidence.block_of(question) for question in evidence.cells_of(number).T} == {number}


def test_answers_are_the_sums_of_labels_less_the_offset(monkeypatch):
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: values)
    monkeypatch.setattr(grid_labels, "cube_noise", lambda count, scale: np.zeros(count, np.int64))
    drawn = drawn_evidence(3, asked=False)
    evidence = drawn.evidence
    labels = np.random.default_rng(3).integers(-4, 9, evidence.records)
    queries = SumQueries(labels, 2, Domain.integers(-5, 10))
    queries.clip(3, 12)
    codes = evidence.codes[1]
    over_cells = queries.over_cells(codes, 5, 1)
    evidence.learn(evidence.cells_of(1), over_cells)
    signs = np.zeros((len(evidence.gram), 2))
    signs[evidence.place(2)] = [[1, 1], [-1, 1], [1, -1], [-1, -1]]
    against = queries.against_signs(drawn.asked(signs).astype(np.int8), 1)
    evidence.learn(signs, against)
    exact = drawn.asked(evidence.questions).T @ (np.clip(labels, -2, 7) - evidence.offset)
    np.testing.assert_allclose(evidence.answers, exact, atol=1e-9)
    noise = [over_cells.sums_variance] * 5 + [against.sums_variance] * 2
    np.testing.assert_allclose(evidence.noise, noise)
