"""Inference from noisy sums: the posterior of the effects of cells.

1. The mean of a label is the sum of the effects of its record's cells. The effects of a block are Gaussian with covariance τ·K, where K
   is the block's `kernel`: smooth along numbers, independent between categories.
2. A noisy sum Σ ψ·y + noise is then Gaussian too, and so is everything that follows from it. `Evidence` holds the sums, `infer` the
   variances τ that maximise their likelihood, times a prior that keeps the variances of one kind alike.

3. Where effects multiply, the mean of a label is exp(sum of effects) instead; between two bounds, such as for two classes, it is a
   logistic function of the sum. `infer_link` fits these to the same sums by repeated linearisation (`Linearised`), and the evidence
   of the sums tells which `Link` is best.

Noise of the sums is not Gaussian, but its variance is known exactly and different sums have uncorrelated noise, so for given τ the
posterior means are still the best linear estimates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit

from labeldp.arrays import Floats
from labeldp.learn.sums.partitions import Codes
from labeldp.linear_algebra import cholesky, eigh
from labeldp.release.noisy_sums import Answer

Integers = NDArray[np.int64]

LINE = 0.4
"""The share of a numeric column's variance that is expected to be a straight line."""
KEPT = 1e-3
"""Directions with less than this share of the variance are left out."""


def kernel(weights: Floats, *, ordered: bool, missing: bool = False, centres: Floats | None = None) -> Floats:
    """Return the prior covariance of the effects of cells with these shares of the records.

    Over the records, effects have mean zero and variance one. Along numbers they follow a line in the numbers themselves and two
    Matérn processes in their ranks; the effect of missing numbers is free of them. Effects of categories are independent.
    """
    cells = len(weights)
    along = cells - 1 if missing else cells
    smooth = ordered and along > 2 and weights[:along].sum() > 0
    plain = np.eye(cells)
    if smooth:
        shares = weights[:along] / weights[:along].sum()
        ranks = np.cumsum(shares) - shares / 2
        distance = np.abs(np.subtract.outer(ranks, ranks))
        slow = np.sqrt(3) * distance / 0.5
        plain[:along, :along] = 0.6 * (1 + slow) * np.exp(-slow) + 0.4 * np.exp(-distance / 0.3)
    centred = np.eye(cells) - weights[None, :]
    covariance = _scaled(centred @ plain @ centred.T, weights)
    if smooth and centres is not None:
        line = np.zeros(cells)
        unit = centres / max(float(np.abs(centres).max()), 1e-300)  # the squares of huge numbers overflow
        line[:along] = unit - np.average(unit, weights=weights[:along])
        peak = float(np.abs(line).max())
        line = line / peak if peak > 1e-12 else np.zeros(cells)
        covariance = (1 - LINE) * covariance + LINE * _scaled(np.outer(line, line), weights)
    return covariance


def roots(covariance: Floats) -> Floats:
    """Return a matrix with few columns whose product with its transpose is nearly the covariance."""
    values, vectors = eigh(covariance)
    kept = values > KEPT * max(values.sum(), 1e-300)
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def _scaled(covariance: Floats, weights: Floats) -> Floats:
    """Return a covariance of variance one over the records, unless all records lie in one cell."""
    variance = float(weights @ np.diag(covariance))
    return np.asarray(covariance / variance if variance > 1e-12 else covariance)


@dataclass(frozen=True, eq=False)
class Block:
    """A partition of the records, and a root of the prior covariance of its cells' effects (at an average variance of 1).

    Attributes
    ----------
    name : str
        The column, or two columns.
    kind : {"mean", "column", "pair"}
        What it represents: the overall mean is one cell.
    roots : array of float
        One row for each cell.
    ordered : bool
        Whether the cells lie along a line.
    """

    name: str
    kind: str
    roots: Floats
    ordered: bool = False

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.roots)


