"""Values for codes that estimate the label and its square."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels import visible_bias_factor
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.auto import VISIBLE

_UNSURE = 0.01


@dataclass(frozen=True, eq=False)
class MomentValues:
    """For each code a number that estimates the label and one that estimates its square."""

    label: Floats
    square: Floats


def moment_values(
    mechanism: FiniteMechanism, records: int, visible: float = VISIBLE, zero: float = 0.0
) -> MomentValues:
    """Values whose means are y and y²; where the mechanism has none, the best ones to average over `records` codes.

    With `zero`, they are those of y − zero.
    """
    prior = mechanism.prior
    if prior is None:
        raise InvalidInput("a noise-corrected error needs the mechanism's prior, and this mechanism carries none")
    labels = prior.values - zero
    # A private prior may miss labels that are there: every one counts a little.
    masses = (1 - _UNSURE) * prior.masses + _UNSURE / labels.size
    channel = mechanism.matrix(prior.values)
    unit = max(float(np.abs(labels).max()), 1e-300)
    if mechanism.kind == "unbiased":
        return MomentValues(
            mechanism.outputs - zero, _decoded(channel, (labels / unit) ** 2, masses, visible=1, ridge=0) * unit**2
        )
    label = _decoded(channel, labels / unit, masses, visible, 1 / records) * unit
    return MomentValues(label, _decoded(channel, (labels / unit) ** 2, masses, visible, 1 / records) * unit**2)


def _decoded(channel: Floats, target: Floats, masses: Floats, visible: float, ridge: float) -> Floats:
    """Values v of least |F·(E[v | y] − target)|² + ridge·Var(v), with E[v] = E[target] under the prior.

    F is the factor of `visible_bias_matrix`: it keeps of a bias what features can see.
    """
    share = masses @ channel
    root = np.sqrt(share)
    center = float(masses @ target)
    # In values less their mean, times √share, the variance is a plain norm and the mean a direction, √share itself.
    both = np.column_stack([channel / root - root, target - center])
    seen = np.sqrt(masses)[:, None] * both if visible >= 1 else visible_bias_factor(masses, visible) @ both
    left, strength, right = np.linalg.svd(seen[:, :-1], full_matrices=False)
    kept = strength > 1e-7 * strength[0]
    weight = strength[kept] / (strength[kept] ** 2 + ridge)
    solved = right[kept].T @ (weight * (left[:, kept].T @ seen[:, -1]))
    solved -= root * (root @ solved)
    return np.asarray(center + solved / root)
