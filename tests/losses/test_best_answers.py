"""The best answer to equally likely outcomes, against a search on a fine grid; and stretched labels."""

import numpy as np
import pytest

from labeldp.losses import Custom, get_loss, loss_examples

OUTCOMES = np.sort(np.random.default_rng(0).lognormal(3, 1, size=(6, 101)), axis=1)
LOSSES = [*loss_examples(), "pinball(0.1)", "pinball(0.9)", "huber(5)"]


def steep(output, label):
    return np.where(output > label, 3.0, 1.0) * np.sqrt(np.abs(output - label))


@pytest.mark.parametrize("loss", [*map(get_loss, LOSSES), Custom(steep)], ids=str)
def test_no_other_answer_loses_less(loss):
    answers = loss.best_answers(OUTCOMES)
    assert answers.shape == (6,)
    reached = loss(answers[:, None], OUTCOMES).mean(axis=1)
    for row, lost in zip(OUTCOMES, reached, strict=True):
        grid = np.linspace(row[0], row[-1], 5001)
        least = loss(grid[:, None], row[None, :]).mean(axis=1).min()
        assert lost <= least * (
            1.02 if isinstance(loss, Custom) else 1.002
        )  # a loss with many minima is searched roughly


@pytest.mark.parametrize("loss", loss_examples())
def test_stretched_labels_increase(loss):
    labels = np.linspace(0.5, 400, 300)
    stretched = get_loss(loss).stretched(labels, 60.0)
    assert stretched is None or (np.diff(stretched) > 0).all()


def test_gamma_and_poisson_stretch_alike_in_every_unit():
    labels = np.linspace(1.0, 400, 50)
    for loss in ("gamma", "poisson"):
        metres, millimetres = (get_loss(loss).stretched(unit * labels, unit * 60.0) for unit in (1, 1000))
        steps = np.diff(millimetres) / np.diff(metres)
        np.testing.assert_allclose(steps, steps[0], rtol=1e-9)


@pytest.mark.parametrize("loss", ["absolute", "pinball(0.9)", "huber(5)"])
def test_quantiles_are_designed_on_normal_scores(loss):
    assert get_loss(loss).stretched(np.arange(3.0), 1.0) is None
