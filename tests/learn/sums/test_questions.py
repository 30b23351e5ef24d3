"""What to ask: signs for blocks, and the choice by expected gain, against plain conditioning of Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_evidence import VARIANCE, drawn_evidence
from hypothesis import given
from hypothesis import strategies as st

from labeldp.learn.sums.inference import posterior_given, prior_belief
from labeldp.learn.sums.questions import PLANS, SIZES, _Outlook, cube_noise_variance, plan, sign_questions

SHARES = st.lists(st.integers(0, 50), min_size=1, max_size=70).filter(any)


@given(SHARES, st.booleans())
def test_signs_are_plus_or_minus_one_and_no_two_rows_say_the_same(counts, ordered):
    signs = sign_questions(np.array(counts) / sum(counts), ordered=ordered)
    assert signs.shape[1] == len(counts)
    assert len(signs) >= 1
    assert set(np.unique(signs)) <= {-1.0, 1.0}
    both = np.vstack([signs, -signs])
    assert len(np.unique(both, axis=0)) == len(both)


@given(SHARES, st.booleans())
def test_the_same_shares_give_the_same_signs(counts, ordered):
    weights = np.array(counts) / sum(counts)
    np.testing.assert_array_equal(
        sign_questions(weights, ordered=ordered), sign_questions(weights.copy(), ordered=ordered)
    )


def test_ordered_cells_are_asked_for_every_threshold_that_parts_enough_records():
    weights = np.full(8, 1 / 8)
    signs = {tuple(row) for row in sign_questions(weights, ordered=True)}
    for cut in range(1, 8):
        assert tuple(np.where(np.arange(8) < cut, 1.0, -1.0)) in signs


class Conditioning:
    """What questions tell about the mean labels of all records, by conditioning their joint covariance on answers, one at a time.

    `joint` is the covariance of (mean label of each record, each question's exact answer). Earlier answers were about the same mean
    labels, but what features leave of a label is drawn anew.
    """

    def __init__(self, drawn, questions):
        means = drawn.one_hot @ drawn.prior @ drawn.one_hot.T
        past, weights = drawn.asked(drawn.evidence.questions), drawn.asked(questions)
        self.records = len(means)
        if past.shape[1]:
            seen = past.T @ drawn.label_covariance @ past + np.diag(drawn.evidence.noise)
            means = means - means @ past @ np.linalg.solve(seen, past.T @ means)
        labels = means + drawn.rest * np.eye(self.records)
        self.joint = np.block([[means, means @ weights], [weights.T @ means, weights.T @ labels @ weights]])

    @property
    def error(self):
        return np.trace(self.joint[: self.records, : self.records]) / self.records

    def ask(self, place, noise):
        """Condition on noisy answers; by how much the mean squared error falls."""
        rows = self.records + np.asarray(place)
        crossed = self.joint[:, rows]
        was = self.error
        seen = crossed[rows] + noise * np.eye(len(rows))
        self.joint = self.joint - crossed @ np.linalg.solve(seen, crossed.T)
        return was - self.error

    def gain_of(self, place, noise):
        kept = self.joint
        gain = self.ask(place, noise)
        self.joint = kept
        return gain


def outlook_of(seed, *, asked):
    """Questions about two blocks, as the code sees them and as plain conditioning does."""
    drawn = drawn_evidence(seed, asked=asked)
    generator = np.random.default_rng(seed)
    questions = np.zeros((len(drawn.evidence.gram), 12))
    questions[drawn.evidence.place(1), :6] = generator.choice([-1.0, 1.0], (5, 6))
    questions[drawn.evidence.place(2), 6:9] = generator.choice([-1.0, 1.0], (4, 3))
    questions[drawn.evidence.place(4), 9:] = generator.choice([-1.0, 1.0], (6, 3))
    belief = posterior_given(drawn.evidence, drawn.variances, drawn.rest)
    return _Outlook.of(drawn.evidence, belief, questions), Conditioning(drawn, questions)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_gains_are_those_of_plain_conditioning(seed, asked):
    outlook, oracle = outlook_of(seed, asked=asked)
    for place, noise in (([3], 7.0), ([0, 1, 2], 20.0), ([5, 10, 11], 0.5)):
        assert outlook.gain_of(np.array(place), noise) == pytest.approx(oracle.gain_of(place, noise), rel=1e-6)
        outlook = outlook.after(np.array(place), noise)
        oracle.ask(place, noise)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_questions_are_taken_one_by_one_by_their_gain(seed, asked):
    outlook, oracle = outlook_of(seed, asked=asked)
    signed, noise = 9, 12.0
    chosen, total = outlook._take(signed, 5, noise)
    added = 0.0
    for pick in chosen:
        gains = [oracle.gain_of([place], noise) for place in range(signed)]
        assert gains[pick] == pytest.approx(max(gains), rel=1e-6)
        added += oracle.ask([pick], noise)
    assert total == pytest.approx(added, rel=1e-6)


@pytest.mark.parametrize("scale", [0.1, 3.0, 50.0])
def test_the_number_of_questions_is_one_of_most_gain(scale):
    outlook, _ = outlook_of(1, asked=True)
    chosen, gain = outlook.greedy(12, scale)
    gains = {size: outlook._take(12, size, cube_noise_variance(size, scale))[1] for size in SIZES if size <= 12}
    assert gain == pytest.approx(max(gains.values()))
    assert gains[len(chosen)] == gain


def test_fewer_questions_than_any_size_are_all_asked():
    outlook, _ = outlook_of(1, asked=False)
    chosen, gain = outlook.greedy(2, 1.0)
    assert len(chosen) == 2
    assert gain > 0


@pytest.mark.parametrize("scale", [0.5, 5.0, 100.0])
def test_a_plan_promises_what_conditioning_on_its_questions_gives(scale):
    drawn = drawn_evidence(2, asked=False)
    evidence = drawn.evidence
    belief = prior_belief(evidence, VARIANCE)
    drawn.variances, drawn.rest = belief.variances, belief.rest
    generator = np.random.default_rng(2)
    candidates = np.zeros((len(evidence.gram), 8))
    candidates[evidence.place(1)] = generator.choice([-1.0, 1.0], (5, 8))
    found = plan(evidence, belief, candidates, scale)
    assert (len(found.partitions), found.share) in PLANS
    oracle, gain = Conditioning(drawn, np.hstack([*map(evidence.cells_of, found.partitions), found.signs])), 0.0
    cells = sum(evidence.blocks[b].cells for b in found.partitions)
    if cells:
        gain += oracle.ask(np.arange(cells), 2 * (scale * len(found.partitions) / (1 - found.share)) ** 2)
    signs = found.signs.shape[1]
    if signs:
        gain += oracle.ask(cells + np.arange(signs), cube_noise_variance(signs, scale / found.share))
    assert found.gain == pytest.approx(gain, rel=1e-6)
