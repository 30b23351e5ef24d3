"""Which sums to ask for: signs for the cells of a block, whole partitions, and the choice by expected gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve

from labeldp.arrays import Floats
from labeldp.learn.sums.inference import Evidence, Posterior
from labeldp.linear_algebra import cholesky

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of signed sums to choose from."""
PLANS = (
    *((0, 1.0), (1, 0.7), (2, 0.6), (3, 0.5), (1, 0.5), (2, 0.35)),
    *((4, 0.4), (3, 0.25), (2, 0.0), (3, 0.0), (4, 0.0), (6, 0.0)),
)
"""Ways to divide a stage's ε: the number of partitions, in equal parts, and the share for signed sums."""
FEWEST_CELLS = 6
"""Partitions of fewer cells than this are better asked with signs. In squares of R/ε, m partitions leave noise of 2·m² in each cell. As
many columns of c cells need p = m·c signed sums of noise p²/3 each, and each cell is a mean of c of them: m²·c/3."""
MOST_PARTITIONS = 8
"""The number of partitions, by largest variance, that are considered."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What to ask in one stage.

    Attributes
    ----------
    partitions : tuple of int
        Blocks to ask for the sums over all of their cells.
    signs : array of float
        A column of numbers for the cells of all blocks, ±1 in one of them, for each signed sum.
    share : float
        The share of the stage's ε for signed sums; the partitions divide the rest equally.
    gain : float
        By how much the mean squared error is expected to fall.
    """

    partitions: tuple[int, ...]
    signs: Floats
    share: float
    gain: float


def sign_questions(weights: Floats, *, ordered: bool) -> Floats:
    """Return rows of ±1 for the cells of a block, given their shares of the records.

    Ordered cells are asked for thresholds, bands and waves; categories one by one and in random halves, always the same ones.
    """
    cells = len(weights)
    if cells == 1:
        return np.ones((1, 1))
    numbers = np.arange(cells)
    if ordered:
        ends = np.cumsum(weights)
        middles = ends - weights / 2
        sides = [numbers <= t for t in range(cells - 1) if 0.02 < ends[t] < 0.98]
        sides += [(middles > low) & (middles <= low + 0.5) for low in (0.125, 0.25, 0.375)]
        sides += [np.floor(middles * parts) % 2 == 0 for parts, least in ((4, 6), (8, 10)) if cells > least]
    else:
        sides = [numbers == t for t in np.argsort(-weights, kind="stable")[:8]]
        generator = np.random.default_rng(cells)
        for _ in range(min(2 * cells, 40) if cells > 3 else 0):
            halves = generator.random((4, cells)) < 0.5
            sides.append(halves[np.argmin(np.abs(halves @ weights - 0.5))])
    sides.append(numbers == 0)
    signs = np.where(np.array(sides), 1.0, -1.0)
    signs = signs * signs[:, :1]
    return np.unique(signs[np.ptp(signs, axis=1) > 0], axis=0)


def plan(
    evidence: Evidence, belief: Posterior, candidates: Floats, scale: float, plans: Sequence[tuple[int, float]] = PLANS
) -> Plan:
    """Return the way to spend one stage's ε that is expected to lower the error most.

    Parameters
    ----------
    evidence, belief : Evidence, Posterior
        The answers so far, and the posterior.
    candidates : array of float
        Signed sums to choose from, a column of numbers for all cells each.
    scale : float
        The scale of noise, in the unit of labels, if all of the stage's ε went into one sum.
    plans : sequence of (int, float)
        How many partitions, and the share of signed sums.
    """
    wide = [b for b, block in enumerate(evidence.blocks) if block.kind != "mean" and block.cells >= FEWEST_CELLS]
    wide = sorted(wide, key=lambda b: -belief.variances[b])[:MOST_PARTITIONS]
    if not any(number for number, _ in plans):
        wide = []
    signed = candidates.shape[1]
    questions = np.hstack([candidates, *(evidence.cells_of(b) for b in wide)])
    places, end = {}, signed
    for b in wide:
        places[b] = np.arange(end, end := end + evidence.blocks[b].cells)
    outlook = _Outlook.of(evidence, belief, questions)
    best = Plan((), candidates[:, :0], 1.0, -1.0)
    for number, share in plans:
        if number > len(wide):
            continue
        view, total, chosen = outlook, 0.0, []
        noise = 2 * (scale * number / (1 - share)) ** 2 if number else 0.0
        for _ in range(number):
            left = [b for b in wide if b not in chosen]
            pick = max(left, key=lambda b: view.gain_of(places[b], noise))
            total += view.gain_of(places[pick], noise)
            view = view.after(places[pick], noise)
            chosen.append(pick)
        found, gain = view.greedy(signed, scale / share) if share else ([], 0.0)
        if total + gain > best.gain:
            best = Plan(tuple(chosen), candidates[:, found], share, total + gain)
    return best


