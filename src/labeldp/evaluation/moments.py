"""Numbers for the codes that estimate the label and its square."""

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels import visible_bias_factor
from labeldp.errors import InvalidInput
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.bias_variance import VISIBLE
from labeldp.priors import Prior

_EVEN_SHARE = 0.01
"""How much of the prior is replaced by an even one: a private prior may miss labels that occur."""


@dataclass(frozen=True, eq=False)
class MomentValues:
    """For each code, a number that estimates y and one that estimates y², where y is the label less some origin."""

    label: Floats
    square: Floats


def moment_values(
    mechanism: FiniteMechanism, records: int, visible: float = VISIBLE, origin: float = 0.0
) -> MomentValues:
    """Numbers t and s for each code with E[t | y] = y and E[s | y] = y², y being the label less `origin`.

    An unbiased mechanism has such t, its outputs. Where there are none, the numbers are the best to average over this
    many `records`: their squared bias, as far as features that explain the share `visible` of the label can see it,
    plus their variance over `records` is least.
    """
    prior = known_prior(mechanism)
    labels = prior.values - origin
    masses = (1 - _EVEN_SHARE) * prior.masses + _EVEN_SHARE / labels.size
    channel = mechanism.matrix(prior.values)
    unit = max(float(np.abs(labels).max()), 1e-300)
    if mechanism.kind == "unbiased":
        label, visible, ridge = mechanism.outputs - origin, 1.0, 0.0
    else:
        ridge = 1 / records
        label = _least_squares_values(channel, labels / unit, masses, visible, ridge) * unit
    square = _least_squares_values(channel, (labels / unit) ** 2, masses, visible, ridge) * unit**2
    return MomentValues(label, square)


def known_prior(mechanism: FiniteMechanism) -> Prior:
    """The mechanism's prior, or an error that says what it is needed for."""
    if mechanism.prior is None:
        raise InvalidInput(
            "noise can be taken out only with the prior of the mechanism, and this one has none. Design it from a prior."
        )
    return mechanism.prior


def _least_squares_values(channel: Floats, target: Floats, masses: Floats, visible: float, ridge: float) -> Floats:
    """Values v of least |F·(E[v | y] − target)|² + ridge·Var(v), with E[v] = E[target] under the prior.

    F is `visible_bias_factor`: it keeps the part of a bias that features can see.
    """
    share_root = np.sqrt(masses @ channel)
    center = float(masses @ target)
    # The unknowns are √share·(v − E[v]), share being the probability of each code: Var(v) is then their squared norm.
    both = np.column_stack([channel / share_root - share_root, target - center])
    seen = np.sqrt(masses)[:, None] * both if visible >= 1 else visible_bias_factor(masses, visible) @ both
    left, strength, right = np.linalg.svd(seen[:, :-1], full_matrices=False)
    kept = strength > 1e-7 * strength[0]
    weight = strength[kept] / (strength[kept] ** 2 + ridge)
    solved = right[kept].T @ (weight * (left[:, kept].T @ seen[:, -1]))
    solved -= share_root * (share_root @ solved)
    return np.asarray(center + solved / share_root)
