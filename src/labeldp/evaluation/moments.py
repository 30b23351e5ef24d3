"""Numbers for the codes that estimate the label and its square."""

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels import visible_bias_factor
from labeldp.errors import InvalidInput
from labeldp.linear_algebra import svd
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.bias_variance import VISIBLE
from labeldp.priors import Prior

_EVEN_SHARE = 0.01
_LOOKS_ALIKE = 2e-3
"""The total variation distance up to which two labels count as looking alike."""


@dataclass(frozen=True, eq=False)
class MomentValues:
    """For each code, a number that estimates y and one that estimates y², where y is the label less some origin."""

    label: Floats
    square: Floats


def moment_values(
    mechanism: FiniteMechanism,
    records: int,
    visible: float = VISIBLE,
    origin: float = 0.0,
    even_share: float = _EVEN_SHARE,
    *,
    clipped: bool = False,
) -> MomentValues:
    """Numbers t and s for each code with E[t | y] = y and E[s | y] = y², y being the label less `origin`.

    An unbiased mechanism has such t, its outputs. Where there are none, the numbers are the best to average over this
    many `records`: their squared bias, as far as features that explain the share `visible` of the label can see it,
    plus their variance over `records` is least. The share `even_share` of the prior is replaced by an even one, because a
    private prior may miss labels that occur: the larger it is, the less bias there is at labels that the prior thinks rare.

    With `clipped`, t estimates the label clipped to the range in which labels can be told apart. Beyond it no number has
    E[t | y] = y for all labels, but t can be nearly unbiased for the clipped label.
    """
    prior = known_prior(mechanism)
    labels = prior.values - origin
    wanted = labels
    masses = (1 - even_share) * prior.masses + even_share / labels.size
    channel = mechanism.matrix(prior.values)
    if clipped:
        first, last = told_apart(channel)
        wanted = np.clip(labels, labels[first], labels[last])
    unit = max(float(np.abs(labels).max()), 1e-300)
    if mechanism.kind == "unbiased":
        label, visible, ridge = mechanism.outputs - origin, 1.0, 0.0
    else:
        ridge = 1 / records
        label = _least_squares_values(channel, wanted / unit, masses, visible, ridge) * unit
    square = _least_squares_values(channel, (labels / unit) ** 2, masses, visible, ridge) * unit**2
    return MomentValues(label, square)


def known_prior(mechanism: FiniteMechanism) -> Prior:
    """The mechanism's prior, or an error that says what it is needed for."""
    if mechanism.prior is None:
        raise InvalidInput(
            "noise can be taken out only with the prior of the mechanism, and this one has none. Design it from a prior."
        )
    return mechanism.prior


def told_apart(channel: Floats) -> tuple[int, int]:
    """The last of the first labels that look alike, and the first of the last ones."""
    distance = [np.abs(channel - channel[end]).sum(axis=1) / 2 > _LOOKS_ALIKE for end in (0, -1)]
    first, last = int(np.argmax(distance[0])) - 1, channel.shape[0] - int(np.argmax(distance[1][::-1]))
    return (first, last) if distance[0].any() and first < last else (0, channel.shape[0] - 1)


def _least_squares_values(channel: Floats, target: Floats, masses: Floats, visible: float, ridge: float) -> Floats:
    """Values v of least |F·(E[v | y] − target)|² + ridge·Var(v), with E[v] = E[target] under the prior.

    F is `visible_bias_factor`: it keeps the part of a bias that features can see.
    """
    share_root = np.sqrt(masses @ channel)
    center = float(masses @ target)
    # The unknowns are √share·(v − E[v]), share being the probability of each code: Var(v) is then their squared norm.
    both = np.column_stack([channel / share_root - share_root, target - center])
    seen = np.sqrt(masses)[:, None] * both if visible >= 1 else visible_bias_factor(masses, visible) @ both
    left, strength, right = svd(seen[:, :-1])
    kept = strength > 1e-7 * strength[0]
    weight = strength[kept] / (strength[kept] ** 2 + ridge)
    solved = right[kept].T @ (weight * (left[:, kept].T @ seen[:, -1]))
    solved -= share_root * (share_root @ solved)
    return np.asarray(center + solved / share_root)
