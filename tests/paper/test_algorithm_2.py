"""The paper's Algorithm 2, checked by hand and by trying everything."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from labeldp.errors import InvalidInput
from labeldp.losses import get_loss
from labeldp.paper.optimality import algorithm_2, minimiser


def test_two_labels_by_hand():
    """Labels 0 and 1 with equal masses and e^ε = 3: outputs 1/4 and 3/4, expected loss 3/16; one output costs 1/4."""
    found = algorithm_2([Fraction(0), Fraction(1)], [Fraction(1, 2)] * 2, Fraction(3), minimiser(get_loss("squared")))
    assert found.outputs == (Fraction(1, 4), Fraction(3, 4))
    assert found.starts == (0, 1)
    assert found.expected_loss == Fraction(3, 16)


@pytest.mark.parametrize("loss", ["squared", "absolute", "pinball(0.25)"])
@pytest.mark.parametrize("e", [Fraction(3, 2), Fraction(5), Fraction(50)])
def test_it_finds_the_best_of_all_partitions(loss, e):
    values = [Fraction(v) for v in (0, 1, 4, 5, 9, 11)]
    masses = [Fraction(m, 20) for m in (3, 5, 1, 4, 2, 5)]
    minimise = minimiser(get_loss(loss))
    ratios = []
    for inner in itertools.chain.from_iterable(itertools.combinations(range(1, 6), size) for size in range(6)):
        starts = [0, *inner, 6]
        cost = sum(
            minimise(values, [e * m if a <= j < b else m for j, m in enumerate(masses)])[1]
            for a, b in itertools.pairwise(starts)
        )
        ratios.append(cost / (len(starts) - 2 + e))
    assert algorithm_2(values, masses, e, minimise).expected_loss == min(ratios)


def test_deviances_come_in_floats_and_the_rest_need_a_minimiser_of_their_own():
    found = algorithm_2([1.0, 2.0], [0.5, 0.5], 3.0, minimiser(get_loss("gamma")))
    assert found.outputs == (1.25, 1.75)
    with pytest.raises(InvalidInput, match="lacks a minimiser for huber"):
        minimiser(get_loss("huber(1)"))
