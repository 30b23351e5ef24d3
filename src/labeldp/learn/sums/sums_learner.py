"""From features and noisy sums to a model: the order of the sums, and the division of ε.

1. A histogram of the labels sets the clip, and costs at most 6 % of ε. For losses other than squared it costs 10 % and gives each label its
   normal score, which is summed in place of the label (`score_look`).
2. A coarse look at every column: a few signed sums, 12 % of the rest.
3. The plan of least expected error, with 30 % of the rest: sums over whole partitions where a column with many cells
   may matter (`hopeful`), signed sums elsewhere.
4. Pairs of the columns that seem to matter join in, and such a plan is asked for the rest.

Where features explain much, steps 3 and 4 sum residuals: labels less what the sums so far predict. These lie in a narrower range, so that
their sums need less noise.

All sums are then inferred jointly (`labeldp.learn.sums.inference`). Labels are seen through `SumQueries` alone, so that everything here
is post-processing, and a mistake here costs accuracy but no privacy.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.learn.sums.inference import (
    LEAST_REST,
    Block,
    Evidence,
    Link,
    Posterior,
    hopeful,
    infer,
    infer_link,
    kernel,
    posterior_given,
    prior_belief,
    roots,
)
from labeldp.learn.sums.partitions import Codes, Partitions
from labeldp.learn.sums.questions import Plan, plan, sign_questions
from labeldp.learn.sums.sums_model import Pair, SumsModel
from labeldp.release.label_range import LabelRange, first_look, usual_variance
from labeldp.release.sum_queries import SumQueries

COARSE = Fraction(12, 100)
"""The share of the remaining ε for the coarse look."""
MIDDLE = Fraction(3, 10)
"""The share of what then remains for the sums before pairs are chosen."""
MOST_LEFT = 0.7
"""Residuals are summed if features leave at most this share of the label's variance."""
REACH, WIDER = 1.5, 0.7
"""Residuals are clipped at 1.5 of their standard deviations, and 0.7 more for each factor of ten by which n·ε exceeds 10,000: where noise
is small, the clip costs more than it saves."""
ALL_PAIRED = 8
"""With at most this number of columns, all pairs are considered from the start."""
EARLY_SIGNS = 4
"""The number of signs of each of two columns that are multiplied in that case."""
EARLY_CELLS = 8
"""The most coarse cells of a column in a pair in that case."""
PAIRED = 5
"""The number of columns, by largest variance, that form pairs."""
PAIR_CELLS = 5
"""The most coarse cells of a column in a pair."""
MOST_CANDIDATES = 1200
"""The approximate number of candidate signed sums of columns. Time grows with their square."""
LEAST_VARIANCE = 0.002
"""A column with less of the label's variance forms no pair."""
PAIR_SIGNS = 10
"""The number of signs of each of two columns that are multiplied."""
PAIR_SHARE = 0.15
"""A pair is expected to have this share of the product of its columns' variances, over the variance of all columns."""
PAIRED_CLASSES = 5000.0
"""Two classes have pairs only if records·ε²·(variance of a label) is at least this. Sums over pairs know columns less finely, where a rare class may be decided, and
effects that add up on the logarithm of the odds are pairs on the scale of the sums, so that pairs are asked for too often."""
LEAST_PAIR = 1e-5
"""A pair is expected to have at least this share of the label's variance."""


class Learned(NamedTuple):
    """What is known after the last sum: the answers, the posterior of the effects, pairs of columns, and the range of labels."""

    evidence: Evidence
    belief: Posterior
    pairs: tuple[Pair, ...]
    found: LabelRange


