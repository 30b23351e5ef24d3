"""A lower bound on the ε of any randomizer, from its outputs only.

Outputs are sorted into a finite number of events that can be counted. Counts of two labels give a lower bound on ε; the
best pair of labels and set of outputs is tested on new outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from labeldp.arrays import Floats, label_array
from labeldp.budget import Epsilon, exact_epsilon, float_up
from labeldp.errors import InvalidInput, PrivacyRefused

Randomize = Callable[[Floats], ArrayLike]

MOST_VALUES = 512
"""If a pilot sample has more distinct outputs than this, they are grouped into intervals."""

INTERVALS = 64
_CHUNK = 1 << 18


@dataclass(frozen=True, eq=False)
class Events:
    """A partition of the outputs: intervals between `points`, or else each point by itself and one event for the rest."""

    points: Floats
    intervals: bool

    @classmethod
    def of_values(cls, outputs: ArrayLike) -> Events:
        """Return an event for each of these outputs."""
        return cls(np.unique(np.asarray(outputs, dtype=np.float64)), intervals=False)

    @classmethod
    def from_pilot(cls, pilot: Floats) -> Events:
        """Return an event for each output in a pilot sample, or intervals of about equal mass if there are too many."""
        events = cls.of_values(pilot)
        if events.points.size <= MOST_VALUES:
            return events
        return cls(np.unique(np.quantile(pilot, np.linspace(0, 1, INTERVALS + 1)[1:-1])), intervals=True)

    def numbers(self, outputs: Floats) -> NDArray[np.intp]:
        """Return the number of the event of each output, from 0 to `points.size`."""
        places = np.searchsorted(self.points, outputs, side="left")
        if not self.intervals:
            known = self.points[np.minimum(places, self.points.size - 1)] == outputs
            places[~known] = self.points.size
        return places

    def count(self, randomize: Randomize, label: float, records: int) -> NDArray[np.int64]:
        """Count each event in the outputs for this number of records with one label."""
        totals = np.zeros(self.points.size + 1, dtype=np.int64)
        for outputs in draw(randomize, label, records):
            totals += np.bincount(self.numbers(outputs), minlength=totals.size)
        return totals

    def describe(self, chosen: NDArray[np.intp]) -> str:
        """Return the chosen events in words, the first six of them."""
        return ", ".join(self._name(int(number)) for number in chosen[:6]) + (", …" if chosen.size > 6 else "")

    def _name(self, number: int) -> str:
        if not self.intervals:
            return f"{self.points[number]:.6g}" if number < self.points.size else "any other value"
        low = f"{self.points[number - 1]:.6g}" if number else "-inf"
        high = f"{self.points[number]:.6g}]" if number < self.points.size else "inf)"
        return f"({low}, {high}"


def draw(randomize: Randomize, label: float, records: int) -> Iterator[Floats]:
    """Yield outputs for this number of records with the same label, in chunks of bounded size."""
    for start in range(0, records, _CHUNK):
        size = min(_CHUNK, records - start)
        outputs = np.asarray(randomize(np.full(size, label)), dtype=np.float64)
        if outputs.shape != (size,):
            raise InvalidInput(
                f"a randomizer must give one output for each label, and this one gave shape {outputs.shape} for {size}"
            )
        yield outputs


POWER = 0.99
"""The probability with which an excess of `smallest_excess` is found."""

_CANDIDATES = 256


@dataclass(frozen=True, eq=False)
class Witness:
    """A set of outputs, and a lower bound on ln(P[output in it | label `high`] / P[output in it | label `low`]).

    The labels are given by their row numbers, the outputs by the numbers of their events.
    """

    bound: float
    high: int
    low: int
    event: NDArray[np.intp]


def survey(counts: NDArray[np.int64], size: int, error: float) -> Witness:
    """Return the best bound from single outputs; `counts` has a row for each label, from `size` records each.

    The bound is a lower over an upper Clopper–Pearson bound. All of these hold at once with probability 1 − error.
    """
    each = error / (2 * counts.size)
    lower = np.where(counts > 0, special.betaincinv(np.maximum(counts, 1), size - counts + 1, each), 0.0)
    upper = np.where(counts < size, special.betainccinv(counts + 1, np.maximum(size - counts, 1), each), 1.0)
    ratios = lower.max(axis=0) / upper.min(axis=0)
    column = int(ratios.argmax())
    bound = math.log(ratios[column]) if ratios[column] > 0 else -math.inf
    return Witness(bound, int(lower[:, column].argmax()), int(upper[:, column].argmin()), np.array([column]))


def most_promising(counts: NDArray[np.int64], size: int, trial: float, error: float) -> Witness:
    """Return the pair of labels and the set of outputs for which a trial on fresh outputs should give the largest bound.

    Pairs are ranked by their best single output. For the best pairs, outputs join the set in the order of their ratio
    as long as that raises the expected bound. A bad choice here costs power, not validity.
    """
    rates = smoothed_rate(counts, size)

    def expected_bound(high: Any, low: Any) -> Any:
        """Return the bound that the trial would give, if the survey's ratio is two standard deviations too high."""
        luck = np.sqrt((1 / high + 1 / low) / size)
        return np.log(high / low) - 2 * luck + special.ndtri(error) * _ratio_deviation(high, low, trial)

    pairs: list[tuple[float, int, int]] = []
    for high in range(len(counts)):
        single = expected_bound(rates[high], rates).max(axis=1)
        likely = np.argsort(single, kind="stable")[-_CANDIDATES:]  # the same choice on every processor
        pairs += [(float(single[low]), high, int(low)) for low in likely if low != high]
    best = Witness(-math.inf, 0, 1, np.arange(1))
    for _, high, low in sorted(pairs)[-_CANDIDATES:]:
        order = np.argsort(-rates[high] / rates[low], kind="stable")
        bounds = expected_bound(*(smoothed_rate(np.cumsum(counts[row, order]), size) for row in (high, low)))
        end = int(bounds.argmax())
        if bounds[end] > best.bound:
            best = Witness(float(bounds[end]), high, low, order[: end + 1])
    return best


