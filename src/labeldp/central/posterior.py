"""What noisy sums say about the effects of cells: a Gaussian model whose noise is known and whose variances are estimated.

The mean of a label is the sum of the effects of its record's cells. The effects of a block are Gaussian with covariance τ·K, where
K is the block's kernel. A noisy sum Σ ψ·y + noise is then Gaussian too, and so is everything that follows from it. Only the
variances τ must be found: they maximise the likelihood of the sums, times a prior that keeps those of one kind alike. Noise
of the sums is not Gaussian, but its variance is known exactly and different sums have uncorrelated noise, so for given τ the posterior
means are the best linear estimates all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from labeldp.arrays import Floats
from labeldp.central.evidence import Evidence
from labeldp.linear_algebra import cholesky

SPREAD = {"column": 1.5, "pair": 1.0}
"""The standard deviation of the logarithms of the variances of one kind."""
SHARE = {"column": 0.5, "pair": 0.05}
"""The share of the label's variance that all blocks of one kind are thought to explain, before anything is known."""
LEVEL = {"column": 2.0, "pair": 1.0}
"""The standard deviation of the logarithm of that share. Noise looks like pairs easily, so theirs is small."""
LEAST_REST = 0.2
"""Features are taken to leave at least this share of the label's variance unexplained."""
ROUNDS, STEPS = 3, 60
"""How often variances and what features leave are found in turn, and the most steps of each search."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of the effects.

    In coordinates w with f = roots·(deviations·w) and w standard normal beforehand, w has mean `mean` and covariance
    1 − narrowed'·narrowed.

    Attributes
    ----------
    variances : array of float
        τ of each block.
    rest : float
        The variance of a label that features leave.
    deviations : array of float
        √τ of each coordinate's block.
    mean : array of float
        The posterior mean of each coordinate.
    narrowed : array of float
        One row for each noisy sum.
    """

    variances: Floats
    rest: float
    deviations: Floats
    mean: Floats
    narrowed: Floats

    def effects(self, evidence: Evidence) -> Floats:
        """The posterior mean of the effect of each cell of all blocks."""
        return np.asarray(evidence.roots() @ (self.deviations * self.mean))

    def spread(self, evidence: Evidence) -> Floats:
        """A root of the posterior covariance of the effects of all cells."""
        left = np.eye(self.mean.size) * (1 + 1e-9) - self.narrowed.T @ self.narrowed
        return np.asarray((evidence.roots() * self.deviations) @ cholesky(left))


def before(evidence: Evidence, label_variance: float) -> Posterior:
    """What is thought of the effects before any sum: columns explain half of the label's variance, in equal parts, and pairs little."""
    kinds = np.array([block.kind for block in evidence.blocks])
    shares = {kind: share / max(1, int(np.sum(kinds == kind))) for kind, share in SHARE.items()} | {"mean": 1.0}
    variances = label_variance * np.array([shares[kind] for kind in kinds])
    return given(evidence, variances, 0.6 * label_variance)


def given(evidence: Evidence, variances: Floats, rest: float) -> Posterior:
    """The posterior for given variances of the blocks and of what features leave."""
    deviations = np.sqrt(variances[evidence.owners()])
    images = deviations[:, None] * (evidence.roots().T @ (evidence.gram @ evidence.questions))
    if not evidence.answers.size:
        return Posterior(variances, rest, deviations, np.zeros(deviations.size), images.T)
    covariance = images.T @ images + rest * (evidence.questions.T @ (evidence.gram @ evidence.questions))
    factor = cholesky(covariance + np.diag(evidence.noise))
    mean = images @ cho_solve((factor, True), evidence.answers)
    return Posterior(variances, rest, deviations, mean, solve_triangular(factor, images.T, lower=True))


def infer(evidence: Evidence, label_variance: float) -> Posterior:
    """The posterior with variances by maximum a posteriori. `label_variance` is that of a clipped label.

    Each round finds the variances of the blocks, then what the features leave. A step takes O(r·s²) time for r coordinates and s
    sums.
    """
    search = _Search(evidence, label_variance)
    logs, rest = search.start(), 0.75 * label_variance
    weigh = evidence.roots().T @ evidence.gram @ evidence.roots() / evidence.records
    for _ in range(ROUNDS):
        logs = search.run(logs, rest)
        found = given(evidence, search.variances(logs), rest)
        told = np.where(search.kinds[search.owners] == "mean", 0.0, found.deviations * found.mean)
        rest = max(LEAST_REST * label_variance, label_variance - float(told @ weigh @ told))
    return found


class _Search:
    """The search for the logarithms of the variances of all blocks but the mean, whose variance is that of a label."""

    def __init__(self, evidence: Evidence, label_variance: float) -> None:
        self.evidence, self.label_variance = evidence, label_variance
        self.kinds = np.array([block.kind for block in evidence.blocks])
        self.free = np.flatnonzero(self.kinds != "mean")
        self.owners = evidence.owners()
        self.groups = {kind: np.flatnonzero(self.kinds[self.free] == kind) for kind in SPREAD}
        images = evidence.gram @ evidence.questions
        self.images = evidence.roots().T @ images
        self.shared = evidence.questions.T @ images

    def variances(self, logs: Floats) -> Floats:
        whole = np.full(len(self.kinds), self.label_variance)
        whole[self.free] = np.exp(logs)
        return whole

    def start(self) -> Floats:
        return np.full(len(self.free), np.log(0.3 * self.label_variance / max(1, len(self.groups["column"]))))

    def run(self, logs: Floats, rest: float) -> Floats:
        if not logs.size:
            return logs
        base = rest * self.shared + np.diag(self.evidence.noise)
        bounds = [(np.log(1e-7 * self.label_variance), np.log(4 * self.label_variance))] * len(logs)
        options: dict[str, Any] = {"maxiter": STEPS}
        found = minimize(self._loss, logs, args=(base,), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return np.asarray(found.x)

    def _loss(self, logs: Floats, base: Floats) -> tuple[float, Floats]:
        """Minus the logarithm of likelihood times prior, and its derivatives."""
        scaled = self.images * np.sqrt(self.variances(logs)[self.owners])[:, None]
        factor = cholesky(base + scaled.T @ scaled)
        weights = cho_solve((factor, True), self.evidence.answers, check_finite=False)
        loss = 0.5 * self.evidence.answers @ weights + np.log(np.diag(factor)).sum()
        traces = np.square(solve_triangular(factor, scaled.T, lower=True, check_finite=False)).sum(axis=0)
        slopes = (
            0.5 * np.bincount(self.owners, traces - np.square(scaled @ weights), minlength=len(self.kinds))[self.free]
        )
        for kind, group in self.groups.items():
            if group.size:
                level = logs[group].mean()
                away = (level - np.log(SHARE[kind] * self.label_variance / group.size)) / LEVEL[kind]
                apart = (logs[group] - level) / SPREAD[kind]
                loss += 0.5 * (apart @ apart) + 0.5 * away**2
                slopes[group] += apart / SPREAD[kind] + away / LEVEL[kind] / group.size
        return float(loss), np.asarray(slopes, np.float64)
