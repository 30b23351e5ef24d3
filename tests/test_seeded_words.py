"""What labeldp draws in a test follows from the seed, whatever other packages and threads ask for."""

from __future__ import annotations

import secrets
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from labeldp import Domain, LabelRandomizer
from seeded_words import seeded_draws


def draw():
    return (
        LabelRandomizer(1, Domain.integers(0, 9), mechanism="randomized-response")
        .randomize(range(10))
        .values()
        .tolist()
    )


def draw_in_a_thread():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(draw).result()


def first(*calls, seed=1):
    with seeded_draws(seed):
        return [call() for call in calls][-1]


@pytest.mark.parametrize("other", [uuid.uuid4, secrets.token_bytes, draw_in_a_thread])
def test_other_packages_and_threads_do_not_change_a_draw(other):
    assert first(other, draw) == first(draw)
    assert first(draw, other) == first(other)


def test_seeds_and_calls_differ():
    assert first(draw, draw) != first(draw) != first(draw, seed=2)
    assert first(uuid.uuid4, uuid.uuid4) != first(uuid.uuid4)