class Evidence:
    """Blocks with the counts of records, or their total weights, in all pairs of their cells; questions and answers.

    Weights belong to rows of persons, at most 1 per person. Labels of a person vary together, and their sums vary at
    most like one independent label per person, which total weights express.

    A question is a number for each cell of all blocks, most of them zero: the sum of the labels of the records, each times the
    numbers of its cells. Answers are less the sum that a label of `offset` everywhere would give. Where sums are of residuals,
    `expected` is what was subtracted from each label, and an answer gets its sum back.
    """

    def __init__(self, rows: int, offset: float, weights: Floats | None = None) -> None:
        self.rows = rows
        self.weights = weights
        self.records = rows if weights is None else float(weights.sum())
        self.offset = offset
        self.expected: Floats | None = None
        self.blocks: list[Block] = []
        self.codes: list[Codes] = []
        self.ends = np.zeros(1, np.int64)
        self.gram = np.zeros((0, 0))
        self.questions = np.zeros((0, 0))
        self.answers = np.zeros(0)
        self.noise = np.zeros(0)

    def add(self, blocks: list[Block], codes: list[Codes]) -> None:
        """Add blocks, with the cell of each record in them."""
        known = len(self.blocks)
        self.blocks += blocks
        self.codes += codes
        self.ends = np.concatenate([[0], np.cumsum([block.cells for block in self.blocks])])
        gram = np.zeros((self.ends[-1], self.ends[-1]))
        gram[: len(self.gram), : len(self.gram)] = self.gram
        for j in range(known, len(self.blocks)):
            for i in range(j + 1):
                counts = self._crossed(i, j)
                gram[self.place(i), self.place(j)] = counts
                gram[self.place(j), self.place(i)] = counts.T
        self.gram = gram
        more = len(gram) - len(self.questions)
        self.questions = np.vstack([self.questions, np.zeros((more, self.questions.shape[1]))])

    def learn(self, questions: Floats, answer: Answer) -> None:
        """Take an answer to questions, which are given as one column of numbers for each."""
        sums = answer.sums - self.offset * answer.totals
        if self.expected is not None:
            sums = sums + questions.T @ self.cell_sums(self.expected)
        self.questions = np.hstack([self.questions, questions])
        self.answers = np.concatenate([self.answers, sums])
        self.noise = np.concatenate([self.noise, np.full(questions.shape[1], answer.sums_variance)])

    def place(self, block: int) -> slice:
        """Return where a block's cells are among all."""
        return slice(int(self.ends[block]), int(self.ends[block + 1]))

    def block_of(self, question: Floats) -> int:
        """Return the block that a question is about, if it is about the cells of one."""
        return int(np.searchsorted(self.ends, np.flatnonzero(question)[0], side="right")) - 1

    def cells_of(self, block: int) -> Floats:
        """Return the questions for the sums over each cell of a block."""
        return np.eye(len(self.gram))[:, self.place(block)]

    def roots(self) -> Floats:
        """Return the roots of all blocks as one matrix, and nothing between blocks."""
        whole = np.zeros((len(self.gram), self.owners().size))
        column = 0
        for number, block in enumerate(self.blocks):
            width = block.roots.shape[1]
            whole[self.place(number), column : column + width] = block.roots
            column += width
        return whole

    def owners(self) -> NDArray[np.int64]:
        """Return the block of each column of `roots`."""
        return np.repeat(np.arange(len(self.blocks)), [block.roots.shape[1] for block in self.blocks])

    def weighted(self, weights: Floats) -> Floats:
        """Return the total weight of the records in each pair of cells of all blocks; `gram` is that for weights of 1."""
        gram = np.empty_like(self.gram)
        for j in range(len(self.blocks)):
            for i in range(j + 1):
                gram[self.place(i), self.place(j)] = crossed = self._crossed(i, j, weights)
                gram[self.place(j), self.place(i)] = crossed.T
        return gram

    def cell_sums(self, values: Floats) -> Floats:
        """Return the weighted sum of a number of each record over each cell of all blocks."""
        values = self._weighed(values)
        pairs = zip(self.codes, self.blocks, strict=True)
        return np.concatenate([np.bincount(codes, values, minlength=block.cells) for codes, block in pairs])

    def total(self, effects: Floats) -> Floats:
        """Return the sum of the effects of each record's cells."""
        found = np.zeros(self.rows)
        for block, codes in enumerate(self.codes):
            found += effects[self.place(block)][codes]
        return found

    def _weighed(self, values: Floats) -> Floats:
        return values if self.weights is None else values * self.weights

    def _crossed(self, i: int, j: int, weights: Floats | None = None) -> Floats:
        """Return the number of records, or their weight, in each pair of cells of two blocks."""
        rows, columns = self.blocks[i].cells, self.blocks[j].cells
        weights = self.weights if weights is None else self._weighed(weights)
        if i == j:
            return np.diag(np.bincount(self.codes[j], weights, minlength=columns).astype(np.float64))
        pairs = self.codes[i].astype(np.int32) * np.int32(columns) + self.codes[j]
        return np.bincount(pairs, weights, minlength=rows * columns).astype(np.float64).reshape(rows, columns)