def cube_noise_variance(sums: int, scale: float) -> float:
    """Return the noise variance of each of `sums` signed sums, on a grid so fine that its steps do not matter."""
    return (sums + 1) * (sums + 2) / 3 * scale**2


@dataclass(frozen=True, eq=False)
class _Outlook:
    """What the answers to questions would be and explain.

    What features leave of a label is assumed to be drawn again for these questions, as if earlier sums had been about other records.
    Counting it as known in part is exact, and was not better: it chose slightly worse questions on generated data.

    Attributes
    ----------
    answers : array of float
        The covariance of the answers, without noise.
    explained : array of float
        Products of the questions' covariances with the mean label of each record, averaged over the records: question j alone, with
        noise of variance v, would lower the mean squared error by explained[j, j] / (answers[j, j] + v).
    """

    answers: Floats
    explained: Floats

    @classmethod
    def of(cls, evidence: Evidence, belief: Posterior, questions: Floats) -> _Outlook:
        scaled = evidence.roots() * belief.deviations
        images = scaled.T @ (evidence.gram @ questions)
        left = images - belief.narrowed.T @ (belief.narrowed @ images)
        answers = images.T @ left + belief.rest * (questions.T @ (evidence.gram @ questions))
        weigh = scaled.T @ (evidence.gram @ scaled) / evidence.records
        return cls(answers, left.T @ (weigh @ left))

    def gain_of(self, place: Floats, noise: float) -> float:
        """Return the gain of asking several questions, with noise of this variance each."""
        block = np.ix_(place, place)
        factor = cholesky(self.answers[block] + noise * np.eye(len(place)))
        return float(np.trace(cho_solve((factor, True), self.explained[block])))

    def after(self, place: Floats, noise: float) -> _Outlook:
        """Return the outlook once these questions are answered."""
        rows = self.answers[place]
        factor = cholesky(rows[:, place] + noise * np.eye(len(place)))
        solved = cho_solve((factor, True), rows)
        mixed = self.explained[:, place] @ solved
        explained = self.explained - mixed - mixed.T + solved.T @ self.explained[np.ix_(place, place)] @ solved
        return _Outlook(self.answers - rows.T @ solved, explained)

    def greedy(self, signed: int, scale: float) -> tuple[list[int], float]:
        """Choose among the first `signed` questions one by one, and how many of them; more sums have more noise each."""
        best: tuple[list[int], float] = ([], -1.0)
        for size in SIZES:
            if size > signed:
                break
            found = self._take(signed, size, cube_noise_variance(size, scale))
            if found[1] > best[1]:
                best = found
            elif found[1] < 0.97 * best[1]:
                break
        return best if best[0] else self._take(signed, signed, cube_noise_variance(signed, scale))

    def _take(self, signed: int, size: int, noise: float) -> tuple[list[int], float]:
        """Return the best questions one by one. Only the columns that are needed are brought up to date: O(size²·signed) time.

        A question may be taken twice: each answer has its own noise.
        """
        variances, gains = np.diag(self.answers)[:signed].copy(), np.diag(self.explained)[:signed].copy()
        answers, explained = np.empty((size, signed)), np.empty((size, signed))
        chosen: list[int] = []
        total = 0.0
        for step in range(size):
            pick = int(np.argmax(gains / (variances + noise)))
            a, t = self.answers[pick, :signed].copy(), self.explained[pick, :signed].copy()
            for s in range(step):  # subtract what the earlier picks explain of this one
                a -= answers[s] * answers[s, pick]
                t -= explained[s] * answers[s, pick] + answers[s] * explained[s, pick]
            scale = np.sqrt(a[pick] + noise)
            answers[step] = a / scale
            # explained[step] holds what is taken from `explained` for the product with one side of answers[step]
            own = t[pick] / scale**2
            explained[step] = t / scale - 0.5 * own * answers[step]
            total += own
            variances -= answers[step] ** 2
            gains -= 2 * answers[step] * explained[step]
            np.maximum(gains, 0, out=gains)
            chosen.append(pick)
        return chosen, total
