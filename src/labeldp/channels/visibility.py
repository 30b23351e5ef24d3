"""How much of a bias a model can see: labels that features cannot tell apart share their bias on average."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from labeldp.arrays import Floats

REVEALED_SHARE = 0.02
"""The share of records whose features are taken to tell the label itself."""
_NODES = 401


def visible_part(masses: Floats, visible: float) -> Floats:
    """The matrix J with b'Jb = E[(E[b(y) | x])²], for features x that explain the share `visible` of the label.

    A model is fitted to E[ŷ | x], so of a bias b(y) it keeps E[b(y) | x]. What x says about y is unknown when labels are
    randomized. The stand-in: x is a normal number whose correlation with the label's normal score is √visible (a
    Gaussian copula), except that it is the label itself for TOLD of the records. Smooth biases pass, sawteeth average
    out unless they are large. J[i, l] is the chance that two records with the same x have labels i and l; it is positive
    definite, sums to one, and for `visible` = 1 it is diag(masses), so that the pointwise squared bias is the special case.
    """
    if visible >= 1:
        return np.diag(masses)
    factor = _copula(masses, visible)
    joint: Floats = (1 - REVEALED_SHARE) * (factor.T @ factor) + REVEALED_SHARE * np.diag(masses)
    return joint


def visible_factor(masses: Floats, visible: float) -> Floats:
    """A matrix F with J = F'F: a row is √weight times the distribution of labels at one value of x."""
    label = np.diag(np.sqrt(masses))
    if visible >= 1:
        return label
    return np.vstack([np.sqrt(1 - REVEALED_SHARE) * _copula(masses, visible), np.sqrt(REVEALED_SHARE) * label])


def _copula(masses: Floats, visible: float) -> Floats:
    edges = ndtri(np.clip(np.r_[0.0, np.cumsum(masses)[:-1], 1.0], 0.0, 1.0))
    signal = np.linspace(-5, 5, _NODES)
    weight = np.exp(-(signal**2) / 2)
    below = ndtr((edges - np.sqrt(visible) * signal[:, None]) / np.sqrt(1 - visible))
    factor: Floats = np.diff(below, axis=1) * np.sqrt(weight / weight.sum())[:, None]
    return factor
