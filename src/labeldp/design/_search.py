"""The least-weight path for a Monge cost, compiled.

A step from node r to node i costs `step_cost − price`. A queue holds the left ends that are best from some index on,
and bisection finds the index where one takes over from another. This takes O(n log n) cost evaluations, and O(n) memory
besides the tables (Galil and Park, "Dynamic programming with convexity, concavity and sparsity", 1992).

numba chooses the cost at compile time by the type of the tables. Each cost keeps its numbers in its own NamedTuple and
registers two compiled functions for that type. The search is compiled once per type with the cost inlined, so a new
cost does not change it.

Sums and products are carried as an unevaluated pair (high, low) of doubles: about 106 bits. These are the classical error-free
transformations (Knuth's sum, the product by fused multiply-add). Prefix sums need them: the sum over a bin is a difference of two
prefix sums, and at ε = 20 it is multiplied by 5·10⁸.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba as nb
import numpy as np
import numpy.typing as npt
from numba.extending import intrinsic, overload

from labeldp.arrays import Floats
from labeldp.losses import standard

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile on the first call, and keep the machine code on disk for the next process."""
    result: _Function = nb.njit(cache=True)(function)
    return result


def internal(function: _Function) -> _Function:
    """Compile a function that only compiled code calls. It becomes part of the caller's machine code."""
    result: _Function = nb.njit(function)
    return result


def step_cost(tables: Any, r: int, i: int) -> float:
    """Return the cost of the step from node r to node i > r: a Monge function."""
    raise NotImplementedError


def step_output(tables: Any, r: int, i: int) -> float:
    """Return the output of the bin between nodes r and i, on the scale of the tables."""
    raise NotImplementedError


def register(kind: type, cost: Callable[..., float], output: Callable[..., float]) -> None:
    """Make `step_cost` and `step_output` call these functions for tables of this type."""
    for function, implementation in ((step_cost, cost), (step_output, output)):
        _dispatch(function, kind, implementation)


def _dispatch(function: Callable[..., float], kind: type, implementation: Callable[..., float]) -> None:
    def call(tables: Any, r: Any, i: Any) -> Any:
        return implementation(tables, r, i)

    def choose(tables: Any, r: Any, i: Any) -> Any:  # noqa: ARG001 - numba compares the two signatures
        return call if getattr(tables, "instance_class", None) is kind else None

    overload(function)(choose)


def forget_stale_code(room: Path, *others: Path) -> None:
    """Delete machine code that is older than a source file in its folder or in one of the other folders.

    numba compares the code only with the function's own file, but functions are inlined across files.
    """
    newest = max(source.stat().st_mtime for source in (*room.glob("_*.py"), *others))
    for index in (room / "__pycache__").glob("_*.nbi"):
        with contextlib.suppress(OSError):  # another process deleted it first, or the folder is read-only
            if index.stat().st_mtime < newest:
                index.unlink()


forget_stale_code(Path(__file__).parent, Path(standard.__file__))


Pair = tuple[float, float]


@intrinsic  # type: ignore[untyped-decorator]
def fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Return the product a·b plus c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.fma(*arguments)

    return nb.float64(nb.float64, nb.float64, nb.float64), generate


@internal
def two_sum(a: float, b: float) -> Pair:
    """Return the rounded sum of a and b, and its rounding error, exactly."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


@internal
def two_product(a: float, b: float) -> Pair:
    """Return the rounded product of a and b, and its rounding error, exactly."""
    high = a * b
    return high, fused(a, b, -high)


@internal
def add(a_high: float, a_low: float, b_high: float, b_low: float) -> Pair:
    """Return the sum of two pairs."""
    high, low = two_sum(a_high, b_high)
    low += a_low + b_low
    total = high + low
    return total, low - (total - high)


@internal
def times(a_high: float, a_low: float, b: float) -> Pair:
    """Return a pair times a double."""
    high, low = two_product(a_high, b)
    low = fused(a_low, b, low)
    total = high + low
    return total, low - (total - high)


@internal
def product(a_high: float, a_low: float, b_high: float, b_low: float) -> Pair:
    """Return the product of two pairs."""
    high, low = two_product(a_high, b_high)
    low += a_high * b_low + a_low * b_high
    total = high + low
    return total, low - (total - high)


@internal
def quotient(a_high: float, a_low: float, b_high: float, b_low: float) -> Pair:
    """Return the quotient of two pairs."""
    first = a_high / b_high
    back_high, back_low = times(b_high, b_low, first)
    rest_high, rest_low = add(a_high, a_low, -back_high, -back_low)
    return two_sum(first, (rest_high + rest_low) / b_high)


Nodes = npt.NDArray[np.int64]


@compiled
def least_weight_path(tables: Any, nodes: Nodes, price: float) -> Nodes:
    """Return the path with the least total `step_cost − price` from the first of `nodes` to the last, using any of the others.

    In a tie the earlier left end wins.
    """
    n = nodes.size - 1
    best = np.zeros(n + 1)
    parent = np.zeros(n + 1, dtype=np.int64)
    ends = np.zeros(n + 1, dtype=np.int64)  # the queue: left ends, and the index from which each is the best
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
    """Return the total step cost of a path, with compensated summation, and the output of each step."""
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
    """Return whether the later of two left ends is strictly better at index i. If so, it is also better at all later indices."""
    young, old = rivals
    with_young = best[young] + step_cost(tables, nodes[young], nodes[i])
    return bool(with_young < best[old] + step_cost(tables, nodes[old], nodes[i]))


@internal
def _takeover(tables: Any, nodes: Nodes, best: Floats, rivals: tuple[int, int], within: tuple[int, int, int]) -> int:
    """Return the first index where the later left end wins. `within` has an index where it loses, one where it wins, and a guess.

    Neighbouring left ends take over at neighbouring indices, so the search starts at the last one found, with growing steps.
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
    """Return the path to the last node, from the parent of each."""
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
