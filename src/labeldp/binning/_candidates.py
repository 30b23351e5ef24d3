"""Step costs for any loss over a finite set of candidate outputs.

A step from output u to the next chosen output v costs `G(v) + c·H(u, v)`. G is the loss of all labels at v. H is the loss of the
labels between u and v, each at the better of the two. Losses are cumulated outwards from each output, so that H is a sum of
two stored numbers and nothing is subtracted.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.binning._compiled import compiled, internal, register

Counts = npt.NDArray[np.int64]


@compiled
def outward_sums(losses: Floats, masses: Floats, split: Counts) -> Floats:
    """For each output, sums of p·ℓ upwards over the labels above it, and downwards over the labels at or below it."""
    m, k = losses.shape
    sums = np.empty((m, k))
    for o in range(m):
        first = split[o]
        total = 0.0
        for i in range(first, k):
            total += masses[i] * losses[o, i]
            sums[o, i] = total
        total = 0.0
        for i in range(first - 1, -1, -1):
            total += masses[i] * losses[o, i]
            sums[o, i] = total
    return sums


class CandidateTables(NamedTuple):
    """The losses and their outward sums (outputs × labels), G, the number of labels at or below each output, and c = e^ε − 1."""

    losses: Floats
    sums: Floats
    everything: Floats
    split: Counts
    c: float


@internal
def _cost(t: CandidateTables, u: int, v: int) -> float:
    """The cost of the step from node u to node v. Node 0 is the start and node m + 1 the end; neither is an output."""
    m, k = t.losses.shape
    low = t.split[u - 1] if u > 0 else 0
    if v == m + 1:
        if u == 0:
            return math.inf
        return float(t.c * t.sums[u - 1, k - 1]) if low < k else 0.0
    high = t.split[v - 1]
    if u == 0:
        return float(t.everything[v - 1] + (t.c * t.sums[v - 1, 0] if high > 0 else 0.0))
    first, last = low - 1, high  # the first label that loses less at v than at u, by bisection
    while last - first > 1:
        middle = (first + last) >> 1
        if t.losses[u - 1, middle] > t.losses[v - 1, middle]:
            last = middle
        else:
            first = middle
    part = t.sums[u - 1, last - 1] if last > low else 0.0
    if last < high:
        part += t.sums[v - 1, last]
    return float(t.everything[v - 1] + t.c * part)


@internal
def _output(t: CandidateTables, u: int, v: int) -> float:  # noqa: ARG001 - the node itself is the output
    return float(v)


register(CandidateTables, _cost, _output)
