"""Small evidence drawn at random, with the same things as plain matrices: one-hot cells, covariances, weights of the records."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from labeldp.learn.sums.inference import Block, Evidence, kernel, roots

VARIANCE = 9.0
"""Of a label."""


@dataclass
class Drawn:
    evidence: Evidence
    one_hot: np.ndarray
    variances: np.ndarray
    rest: float

    @property
    def prior(self):
        """The covariance of the effects of all cells."""
        whole = np.zeros((len(self.evidence.gram),) * 2)
        for number, block in enumerate(self.evidence.blocks):
            place = self.evidence.place(number)
            whole[place, place] = self.variances[number] * (block.roots @ block.roots.T)
        return whole

    @property
    def label_covariance(self):
        """Of the labels of all records."""
        return self.one_hot @ self.prior @ self.one_hot.T + self.rest * np.eye(len(self.one_hot))

    def asked(self, questions):
        """The number of each record in each sum."""
        return self.one_hot @ questions


def drawn_evidence(seed, *, records=60, asked=True):
    generator = np.random.default_rng(seed)
    evidence = Evidence(records, 1.5)
    sizes = [("mean", 1, False), ("column", 5, True), ("column", 4, False), ("column", 1, True), ("pair", 6, False)]
    codes = [generator.integers(0, cells, records).astype(np.uint16) for _, cells, _ in sizes]
    blocks = []
    for (kind, cells, ordered), code in zip(sizes, codes, strict=True):
        weights = np.bincount(code, minlength=cells) / records
        root = np.ones((1, 1)) if kind == "mean" else roots(kernel(weights, ordered=ordered))
        blocks.append(Block(f"{kind} of {cells}", kind, root, ordered))
    evidence.add(blocks[:4], codes[:4])
    drawn = Drawn(evidence, np.zeros((0, 0)), generator.uniform(0.2, 4, len(blocks)), 5.0)
    drawn.variances[0] = VARIANCE
    if asked:
        answer(evidence, evidence.cells_of(1), generator, 30.0)
    evidence.add(blocks[4:], codes[4:])
    if asked:
        signs = np.zeros((len(evidence.gram), 3))
        signs[evidence.place(2)] = generator.choice([-1, 1], (4, 3))
        answer(evidence, signs, generator, 11.0)
    drawn.one_hot = np.hstack([np.eye(block.cells)[code] for block, code in zip(blocks, codes, strict=True)])
    return drawn


def answer(evidence, questions, generator, noise):
    """Teach the evidence numbers of about the size that answers have."""
    sums = generator.normal(0, 40, questions.shape[1])
    counts = generator.integers(0, 9, questions.shape[1])
    evidence.learn(questions, SimpleNamespace(sums=sums, totals=counts, sums_variance=noise))
