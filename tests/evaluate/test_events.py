"""Outputs are sorted into events, each into one, and the events are named in words."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp.evaluate.measurement import INTERVALS, MOST_VALUES, Events

OUTPUTS = np.random.default_rng(0).normal(size=20_000)


def test_each_value_is_an_event_and_all_others_are_one_more():
    events = Events.of_values([5, 1, 3, 1])
    assert events.numbers(np.array([1.0, 5.0, 3.0, 2.0, 9.0])).tolist() == [0, 2, 1, 3, 3]
    assert events.describe(np.array([2, 3])) == "5, any other value"


def test_few_values_in_a_pilot_stay_values_and_many_become_intervals_of_equal_mass():
    few = Events.from_pilot(np.arange(MOST_VALUES, dtype=float))
    assert not few.intervals
    many = Events.from_pilot(OUTPUTS)
    counts = np.bincount(many.numbers(OUTPUTS))
    assert counts.size == INTERVALS
    assert counts == pytest.approx(OUTPUTS.size / INTERVALS, abs=2)


def test_intervals_are_named_by_their_ends():
    events = Events(np.array([0.0, 1.5]), intervals=True)
    assert events.describe(np.arange(3)) == "(-inf, 0], (0, 1.5], (1.5, inf)"
    assert events.numbers(np.array([0.0, 0.1, 1.5, 1.6])).tolist() == [0, 1, 1, 2]


def test_more_than_six_events_are_not_all_named():
    assert Events.of_values(np.arange(9)).describe(np.arange(7)) == "0, 1, 2, 3, 4, 5, …"


def test_counts_are_taken_over_all_chunks():
    drawn = []

    def alternate(labels):
        drawn.append(labels.size)
        return labels + np.arange(labels.size) % 2

    counts = Events.of_values([7, 8]).count(alternate, 7.0, 600_000)
    assert counts.tolist() == [300_000, 300_000, 0]
    assert len(drawn) > 1
