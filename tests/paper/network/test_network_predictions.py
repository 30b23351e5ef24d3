"""A network's predictions as a function of a row alone: not of the rows beside it, not of a processor's order of sums."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from labeldp.paper.network.weights import ROWS_AT_ONCE, Weights

COLUMNS, CATEGORIES, NUMBERS, SIZE = 5, 40, 9, 8


def network(loss="squared", seed=0, hidden=(128, 64)):
    rng = np.random.default_rng(seed)
    shapes = list(pairwise((COLUMNS * SIZE + NUMBERS, *hidden, 1)))
    return Weights(
        loss,
        rng.uniform(-1, 1, (COLUMNS * CATEGORIES, SIZE)).astype(np.float32),
        (np.arange(COLUMNS) * CATEGORIES).astype(np.int32),
        tuple((rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for shape in shapes),
        tuple(rng.normal(0, 0.1, width).astype(np.float32) for _, width in shapes),
        *((150.0, 60.0) if loss == "squared" else ()),
    )


def records(rows, seed=1):
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, CATEGORIES, (rows, COLUMNS)).astype(np.int32),
        rng.normal(size=(rows, NUMBERS)).astype(np.float32),
    )


def in_doubles(weights, codes, numeric):
    """The last layer's value by the plain formula, nothing rounded but by double precision."""
    values = np.hstack([weights.embeddings[codes + weights.offsets].reshape(len(codes), -1), numeric]).astype(float)
    for layer, (kernel, bias) in enumerate(zip(weights.kernels, weights.biases, strict=True)):
        values = (np.maximum(values, 0) if layer else values) @ kernel.astype(float) + bias
    return values[:, 0]


@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("hidden", [(128, 64), (7,), ()])
def test_a_row_is_predicted_alike_alone_and_in_any_batch(loss, hidden):
    weights = network(loss, hidden=hidden)
    codes, numeric = records(ROWS_AT_ONCE + 77)
    together = weights.predict(codes, numeric)
    for size in (1, 2, 3, 5, 16, 50):
        pieces = [weights.predict(codes[i : i + size], numeric[i : i + size]) for i in range(0, 100, size)]
        np.testing.assert_array_equal(np.concatenate(pieces)[:100], together[:100])
    order = np.random.default_rng(2).permutation(len(codes))
    np.testing.assert_array_equal(weights.predict(codes[order], numeric[order]), together[order])


@pytest.mark.parametrize("inputs", [2, 49, 256, 257, 1000])
def test_the_order_in_which_a_processor_adds_does_not_matter(inputs):
    # Another order of the inputs stands for another processor; sums of rounded numbers would differ.
    rng = np.random.default_rng(inputs)
    kernel = rng.normal(size=(inputs, 3)).astype(np.float32)
    last = np.ones((3, 1), np.float32)
    none = np.empty((0, SIZE), np.float32)
    weights = Weights("squared", none, np.empty(0, np.int32), (kernel, last), (np.zeros(3, np.float32),) * 2)
    codes, numeric = np.empty((200, 0), np.int32), rng.normal(size=(200, inputs)).astype(np.float32)
    expected = weights.predict(codes, numeric)
    for _ in range(10):
        order = rng.permutation(inputs)
        shuffled = replace(weights, kernels=(kernel[order], last))
        np.testing.assert_array_equal(shuffled.predict(codes, numeric[:, order]), expected)


def test_predictions_are_as_precise_as_in_single_precision():
    codes, numeric = records(1000)
    numeric[::10] *= 10
    exact = in_doubles(network(), codes, numeric)
    squared, poisson = (network(loss).predict(codes, numeric) for loss in ("squared", "poisson"))
    np.testing.assert_allclose((squared - 150) / 60, exact, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.log(poisson), exact, rtol=0, atol=1e-5)


def test_no_rows_give_no_predictions():
    assert network().predict(*records(0)).shape == (0,)
