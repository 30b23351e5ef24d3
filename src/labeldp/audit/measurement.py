"""A lower bound on the ε of any randomizer from its outputs alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from labeldp.audit.events import Events, Floats, Randomize, count_events, draw
from labeldp.budget import Epsilon, exact, float_up
from labeldp.errors import InvalidInput, PrivacyRefused

PILOT, SURVEY, TRIAL = 0.05, 0.25, 0.70
"""Shares of the sample: to learn the outputs, to look at all pairs, to try the worst pair on fresh outputs."""

POWER = 0.99
"""How surely `smallest_excess` would be found."""

_CANDIDATES = 256


@dataclass(frozen=True)
class Measurement:
    """With the confidence stated, the randomizer's ε is at least `epsilon_lower`.

    The witness: outputs in `event` come more often from `high_label` than from `low_label`. `smallest_excess` is how
    far ε would have to lie above the claim (above the bound, if nothing was claimed) for a sample of this size to show
    it 99 times in 100, at this pair.
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
    def accused(self) -> bool:
        """Whether the claimed ε is refuted."""
        return self.epsilon_claimed is not None and self.epsilon_lower > float_up(self.epsilon_claimed)

    def require(self) -> Measurement:
        """Itself unless the claim is refuted."""
        if self.accused:
            raise PrivacyRefused(str(self))
        return self

    def __str__(self) -> str:
        bound = (
            f"epsilon is at least {self.epsilon_lower:.6g} with confidence {self.confidence:.10g} "
            f"({self.samples:,} samples; outputs {self.event}; label {self.high_label:g} against {self.low_label:g})"
        )
        reach = f"An excess of {self.smallest_excess:.3g} would have shown 99 times in 100."
        if self.epsilon_claimed is None:
            return f"{bound}. {reach}"
        verdict = "REFUTED" if self.accused else "not refuted"
        return f"claimed epsilon = {float_up(self.epsilon_claimed):.6g} is {verdict}: {bound}. {reach}"


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
    """Audit a randomizer: a lower bound on its ε over all pairs of `labels` and all outputs.

    `randomize` maps an array of labels to one output each, independently for each record; or it is a mechanism, whose
    outputs and ε are then taken from it. Many distinct outputs are grouped into intervals, a post-processing.

    Guarantee: the bound exceeds the true ε with probability at most `1 - confidence`, for any randomizer. A share of
    the sample surveys every label, where Clopper–Pearson bounds hold for all labels and outputs at once (a union bound
    over them, half of the error probability). From the survey the most telling pair and set of outputs is chosen and
    tried on fresh outputs with the other half. There the numbers of records are Poisson, so that the two counts are
    independent Poisson variables, the higher one given their sum is binomial, and one Clopper–Pearson bound on its
    share bounds the ratio of the two probabilities exactly. The larger of both bounds is returned.
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence}")
    table = getattr(randomize, "table", None)
    if table is not None or hasattr(randomize, "epsilon_exact"):
        epsilon = randomize.epsilon_exact if epsilon is None else epsilon
        outputs = randomize.outputs if outputs is None and table is not None else outputs
    call: Randomize = randomize if callable(randomize) else randomize.randomize
    points = np.unique(np.asarray(labels, dtype=np.float64).reshape(-1))
    _check_sizes(points, samples)
    half = (1 - confidence) / 2
    events = Events.of_values(outputs) if outputs is not None else _pilot_events(call, points, int(PILOT * samples))
    size = int(SURVEY * samples) // points.size
    counts = np.stack([count_events(call, label, size, events) for label in points])
    trial = _expected_records(samples if outputs is None else samples * (TRIAL + PILOT) / TRIAL)
    chosen = _most_telling(counts, size, trial, half)
    rates = (_event_rate(counts[chosen.high], chosen, size), _event_rate(counts[chosen.low], chosen, size))
    means = _allocation(rates, trial)
    generator = np.random.default_rng(seed)
    high, low = (
        int(count_events(call, points[row], int(generator.poisson(mean)), events)[chosen.event].sum())
        for row, mean in zip((chosen.high, chosen.low), means, strict=True)
    )
    tried = replace(chosen, bound=_ratio_bound((high, low), means, half))
    best = max(_survey(counts, size, half), tried, key=lambda witness: witness.bound)
    return Measurement(
        epsilon_lower=max(0.0, best.bound),
        confidence=confidence,
        samples=samples,
        high_label=float(points[best.high]),
        low_label=float(points[best.low]),
        event=events.describe(best.event),
        smallest_excess=_excess(*rates, trial, half),
        epsilon_claimed=None if epsilon is None else exact(epsilon),
    )


def smallest_excess(
    high_probability: float, low_probability: float, *, samples: int, confidence: float = 0.95
) -> float:
    """How much above the claimed ε a randomizer must lie for `measure` to show it 99 times in 100.

    The probabilities are those of one output from the two labels where their ratio is largest; for RR-on-Bins with d
    outputs e^ε/(e^ε + d − 1) and 1/(e^ε + d − 1).
    """
    if not 0 < low_probability <= high_probability <= 1:
        raise InvalidInput("probabilities must satisfy 0 < low <= high <= 1")
    return _excess(high_probability, low_probability, _expected_records(samples), (1 - confidence) / 2)


def _check_sizes(points: Floats, samples: int) -> None:
    if points.size < 2 or not np.isfinite(points).all():
        raise InvalidInput("an audit compares at least two different labels, all finite")
    if samples < 100 * points.size:
        raise InvalidInput(f"{points.size} labels need at least {100 * points.size} samples, got {samples}")


def _pilot_events(call: Randomize, points: Floats, samples: int) -> Events:
    per_label = max(1, samples // points.size)
    return Events.from_pilot(np.concatenate([part for label in points for part in draw(call, label, per_label)]))


@dataclass(frozen=True, eq=False)
class _Witness:
    """A bound on the logarithm of the ratio of one event's probabilities from two labels, by their row numbers."""

    bound: float
    high: int
    low: int
    event: NDArray[np.intp]