class SumsLearner:
    """Learns a model from features and from noisy sums of labels.

    The constructor reads the features and counts cells, without labels. `learn` then asks for sums.

    Parameters
    ----------
    features : table or array
        The features of all records, in the order of the labels.
    partitions : Partitions, optional
        How columns become cells. By default it is learned from the features.
    """

    def __init__(self, features: Any, partitions: Partitions | None = None, **columns: Any) -> None:
        if partitions is None:
            self.partitions, self.codes = Partitions.fit_cells(features, **columns)
        else:
            self.partitions, self.codes = partitions, partitions.cells(features)
        sizes = self.partitions.sizes
        self.weights = [np.bincount(self.codes[:, j], minlength=size) / len(self.codes) for j, size in enumerate(sizes)]

    @threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
    def learn(self, queries: SumQueries, found: LabelRange | None = None) -> SumsModel:
        """Spend all of what `queries` may cost on a model. `found` is the first look, if it was taken already.

        Matrices are so small that several threads mostly wait for each other.
        """
        return self.model(*self.asked(queries, found), queries.domain)

    def asked(self, queries: SumQueries, found: LabelRange | None = None) -> Learned:
        """Spend all of what `queries` may cost. Return what is known then, with effects that add up."""
        looked = found = first_look(queries) if found is None else found
        shares = None if queries.weights is None else queries.weights / queries.weight
        evidence = Evidence(queries.records, found.mean, shares)
        evidence.add(*self.columns())
        candidates = self.candidates(evidence)
        worth = queries.records * float(queries.remaining) ** 2 * found.variance
        paired = not two_classes(queries.domain) or worth >= PAIRED_CLASSES
        pairs = self._all_pairs() if paired else []
        if pairs:
            candidates = self._add_pairs(evidence, candidates, pairs, EARLY_SIGNS)
        belief = prior_belief(evidence, found.variance)
        coarse = queries.remaining * COARSE
        self._ask(queries, evidence, plan(evidence, belief, candidates, _scale(queries, coarse), [(0, 1.0)]), coarse)
        belief, found = inferred(evidence, looked, queries.domain)
        subtract_expected(queries, evidence, belief, looked)
        self._ask_best(queries, evidence, belief, candidates, queries.remaining * MIDDLE)
        belief, found = inferred(evidence, looked, queries.domain)
        subtract_expected(queries, evidence, belief, looked)
        if paired and not pairs and (pairs := self._pairs(belief, found.variance)):
            candidates = self._add_pairs(evidence, candidates, pairs, PAIR_SIGNS)
            belief = self._with_pairs(evidence, belief, pairs, found.variance)
        self._ask_best(queries, evidence, belief, candidates, queries.remaining)
        belief, found = inferred(evidence, looked, queries.domain)
        return Learned(evidence, belief, tuple(pairs), found)

    def columns(self) -> tuple[list[Block], list[Codes]]:
        """Return a block for the mean and one for each column: column j is block j + 1."""
        blocks, codes = [Block("mean", "mean", np.ones((1, 1)))], [np.zeros(len(self.codes), np.uint16)]
        for j, name in enumerate(self.partitions.names):
            ordered = self.partitions.ordered(j)
            covariance = kernel(
                self.weights[j],
                ordered=ordered,
                missing=ordered and self.partitions.missing[j],
                centres=self.partitions.centres[j] if ordered else None,
            )
            blocks.append(Block(name, "column", roots(covariance), ordered))
            codes.append(self.codes[:, j])
        return blocks, codes

    def candidates(self, evidence: Evidence) -> Floats:
        """Signed sums for the mean and for each column; with many columns, only some for each."""
        found = [_placed(evidence, 0, np.ones((1, 1)))]
        most = max(4, MOST_CANDIDATES // len(self.weights))
        for j, weights in enumerate(self.weights):
            if len(weights) > 1:
                signs = sign_questions(weights, ordered=self.partitions.ordered(j))
                found.append(_placed(evidence, j + 1, _some(signs, most)))
        return np.hstack(found)

    def _all_pairs(self) -> list[Pair]:
        """Return all pairs of columns, if columns are few: then pairs are found whose columns do nothing alone."""
        several = self._several()
        return self._paired(several, EARLY_CELLS) if len(several) <= ALL_PAIRED else []

    def _pairs(self, belief: Posterior, variance: float) -> list[Pair]:
        """Return all pairs of the columns that seem to matter most."""
        shares = belief.variances[1:] / variance
        top = sorted((j for j in self._several() if shares[j] > LEAST_VARIANCE), key=lambda j: -shares[j])
        return self._paired(top[:PAIRED], PAIR_CELLS)

    def _several(self) -> list[int]:
        """Return the columns with records in several cells."""
        return [j for j, weights in enumerate(self.weights) if np.count_nonzero(weights) > 1]

    def _paired(self, columns: list[int], cells: int) -> list[Pair]:
        return [Pair((i, j), (self._coarse(i, cells), self._coarse(j, cells))) for i, j in combinations(columns, 2)]

    def _coarse(self, column: int, cells: int) -> Codes:
        """Coarse cells of a column: equal parts of ordered ones; the most frequent categories, and all others in one."""
        weights = self.weights[column]
        if len(weights) <= cells:
            return np.arange(len(weights), dtype=np.uint16)
        if self.partitions.ordered(column):
            middles = np.cumsum(weights) - weights / 2
            parts = np.minimum(middles * cells, cells - 1).astype(np.int64)
            return np.unique(parts, return_inverse=True)[1].astype(np.uint16)
        coarse = np.full(len(weights), cells - 1, np.uint16)
        coarse[np.argsort(-weights, kind="stable")[: cells - 1]] = np.arange(cells - 1)
        return coarse

    def _add_pairs(self, evidence: Evidence, candidates: Floats, pairs: list[Pair], most: int) -> Floats:
        """Add the blocks of pairs to the evidence. Returns the candidates with products of `most` signs of each of two columns."""
        blocks, codes, signs = [], [], []
        for pair in pairs:
            weights = [
                np.asarray(np.bincount(coarse, self.weights[j]), np.float64)
                for j, coarse in zip(pair.columns, pair.maps, strict=True)
            ]
            ordered = [self.partitions.ordered(j) for j in pair.columns]
            sides = [kernel(w, ordered=o) for w, o in zip(weights, ordered, strict=True)]
            name = " × ".join(self.partitions.names[j] for j in pair.columns)
            blocks.append(Block(name, "pair", roots(np.asarray(np.kron(*sides), np.float64))))
            codes.append(pair.cells(self.codes).astype(np.uint16))
            one, other = (_some(sign_questions(w, ordered=o), most) for w, o in zip(weights, ordered, strict=True))
            signs.append(np.array([np.kron(a, b) for a in one for b in other]))
        first = len(evidence.blocks)
        evidence.add(blocks, codes)
        longer = np.vstack([candidates, np.zeros((len(evidence.gram) - len(candidates), candidates.shape[1]))])
        return np.hstack([longer, *(_placed(evidence, first + i, rows) for i, rows in enumerate(signs))])

    @staticmethod
    def _with_pairs(evidence: Evidence, belief: Posterior, pairs: list[Pair], variance: float) -> Posterior:
        """Return the prior of pairs before any sum about them: pairs of important columns are expected to matter more."""
        columns = belief.variances[1:]
        products = np.array([columns[i] * columns[j] for i, j in (pair.columns for pair in pairs)])
        guess = PAIR_SHARE * products / columns.sum() + LEAST_PAIR * variance
        return posterior_given(evidence, np.concatenate([belief.variances, guess]), belief.rest)

    def _ask_best(
        self, queries: SumQueries, evidence: Evidence, belief: Posterior, candidates: Floats, epsilon: Fraction
    ) -> None:
        """Ask for this ε what is expected to lower the error most."""
        self._ask(
            queries, evidence, plan(evidence, hopeful(evidence, belief), candidates, _scale(queries, epsilon)), epsilon
        )

    def _ask(self, queries: SumQueries, evidence: Evidence, asked: Plan, epsilon: Fraction) -> None:
        """Ask what was planned, for this ε in all."""
        signed = epsilon * Fraction(asked.share).limit_denominator(100)
        for block in asked.partitions:
            codes, cells = evidence.codes[block], evidence.blocks[block].cells
            answer = queries.over_cells(codes, cells, (epsilon - signed) / len(asked.partitions))
            evidence.learn(evidence.cells_of(block), answer)
        if asked.signs.shape[1]:
            answer = queries.against_signs(signs_of(evidence, asked.signs), signed)
            evidence.learn(asked.signs, answer)

    def model(
        self, evidence: Evidence, belief: Posterior, pairs: tuple[Pair, ...], found: LabelRange, domain: Domain
    ) -> SumsModel:
        """Return the model of what is believed, or of another link, if the answers are evidence for that."""
        link, base, belief = infer_link(evidence, belief, found.variance, links_for(found, domain))
        return self.made(Learned(evidence, belief, pairs, found), domain, link, base)

    def made(self, learned: Learned, domain: Domain, link: Link, base: float) -> SumsModel:
        """Return the model of effects on the scale of this link."""
        evidence, belief, pairs, found = learned
        effects = belief.effects(evidence)
        split = [effects[evidence.place(b)] for b in range(len(evidence.blocks))]
        weights = [np.diag(evidence.gram)[evidence.place(b)] / evidence.records for b in range(len(evidence.blocks))]
        return SumsModel(
            partitions=self.partitions,
            pairs=pairs,
            mean=base + float(split[0][0]),
            link=link,
            effects=tuple(split[1:]),
            weights=tuple(weights[1:]),
            spread=belief.spread(evidence),
            rest=belief.rest,
            range=found,
            bounds=(domain.lower, domain.upper),
        )


def inferred(evidence: Evidence, found: LabelRange, domain: Domain) -> tuple[Posterior, LabelRange]:
    """Return the posterior, and the range of labels with a variance that suits their mean, if the histogram was too noisy to tell it."""
    belief = infer(evidence, found.variance)
    if not found.is_known(domain):
        mean = found.mean + float(belief.effects(evidence)[0])
        found = replace(found, variance=usual_variance(mean, domain))
        belief = infer(evidence, found.variance)
    return belief, found


def subtract_expected(queries: SumQueries, evidence: Evidence, belief: Posterior, found: LabelRange) -> None:
    """Sum residuals from now on, if features explain so much that these lie in a clearly narrower range than labels.

    The variance of a label less its posterior mean is that of the label less that of the posterior mean.
    """
    domain = queries.domain
    if two_classes(domain) or not found.is_known(domain):
        return
    lower, upper = (domain.lower + domain.step * end for end in found.clip)
    link, base, belief = infer_link(evidence, belief, found.variance, links_for(found, domain))
    expected = np.clip(link.mean(base + evidence.total(belief.effects(evidence))), lower, upper)
    left = max(LEAST_REST, 1 - float(expected.var()) / found.variance)
    deviations = REACH + WIDER * np.log10(max(1.0, evidence.records * float(queries.remaining) / 1e4))
    reach = int(deviations * np.sqrt(left * found.variance) / domain.step)
    width = queries.clipped[1] - queries.clipped[0]
    if left <= MOST_LEFT and 1 <= 2 * reach <= width:
        units = np.rint((expected - domain.lower) / domain.step).astype(np.int64)
        queries.subtract(units, reach)
        evidence.expected = np.asarray(domain.lower + domain.step * units, np.float64)


def two_classes(domain: Domain) -> bool:
    """Return whether labels have two values."""
    return domain.whole and domain.count == 2


def links_for(found: LabelRange, domain: Domain) -> list[Link]:
    """Return the links to try besides the identity: for two classes the logit alone."""
    width = domain.step * (found.clip[1] - found.clip[0])
    bounded = Link("logit", found.lower, width, classes=two_classes(domain))
    if bounded.classes:
        return [bounded]
    return [Link("log", found.lower), bounded] if found.is_known(domain) else []


def _some(rows: Floats, most: int) -> Floats:
    """Return at most `most` of the rows, evenly spaced: thresholds are in order."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).round().astype(np.int64))]


def _placed(evidence: Evidence, block: int, rows: Floats) -> Floats:
    """Return questions about one block's cells as columns over all cells."""
    whole = np.zeros((len(evidence.gram), len(rows)))
    whole[evidence.place(block)] = rows.T
    return whole


def signs_of(evidence: Evidence, questions: Floats) -> Any:
    """Return the sign of each record for each question, which is about the cells of one block."""
    signs = np.empty((evidence.rows, questions.shape[1]), np.int8, order="F")
    for column, question in enumerate(questions.T):
        block = evidence.block_of(question)
        signs[:, column] = question[evidence.place(block)].astype(np.int8)[evidence.codes[block]]
    return signs


def _scale(queries: SumQueries, epsilon: Fraction) -> float:
    """Return the scale of noise in the unit of labels, for one sum of this ε."""
    lower, upper = queries.clipped
    return float((upper - lower) / epsilon) * queries.domain.step