@dataclass(frozen=True)
class Link:
    """How the sum of a record's effects becomes its mean label.

    Attributes
    ----------
    name : {"identity", "log", "logit"}
        Effects add up, or they multiply what is above `lower`, or the odds of the upper bound against the lower one.
    lower : float
        For the log and the logit link: the label that no mean goes below.
    width : float
        For the logit link: how far above `lower` the label is that no mean goes above.
    classes : bool
        Whether labels only have the two end values of a logit link: their variance then follows from their mean.
    """

    name: str = "identity"
    lower: float = 0.0
    width: float = 1.0
    classes: bool = False

    def mean(self, score: Floats) -> Floats:
        """Return the mean label for a sum of effects."""
        if self.name == "identity":
            return score
        within = np.clip(score, -LARGEST_SCORE, LARGEST_SCORE)
        return np.asarray(self.lower + (np.exp(within) if self.name == "log" else self.width * expit(within)))

    def slope(self, score: Floats) -> Floats:
        """Return the derivative of `mean`."""
        if self.name == "identity":
            return np.ones_like(score)
        within = np.clip(score, -LARGEST_SCORE, LARGEST_SCORE)
        return np.asarray(np.exp(within) if self.name == "log" else self.width * expit(within) * expit(-within))

    def score(self, mean: float) -> float:
        """Return the sum of effects for a mean label. The logit link moves means near its ends inside."""
        if self.name == "identity":
            return mean
        if self.name == "log":
            return float(np.log(mean - self.lower))
        return float(logit(np.clip((mean - self.lower) / self.width, LEAST_MEAN, 1 - LEAST_MEAN)))

    def spread(self, slope: Floats) -> Floats:
        """Return the variances of labels around their means, up to a factor, from the slopes at their scores."""
        return np.asarray((slope / slope.mean()) ** GROWTH[self.name])


class Linearised:
    """The answers as a linear function of the effects: exactly so for added effects, and around given scores for another link.

    Attributes
    ----------
    images : array of float
        What one unit of each coordinate of the effects adds to each answer.
    shared : array of float
        The covariance of the answers for labels that vary by one unit around their means.
    answers, noise : array of float
        The answers minus the part that does not depend on effects, and the variances of their noise.
    """

    def __init__(
        self, evidence: Evidence, link: Link | None = None, base: float | Floats = 0.0, effects: Floats | None = None
    ) -> None:
        asked = evidence.questions
        self.blocks, self.noise, self.answers = evidence.blocks, evidence.noise, evidence.answers
        self.roots, self.owners = evidence.roots(), evidence.owners()
        slopes = variances = evidence.gram
        if link is not None and effects is not None:
            score = base + effects
            mean, slope = link.mean(score), link.slope(score)
            slopes = evidence.weighted(slope)
            variances = evidence.weighted(link.spread(slope))
            self.answers = self.answers - asked.T @ evidence.cell_sums(mean - evidence.offset - slope * effects)
        self.images = self.roots.T @ (slopes @ asked)
        self.shared = asked.T @ (variances @ asked)

    def posterior(self, variances: Floats, rest: float) -> Posterior:
        """Return the posterior for given variances of the blocks and of what features leave."""
        deviations = np.sqrt(variances[self.owners])
        images = deviations[:, None] * self.images
        if not self.answers.size:
            return Posterior(variances, rest, deviations, np.zeros(deviations.size), images.T)
        factor = cholesky(images.T @ images + rest * self.shared + np.diag(self.noise))
        mean = images @ cho_solve((factor, True), self.answers)
        return Posterior(variances, rest, deviations, mean, solve_triangular(factor, images.T, lower=True))