def _survey(counts: NDArray[np.int64], size: int, error: float) -> _Witness:
    """The largest ratio of a lower to an upper Clopper–Pearson bound; all of them hold at once."""
    each = error / (2 * counts.size)
    lower = np.where(counts > 0, special.betaincinv(np.maximum(counts, 1), size - counts + 1, each), 0.0)
    upper = np.where(counts < size, special.betainccinv(counts + 1, np.maximum(size - counts, 1), each), 1.0)
    ratios = lower.max(axis=0) / upper.min(axis=0)
    column = int(ratios.argmax())
    bound = math.log(ratios[column]) if ratios[column] > 0 else -math.inf
    return _Witness(bound, int(lower[:, column].argmax()), int(upper[:, column].argmin()), np.array([column]))


def _most_telling(counts: NDArray[np.int64], size: int, trial: float, error: float) -> _Witness:
    """The pair of labels and the outputs for which the trial may be expected to give the largest bound.

    For the pairs where some single output promises most, outputs join the event in the order of their ratio as long as
    that raises the promise. This only chooses; being wrong costs power, not validity.
    """
    rates = _rate(counts, size)

    def promise(high: Any, low: Any) -> Any:
        """What the trial's bound will exceed if the survey was two standard deviations too high."""
        luck = np.sqrt((1 / high + 1 / low) / size)
        return np.log(high / low) - 2 * luck - _quantile(error) * _spread(high, low, trial)

    pairs: list[tuple[float, int, int]] = []
    for high in range(len(counts)):
        single = promise(rates[high], rates).max(axis=1)
        pairs += [
            (float(single[low]), high, int(low))
            for low in np.argsort(single, kind="stable")[-_CANDIDATES:]
            if low != high
        ]
    best = _Witness(-math.inf, 0, 1, np.arange(1))
    for _, high, low in sorted(pairs)[-_CANDIDATES:]:
        order = np.argsort(-rates[high] / rates[low], kind="stable")
        promises = promise(*(_rate(np.cumsum(counts[row, order]), size) for row in (high, low)))
        end = int(promises.argmax())
        if promises[end] > best.bound:
            best = _Witness(float(promises[end]), high, low, order[: end + 1])
    return best


def _expected_records(samples: float) -> float:
    """The Poisson mean of the trial, low enough that the total practically never exceeds what was asked for."""
    share = TRIAL * samples
    return share - 5 * math.sqrt(share)


def _allocation(rates: tuple[float, float], trial: float) -> tuple[float, float]:
    """Expected records of each label: in proportion to 1/√p the logarithm of the ratio varies least."""
    high, low = (1 / math.sqrt(rate) for rate in rates)
    return trial * high / (high + low), trial * low / (high + low)


def _ratio_bound(counts: tuple[int, int], means: tuple[float, float], error: float) -> float:
    """The lower bound on ln(p/q) from independent Poisson counts of mean `means[0]·p` and `means[1]·q`."""
    high, low = counts
    if high == 0:
        return -math.inf
    share = special.betaincinv(high, low + 1, error)
    rest = special.betainccinv(low + 1, high, error)
    return float(np.log(share) - np.log(rest) + np.log(means[1] / means[0]))


def _event_rate(counts: NDArray[np.int64], witness: _Witness, size: int) -> float:
    return float(_rate(counts[witness.event].sum(), size))


def _rate(counts: Any, size: int) -> Any:
    """A frequency that is never 0 or 1."""
    return (counts + 0.5) / (size + 1)


def _spread(high: Any, low: Any, trial: float) -> Any:
    """The standard deviation of the logarithm of the ratio of two Poisson counts under the best allocation."""
    return (1 / np.sqrt(high) + 1 / np.sqrt(low)) / math.sqrt(trial)


def _excess(high: float, low: float, trial: float, error: float) -> float:
    return float((_quantile(error) + _quantile(1 - POWER)) * _spread(high, low, trial))


def _quantile(error: float) -> float:
    return float(-special.ndtri(error))