def best_allocation(rates: Sequence[float], trial: float) -> tuple[float, float]:
    """Expected records of each label, in proportion to 1/√p: then the logarithm of the ratio varies least."""
    high, low = (1 / math.sqrt(rate) for rate in rates)
    return trial * high / (high + low), trial * low / (high + low)


def ratio_bound(counts: Sequence[int], means: Sequence[float], error: float) -> float:
    """Return a lower bound on ln(p/q) from independent Poisson counts with means `means[0]·p` and `means[1]·q`.

    Given the sum of the counts the first is binomial, and its Clopper–Pearson bound bounds p/q.
    """
    high, low = counts
    if high == 0:
        return -math.inf
    share = special.betaincinv(high, low + 1, error)
    rest = special.betainccinv(low + 1, high, error)
    return float(np.log(share) - np.log(rest) + np.log(means[1] / means[0]))


def smallest_excess(rates: Sequence[float], trial: float, error: float) -> float:
    """Return how far ln(p/q) must lie above a claim for a trial with this number of records to refute it with probability `POWER`."""
    return float(-(special.ndtri(error) + special.ndtri(1 - POWER)) * _ratio_deviation(rates[0], rates[1], trial))


def smoothed_rate(counts: Any, size: int) -> Any:
    """Return a frequency that is never 0 or 1: (count + ½)/(size + 1)."""
    return (counts + 0.5) / (size + 1)


def _ratio_deviation(high: Any, low: Any, trial: float) -> Any:
    """Return the standard deviation of the logarithm of the ratio of two Poisson counts under the best allocation."""
    return (1 / np.sqrt(high) + 1 / np.sqrt(low)) / math.sqrt(trial)


PILOT, SURVEY, TRIAL = 0.05, 0.25, 0.70
"""Shares of the sample: to find the outputs, to compare all labels, to test the best pair on new outputs."""


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
    >>> from labeldp.evaluate import measure
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
        The claimed ε.
    outputs : array of float, optional
        The outputs that may occur. If they are not given, a pilot sample finds them; many are grouped into intervals.
    samples : int
        The total number of outputs to draw, at least 100 for each label.
    confidence : float
        The probability that the bound is not above the true ε.
    seed : int, optional
        The seed of the sample sizes of the trial. It does not affect the randomizer.

    Returns
    -------
    Measurement

    Raises
    ------
    InvalidInput
        If there are too few labels or samples, or the randomizer does not give one output for each label.

    Privacy
    -------
    No true labels are used: the randomizer is run on the labels given here.

    Examples
    --------
    >>> from labeldp.evaluate import measure
    >>> from labeldp.mechanisms import RROnBins
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
    chosen = most_promising(counts, size, trial, half)
    rows = (chosen.high, chosen.low)
    rates = [smoothed_rate(int(counts[row, chosen.event].sum()), size) for row in rows]
    means = best_allocation(rates, trial)
    generator = np.random.default_rng(seed)
    tried = [
        int(events.count(call, points[row], int(generator.poisson(mean)))[chosen.event].sum())
        for row, mean in zip(rows, means, strict=True)
    ]
    best = max(
        survey(counts, size, half),
        replace(chosen, bound=ratio_bound(tried, means, half)),
        key=lambda found: found.bound,
    )
    return Measurement(
        epsilon_lower=max(0.0, best.bound),
        confidence=confidence,
        samples=samples,
        high_label=float(points[best.high]),
        low_label=float(points[best.low]),
        event=events.describe(best.event),
        smallest_excess=smallest_excess(rates, trial, half),
        epsilon_claimed=None if epsilon is None else exact_epsilon(epsilon),
    )