SPREAD = {"column": 1.5, "pair": 1.0}
"""The standard deviation of the logarithms of the variances of one kind."""
SHARE = {"column": 0.25, "pair": 0.05}
"""The share of the label's variance that all blocks of one kind are expected to explain."""
LEVEL = {"column": 2.0, "pair": 1.0}
"""The standard deviation of the logarithm of that share. Noise looks like pairs easily, so theirs is small."""
LEAST_REST = 0.1
"""Features are taken to leave at least this share of the label's variance unexplained."""
MOST_REST = 20.0
"""Sums vary at most by this multiple of what independent labels of that variance would give: records of one cluster vary together."""
SHORT, BEYOND = 0.1, 1.0
"""Explained variance and rest add up to the label's variance or more. The standard deviations, on a logarithmic scale, of a sum that is
smaller, or of effects that explain more than there is, and of a larger sum, which clusters explain."""
LINEARISED = 8
"""How often a link is linearised."""
LONGEST_STEP = 2.0
"""The most that a score moves from one linearisation to the next."""
LARGEST_SCORE = 20.0
"""Scores of other links than the identity are clipped here."""
LEAST_MEAN = 1e-4
"""A logit link starts at least this share of its width inside."""
GROWTH = {"identity": 0.0, "log": 1.5, "logit": 1.0}
"""The variance of a label around its mean grows with the slope of the link to this power."""
CLEAR = 4.0
"""Another link than the identity is taken if the answers are more probable by this number of nats."""
STEPS = 150
"""The most steps of a search for variances."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior distribution of the effects.

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
        """Return the posterior mean of the effect of each cell of all blocks."""
        return np.asarray(evidence.roots() @ (self.deviations * self.mean))

    def spread(self, evidence: Evidence) -> Floats:
        """Return a root of the posterior covariance of the effects of all cells."""
        left = np.eye(self.mean.size) * (1 + 1e-9) - self.narrowed.T @ self.narrowed
        return np.asarray((evidence.roots() * self.deviations) @ cholesky(left))


def prior_belief(evidence: Evidence, label_variance: float) -> Posterior:
    """Return the prior of the effects: columns explain a quarter of the label's variance, in equal parts, and pairs little."""
    kinds = np.array([block.kind for block in evidence.blocks])
    shares = {kind: share / max(1, int(np.sum(kinds == kind))) for kind, share in SHARE.items()} | {"mean": 1.0}
    variances = label_variance * np.array([shares[kind] for kind in kinds])
    return posterior_given(evidence, variances, 0.6 * label_variance)


def posterior_given(evidence: Evidence, variances: Floats, rest: float) -> Posterior:
    """Return the posterior for given variances of the blocks and of what features leave."""
    return Linearised(evidence).posterior(variances, rest)


def hopeful(evidence: Evidence, belief: Posterior) -> Posterior:
    """Return the posterior to plan sums with: variances are larger where little is known about them.

    Where noise dominates, sums about a block lower the error in proportion to the square of its variance τ. So they are planned with
    the root of the expected τ². Without this, a column that was never asked about would look worthless after the first answers, and a column
    with many categories is not among the first. The posterior of log τ is taken to be normal, with the Fisher
    information of the answers and of the prior.
    """
    linear = Linearised(evidence)
    scaled = linear.images * np.sqrt(belief.variances[linear.owners])[:, None]
    factor = cholesky(scaled.T @ scaled + belief.rest * linear.shared + np.diag(linear.noise))
    solved = solve_triangular(factor, scaled.T, lower=True, check_finite=False)
    variances = belief.variances.copy()
    for number, block in enumerate(evidence.blocks):
        if block.kind in SPREAD:
            own = solved[:, linear.owners == number]
            information = 0.5 * float(np.square(own.T @ own).sum())
            variances[number] *= np.exp(1 / (SPREAD[block.kind] ** -2 + information))
    return linear.posterior(np.minimum(variances, belief.variances[0]), belief.rest)


