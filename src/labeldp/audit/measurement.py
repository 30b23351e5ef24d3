"""A lower bound on the ε of any randomizer from its outputs alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from labeldp.arrays import label_array
from labeldp.audit import witness
from labeldp.audit.events import Events, Randomize, draw
from labeldp.budget import Epsilon, exact_epsilon, float_up
from labeldp.errors import InvalidInput, PrivacyRefused

PILOT, SURVEY, TRIAL = 0.05, 0.25, 0.70
"""Shares of the sample: to learn which outputs there are, to compare all labels, to try the best pair afresh."""


@dataclass(frozen=True)
class Measurement:
    """A lower bound on the ε of a randomizer, with the labels and outputs that show it.

    Attributes
    ----------
    epsilon_lower : float
        With the stated confidence, ε is at least this.
    confidence : float
        The probability that the bound is not above the true ε.
    samples : int
        The number of outputs that the audit was allowed.
    high_label, low_label : float
        Two labels between which outputs differ: the event is more frequent under the first.
    event : str
        The set of outputs that was compared, in words.
    smallest_excess : float
        How far ε would have to lie above the claim, or above the bound if nothing was claimed, for a sample of this
        size to show it 99 times in 100 with these two labels.
    epsilon_claimed : Fraction, optional
        The ε that was claimed.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import measure
    >>> noise = np.random.default_rng(0)
    >>> def laplace(labels):
    ...     return labels + noise.laplace(0, 1, labels.size)
    >>> measure(laplace, [0, 1], epsilon=0.5, samples=100_000, seed=0).refuted
    True
    """

    epsilon_lower: float
    confidence: float
    samples: int
    high_label: float
    low_label: float
    event: str
    smallest_excess: float
    epsilon_claimed: Fraction | None = None

    @property
    def refuted(self) -> bool:
        """Whether an ε was claimed and lies below the bound."""
        return self.epsilon_claimed is not None and self.epsilon_lower > float_up(self.epsilon_claimed)

    def require(self) -> Measurement:
        """Return the measurement itself, unless it refutes the claim.

        Returns
        -------
        Measurement

        Raises
        ------
        PrivacyRefused
            If the claimed ε is refuted.
        """
        if self.refuted:
            raise PrivacyRefused(str(self))
        return self

    def __str__(self) -> str:
        bound = (
            f"epsilon is at least {self.epsilon_lower:.6g} with confidence {self.confidence:.10g} "
            f"({self.samples:,} samples; outputs {self.event}; label {self.high_label:g} against {self.low_label:g}). "
            f"An excess of {self.smallest_excess:.3g} would have shown 99 times in 100."
        )
        if self.epsilon_claimed is None:
            return bound
        verdict = "REFUTED" if self.refuted else "not refuted"
        return f"claimed epsilon = {float_up(self.epsilon_claimed):.6g} is {verdict}: {bound}"


def measure(
    randomize: Any,
    labels: ArrayLike,
    *,
    epsilon: Epsilon | None = None,
    outputs: ArrayLike | None = None,
    samples: int = 1_000_000,
    confidence: float = 0.95,
    seed: int | None = None,
) -> Measurement:
    """Audit a randomizer by running it: a lower bound on its ε over all pairs of labels and all sets of outputs.

    The bound exceeds the true ε with probability 1 − confidence at most, for any randomizer that treats records
    independently. It is the larger of two, each with half of the error probability:

    - A quarter of the sample surveys every label. Clopper–Pearson bounds hold for all labels and outputs at once.
    - The most promising pair of labels and set of outputs is tried on fresh outputs. The numbers of records are drawn
      from Poisson distributions, so the two counts are independent Poisson variables. Given their sum, the first is
      binomial, and a Clopper–Pearson bound on its share bounds the ratio of the two probabilities exactly.

    Parameters
    ----------
    randomize : callable or Mechanism
        A function from an array of labels to one output for each; or a mechanism, which brings its own outputs and ε.
    labels : array of float
        The labels to compare, at least two.
    epsilon : number, optional
        The ε that is claimed.
    outputs : array of float, optional
        The outputs that may occur. If they are not given, a pilot sample finds them; many are grouped into intervals.
    samples : int
        How many outputs to draw in all, at least 100 for each label.
    confidence : float
        The probability that the bound is not above the true ε.
    seed : int, optional
        Of the sizes of the trial. The outputs themselves are as random as the randomizer.

    Returns
    -------
    Measurement

    Raises
    ------
    InvalidInput
        If there are too few labels or samples, or the randomizer does not give one output for each label.

    Privacy
    -------
    No true label is used: the randomizer is run on the labels given here.

    Examples
    --------
    >>> from labeldp import RROnBins, measure
    >>> measure(RROnBins([10, 100], epsilon=1), [0, 100], samples=20_000, confidence=0.999999).refuted
    False
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence}")
    if epsilon is None:
        epsilon = getattr(randomize, "epsilon_exact", None)
    if outputs is None and getattr(randomize, "table", None) is not None:
        outputs = randomize.outputs
    call: Randomize = randomize if callable(randomize) else randomize.randomize
    points = np.unique(label_array(labels))
    if points.size < 2:
        raise InvalidInput("an audit compares labels: give at least two different ones")
    if samples < 100 * points.size:
        raise InvalidInput(f"{points.size} labels need at least {100 * points.size} samples, got {samples}")
    half = (1 - confidence) / 2
    if outputs is None:
        size = max(1, int(PILOT * samples) // points.size)
        events = Events.from_pilot(np.concatenate([part for label in points for part in draw(call, label, size)]))
        share = TRIAL * samples
    else:
        events, share = Events.of_values(outputs), samples * (TRIAL + PILOT)
    size = int(SURVEY * samples) // points.size
    counts = np.stack([events.count(call, label, size) for label in points])
    # The trial's Poisson mean: low enough that the total practically never exceeds `samples`.
    trial = share - 5 * math.sqrt(share)
    chosen = witness.most_promising(counts, size, trial, half)
    rows = (chosen.high, chosen.low)
    rates = [witness.smoothed_rate(int(counts[row, chosen.event].sum()), size) for row in rows]
    means = witness.best_allocation(rates, trial)
    generator = np.random.default_rng(seed)
    tried = [
        int(events.count(call, points[row], int(generator.poisson(mean)))[chosen.event].sum())
        for row, mean in zip(rows, means, strict=True)
    ]
    best = max(
        witness.survey(counts, size, half),
        replace(chosen, bound=witness.ratio_bound(tried, means, half)),
        key=lambda found: found.bound,
    )
    return Measurement(
        epsilon_lower=max(0.0, best.bound),
        confidence=confidence,
        samples=samples,
        high_label=float(points[best.high]),
        low_label=float(points[best.low]),
        event=events.describe(best.event),
        smallest_excess=witness.smallest_excess(rates, trial, half),
        epsilon_claimed=None if epsilon is None else exact_epsilon(epsilon),
    )
