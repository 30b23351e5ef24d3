"""The least-weight path for a Monge cost, compiled.

A step from node r to node i costs `step_cost − price`. A queue holds the left ends that are best from some place on, and bisection
finds the place where one takes over from another. This takes O(n log n) cost evaluations, and O(n) memory beside the tables
(Galil and Park, "Dynamic programming with convexity, concavity and sparsity", 1992).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.binning._compiled import compiled, internal, step_cost, step_output
from labeldp.binning._double_double import two_sum

Nodes = npt.NDArray[np.int64]


@compiled
def least_weight_path(tables: Any, nodes: Nodes, price: float) -> Nodes:
    """The path with the least total `step_cost − price` from the first of `nodes` to the last, using any of the others.

    In a tie the earlier left end wins.
    """
    n = nodes.size - 1
    best = np.zeros(n + 1)
    parent = np.zeros(n + 1, dtype=np.int64)
    ends = np.zeros(n + 1, dtype=np.int64)  # the queue: left ends, and the place from which on each is the best
    since = np.zeros(n + 1, dtype=np.int64)
    head, tail, guess = 0, 0, 0
    for j in range(1, n + 1):
        while head < tail and since[head + 1] <= j:
            head += 1
        left = ends[head]
        best[j] = best[left] + step_cost(tables, nodes[left], nodes[j]) - price
        parent[j] = left
        if j == n:
            break
        start, known = j + 1, n + 1  # j is known to be the best from `known` on
        while tail >= head:
            start = max(since[tail], j + 1)
            if not _wins(tables, nodes, best, (j, ends[tail]), start):
                break
            known = start
            tail -= 1
        if tail < head:
            tail = head
            ends[tail], since[tail] = j, j + 1
            continue
        if known > n:
            if start == n or not _wins(tables, nodes, best, (j, ends[tail]), n):
                continue
            known = n
        guess = _takeover(tables, nodes, best, (j, ends[tail]), (start, known, guess))
        tail += 1
        ends[tail], since[tail] = j, guess
    return nodes[_walk_back(parent)]


@compiled
def follow(tables: Any, path: Nodes) -> tuple[float, Floats]:
    """The total step cost of a path, with compensated summation, and the output of each step."""
    total, low = 0.0, 0.0
    outputs = np.empty(path.size - 1)
    for place in range(path.size - 1):
        r, i = path[place], path[place + 1]
        total, rest = two_sum(total, step_cost(tables, r, i))
        low += rest
        outputs[place] = step_output(tables, r, i)
    return total + low, outputs


@internal
def _wins(tables: Any, nodes: Nodes, best: Floats, rivals: tuple[int, int], i: int) -> bool:
    """Whether the later of two left ends is strictly better at place i. If so, it is at all later places too."""
    young, old = rivals
    with_young = best[young] + step_cost(tables, nodes[young], nodes[i])
    return bool(with_young < best[old] + step_cost(tables, nodes[old], nodes[i]))


@internal
def _takeover(tables: Any, nodes: Nodes, best: Floats, rivals: tuple[int, int], within: tuple[int, int, int]) -> int:
    """The first place where the later left end wins. `within` has a place where it does not, one where it does, and a guess.

    Neighbouring left ends take over at neighbouring places, so the search starts at the last one found, with growing steps.
    """
    low, high, guess = within
    if low < guess < high:
        step = 1
        if _wins(tables, nodes, best, rivals, guess):
            high = guess
            while high - step > low and _wins(tables, nodes, best, rivals, high - step):
                high -= step
                step *= 2
            low = max(low, high - step)
        else:
            low = guess
            while low + step < high and not _wins(tables, nodes, best, rivals, low + step):
                low += step
                step *= 2
            high = min(high, low + step)
    while high - low > 1:
        middle = (low + high) >> 1
        if _wins(tables, nodes, best, rivals, middle):
            high = middle
        else:
            low = middle
    return high


@internal
def _walk_back(parent: Nodes) -> Nodes:
    """The path to the last node, from the parent of each."""
    node, count = parent.size - 1, 1
    while node > 0:
        node = parent[node]
        count += 1
    path = np.empty(count, dtype=np.int64)
    node = parent.size - 1
    for place in range(count - 1, -1, -1):
        path[place] = node
        node = parent[node]
    return path