def infer(evidence: Evidence, label_variance: float) -> Posterior:
    """Return the posterior with variances by maximum a posteriori. `label_variance` is that of a clipped label.

    What features leave is found together with the variances of the blocks: where records come in clusters that share features and
    have similar labels, sums vary more than independent labels would, and that is not taken for effects. A step takes O(r·s²) time
    for r coordinates and s sums.
    """
    search = _Search(Linearised(evidence), label_variance)
    logs, rest = search.run(search.start(), 0.75 * label_variance, rest_is_known=False)
    found = search.linear.posterior(search.variances(logs), rest)
    if rest >= label_variance:
        return found
    explained = np.where(search.kinds[search.owners] == "mean", 0.0, found.deviations * found.mean)
    weigh = evidence.roots().T @ evidence.gram @ evidence.roots() / evidence.records
    rest = max(LEAST_REST * label_variance, label_variance - float(explained @ weigh @ explained))
    return search.linear.posterior(found.variances, rest)


def infer_link(
    evidence: Evidence, belief: Posterior, label_variance: float, links: Iterable[Link]
) -> tuple[Link, float, Posterior]:
    """Return the link of the best evidence, its base, and the posterior of the effects on its scale.

    `belief` is the posterior for effects that add up. Another link must be clearly better, except for two classes: for them effects
    that add up are not a candidate.
    """
    added = evidence.offset + evidence.total(belief.effects(evidence))
    mean, best = float(added.mean()), (Link(), evidence.offset, belief)
    if not evidence.answers.size:
        return best
    least = _minus_log_evidence(evidence, Linearised(evidence), belief, added) - CLEAR
    for link in links:
        if link.name == "log" and mean <= link.lower:
            continue
        base, found, loss = _linearised(evidence, belief, label_variance, link, mean)
        if link.classes:
            return link, _balanced(link, evidence.total(found.effects(evidence)), mean), found
        if loss < least:
            best, least = (link, base, found), loss
    return best


def _linearised(
    evidence: Evidence, belief: Posterior, label_variance: float, link: Link, mean: float
) -> tuple[float, Posterior, float]:
    """Return the base of a link, the posterior of its effects, and minus the logarithm of its evidence.

    Each round linearises around the scores of the previous round and takes only a short step. The round with the best
    evidence is used: if effects are strong and sums noisy, a later one may be far off.
    """
    base = link.score(mean)
    slope = float(link.slope(np.array(base)))
    width = label_variance / slope**2
    variances, score = belief.variances / slope**2, np.zeros(evidence.rows)
    tried = []
    for number in range(LINEARISED):
        linear = Linearised(evidence, link, base, score)
        rest = link.width * float(link.slope(base + score).mean()) if link.classes else belief.rest
        search = _Search(linear, width)
        logs = np.log(np.maximum(variances[search.free], 2e-7 * width))
        variances = search.variances(search.run(logs, rest)[0])
        found = linear.posterior(variances, rest)
        reached = evidence.total(found.effects(evidence))
        tried.append((_minus_log_evidence(evidence, linear, found, link.mean(base + reached)), number, found))
        score = score + np.clip(reached - score, -LONGEST_STEP, LONGEST_STEP) * (1.0 if number else 0.7)
    loss, _, best = min(tried, key=lambda one: one[:2])
    return base, best, loss


def relinearised(evidence: Evidence, belief: Posterior, link: Link, base: Floats, score: Floats) -> Posterior:
    """Return the posterior of the effects on the scale of two classes' link around other scores: each record has its own base.

    The variances of the blocks stay, and no score moves by more than `LONGEST_STEP` from that of `belief`: with few noisy sums, a
    whole step may be far off.
    """
    rest = link.width * float(link.slope(base + score).mean())
    found = Linearised(evidence, link, base, score).posterior(belief.variances, rest)
    moved = replace(found, mean=found.mean - belief.mean)
    longest = float(np.abs(evidence.total(moved.effects(evidence))).max())
    return replace(found, mean=belief.mean + moved.mean * min(1.0, LONGEST_STEP / max(longest, 1e-300)))


def _balanced(link: Link, score: Floats, mean: float) -> float:
    """Return the base with which the mean label of all records is `mean`, or as near to it as `Link.score` goes."""
    centre = link.score(mean)
    wanted = float(link.mean(np.array(centre)))
    ends = centre - float(score.max()) - 1, centre - float(score.min()) + 1
    return float(brentq(lambda base: float(link.mean(base + score).mean()) - wanted, *ends))


