"""Exact and high-precision answers to compare the optimiser with, and priors made to be hard on doubles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import exact_epsilon, exp_lower
from labeldp.losses import Huber, get_loss
from labeldp.paper.optimality import ReferenceBins, algorithm_2, minimiser
from labeldp.priors import Prior

LOGARITHMIC = {"poisson", "gamma", "squared-log"}
PRECISION = 2300  # bits: a mass of 1e-300 beside one of 1 moves a mean by 1e-300 of a distance, and that squared


@dataclass(frozen=True)
class Case:
    prior: Prior
    epsilon: float

    def __str__(self) -> str:
        return f"values={self.prior.values.tolist()}, masses={self.prior.masses.tolist()}, epsilon={self.epsilon!r}"


def exact_optimum(prior: Prior, epsilon: float, loss: str) -> ReferenceBins:
    """Algorithm 2 in fractions, or in 2,300-bit numbers where logarithms come in."""
    rule = get_loss(loss)
    positive = prior.masses > 0
    values, masses = prior.values[positive].tolist(), prior.masses[positive].tolist()
    e = exp_lower(exact_epsilon(epsilon))
    if rule.name in LOGARITHMIC:
        points = [mpmath.mpf(y) for y in values]
        high_e = mpmath.mpf(e.numerator) / e.denominator
        return algorithm_2(points, [mpmath.mpf(p) for p in masses], high_e, _logarithmic(rule.name, points))
    minimise = _huber(Fraction(rule.delta)) if isinstance(rule, Huber) else minimiser(rule)
    return algorithm_2([Fraction(y) for y in values], [Fraction(p) for p in masses], e, minimise)


def rounded_optimum(prior: Prior, epsilon: float, loss: str, best: ReferenceBins) -> mpmath.mpf:
    """What the exact optimum costs once its outputs are rounded to doubles, in 2,300-bit numbers."""
    value = FORMULAS[loss]
    positive = prior.masses > 0
    values = [mpmath.mpf(y) for y in prior.values[positive]]
    masses = [mpmath.mpf(p) for p in prior.masses[positive]]
    exact_outputs = [mpmath.expm1(o) for o in best.outputs] if loss == "squared-log" else best.outputs
    outputs = [mpmath.mpf(float(o)) for o in exact_outputs]
    e = number(exp_lower(exact_epsilon(epsilon)))
    total = mpmath.mpf(0)
    for output, start, end in zip(outputs, best.starts, [*best.starts[1:], len(values)], strict=True):
        for j, (y, p) in enumerate(zip(values, masses, strict=True)):
            total += (e if start <= j < end else 1) * p * value(output, y)
    return total / (e + len(outputs) - 1) / sum(masses)


def number(value: Fraction | mpmath.mpf) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else +value


def _huber_value(f, y):
    distance = abs(f - y)
    near = min(distance, mpmath.mpf(1.5))
    return near * near / 2 + mpmath.mpf(1.5) * (distance - near)


FORMULAS = {
    "squared": lambda f, y: (f - y) ** 2,
    "absolute": lambda f, y: abs(f - y),
    "pinball(0.3)": lambda f, y: mpmath.mpf(0.3) * (y - f) if y >= f else mpmath.mpf(1 - 0.3) * (f - y),
    "huber(1.5)": _huber_value,
    "poisson": lambda f, y: 2 * ((y * mpmath.log(y / f) if y > 0 else 0) - (y - f)),
    "gamma": lambda f, y: 2 * (y / f - 1 - mpmath.log(y / f)),
    "squared-log": lambda f, y: (mpmath.log1p(f) - mpmath.log1p(y)) ** 2,
}
LOSSES = list(FORMULAS)


def _logarithmic(name, points):
    """Closed forms with one logarithm per interval; the cancellation in them is what the precision is for."""
    if name == "squared-log":
        scale = [mpmath.log1p(y) for y in points]
        return lambda values, weights: minimiser(get_loss("squared"))(scale, weights)
    log = [mpmath.log(y) if y > 0 else mpmath.mpf(0) for y in points]

    def minimise(values, weights):
        total = sum(weights)
        first = sum(w * y for w, y in zip(weights, values, strict=True))
        mean = first / total
        if mean == 0:
            return mean, mpmath.mpf(0)
        if name == "poisson":
            entropy = sum(w * y * g for w, y, g in zip(weights, values, log, strict=True))
            return mean, 2 * (entropy - first * mpmath.log(mean))
        return mean, 2 * (total * mpmath.log(mean) - sum(w * g for w, g in zip(weights, log, strict=True)))

    return minimise


def _huber(delta):
    def minimise(values, weights):
        knots = sorted({y + side for y in values for side in (-delta, delta)})

        def slope(output):
            return sum(w * max(-delta, min(delta, output - y)) for w, y in zip(weights, values, strict=True))

        low, high = -1, len(knots) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if slope(knots[middle]) >= 0 else (middle, high)
        output = knots[high]
        if low >= 0:
            before, after = slope(knots[low]), slope(knots[high])
            output = knots[low] + (knots[high] - knots[low]) * before / (before - after)
        loss = 0
        for w, y in zip(weights, values, strict=True):
            distance = abs(output - y)
            near = min(distance, delta)
            loss += w * (near * near / 2 + delta * (distance - near))
        return output, loss

    return minimise


def hard_case(rng: np.random.Generator, loss: str, max_size: int = 12) -> Case:
    """A random prior and ε: ties, gaps, one point, masses from 1e-300 to 1, values near 1e9, ε from 0.001 to 20."""
    k = int(rng.integers(1, max_size + 1))
    values = _values(rng, k)
    if loss == "gamma":
        values = values + 0.5
    masses = _masses(rng, k)
    epsilon = float(rng.choice([0.001, 20.0, round(10 ** rng.uniform(-3, math.log10(20)), 6), rng.integers(1, 21)]))
    return Case(Prior(values, masses), epsilon)


def _values(rng: np.random.Generator, k: int) -> Floats:
    style = rng.integers(7)
    if style == 0:
        return np.sort(rng.random(k)) * 100
    if style == 1:
        return np.arange(k, dtype=np.float64)
    if style == 2:  # gaps
        return np.sort(rng.choice(1000, size=k, replace=False)).astype(np.float64)
    if style == 3:  # near a billion
        return 1e9 + np.sort(rng.choice(400, size=k, replace=False)) / 4
    if style == 4:  # a cluster near zero and one near a billion
        points = np.sort(rng.choice(400, size=k, replace=False)) / 4
        return points + np.where(np.arange(k) >= rng.integers(0, k + 1), 1e9, 0.0)
    if style == 5:  # many orders of magnitude
        return np.sort(10 ** rng.uniform(-4, 7, size=k))
    return np.cumsum(10 ** rng.uniform(-3, 3, size=k))


def _masses(rng: np.random.Generator, k: int) -> Floats:
    style = rng.integers(6)
    if style == 0:
        return np.ones(k)
    if style == 1:
        return rng.random(k) + 1e-3
    if style == 2:
        return 10 ** rng.uniform(-300, 0, size=k)
    if style == 3:  # one heavy label among dust
        masses = 10 ** rng.uniform(-300, -250, size=k)
        masses[rng.integers(k)] = 1.0
        return masses
    if style == 4:
        return 10 ** rng.uniform(-15, 0, size=k)
    return rng.integers(1, 4, size=k).astype(np.float64)