def _minus_log_evidence(evidence: Evidence, linear: Linearised, belief: Posterior, means: Floats) -> float:
    """Return minus the logarithm of the probability of the answers under a model, up to a constant, for the mean labels that it gives."""
    left = evidence.answers - evidence.questions.T @ evidence.cell_sums(means - evidence.offset)
    around = belief.rest * linear.shared + np.diag(evidence.noise)
    images = belief.deviations[:, None] * linear.images
    whole, own = cholesky(images.T @ images + around), cholesky(around)
    fit = 0.5 * float(np.square(solve_triangular(own, left, lower=True)).sum())
    return fit + float(np.log(np.diag(whole)).sum()) + 0.5 * float(belief.mean @ belief.mean)


class _Search:
    """The search for the logarithms of the variances of all blocks but the mean, whose variance is that of a label."""

    def __init__(self, linear: Linearised, label_variance: float) -> None:
        self.linear, self.label_variance = linear, label_variance
        self.kinds = np.array([block.kind for block in linear.blocks])
        self.free = np.flatnonzero(self.kinds != "mean")
        self.owners = linear.owners
        self.groups = {kind: np.flatnonzero(self.kinds[self.free] == kind) for kind in SPREAD}

    def variances(self, logs: Floats) -> Floats:
        whole = np.full(len(self.kinds), self.label_variance)
        whole[self.free] = np.exp(logs)
        return whole

    def start(self) -> Floats:
        return np.full(len(self.free), np.log(0.3 * self.label_variance / max(1, len(self.groups["column"]))))

    def run(self, logs: Floats, rest: float, *, rest_is_known: bool = True) -> tuple[Floats, float]:
        """Return the logarithms of the variances, and what features leave, which is searched for too unless it is known."""
        if not logs.size:
            return logs, rest
        whole = np.log(self.label_variance)
        least, most = (
            (rest, rest) if rest_is_known else (LEAST_REST * self.label_variance, MOST_REST * self.label_variance)
        )
        bounds = [*([(whole + np.log(1e-7), whole + np.log(4))] * len(logs)), (np.log(least), np.log(most))]
        options: dict[str, Any] = {"maxiter": STEPS}
        start, args = np.append(logs, np.log(rest)), (rest_is_known,)
        found = minimize(self._loss, start, args, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        return np.asarray(found[:-1]), float(np.exp(found[-1]))

    def _loss(self, point: Floats, rest_is_known: bool) -> tuple[float, Floats]:
        """Return minus the logarithm of likelihood times prior, and its derivatives."""
        logs, rest = point[:-1], float(np.exp(point[-1]))
        scaled = self.linear.images * np.sqrt(self.variances(logs)[self.owners])[:, None]
        factor = cholesky(rest * self.linear.shared + np.diag(self.linear.noise) + scaled.T @ scaled)
        weights = cho_solve((factor, True), self.linear.answers, check_finite=False)
        loss = 0.5 * self.linear.answers @ weights + np.log(np.diag(factor)).sum()
        traces = np.square(solve_triangular(factor, scaled.T, lower=True, check_finite=False)).sum(axis=0)
        slopes = np.zeros(len(point))
        moved = traces - np.square(scaled @ weights)
        slopes[:-1] = 0.5 * np.bincount(self.owners, moved, minlength=len(self.kinds))[self.free]
        for kind, group in self.groups.items():
            if group.size:
                level = logs[group].mean()
                away = (level - np.log(SHARE[kind] * self.label_variance / group.size)) / LEVEL[kind]
                apart = (logs[group] - level) / SPREAD[kind]
                loss += 0.5 * (apart @ apart) + 0.5 * away**2
                slopes[group] += apart / SPREAD[kind] + away / LEVEL[kind] / group.size
        if rest_is_known:
            return float(loss), slopes
        shared = cho_solve((factor, True), self.linear.shared, check_finite=False)
        slopes[-1] += 0.5 * rest * (np.trace(shared) - weights @ self.linear.shared @ weights)
        whole, effects = np.append(np.exp(logs), rest), np.append(np.exp(logs), 0.0)
        for parts, below, above in ((whole, SHORT, BEYOND), (effects, np.inf, SHORT)):
            beyond = np.log(parts.sum() / self.label_variance)
            width = above if beyond > 0 else below
            loss += 0.5 * (beyond / width) ** 2
            slopes += beyond / width**2 * parts / parts.sum()
        return float(loss), slopes
