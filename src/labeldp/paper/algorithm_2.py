"""The paper's Algorithm 2 as printed, in O(k³), with any kind of numbers. For study, and to check the fast optimiser.

With `Fraction`s (for e^ε too) the answer is exact; with floats it is rounded. Two slips of the paper are corrected: the
running time is O(k³), not O(k²), because A[i][j] is a minimum over r; and the squared loss of a bin ends in W·ŷ² with W
the total weight, where the appendix has ŷ². See docs/concepts/optimal-bins.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.errors import InvalidInput
from labeldp.losses import Loss
from labeldp.losses.structure import Deviance, PinballDistance, SquaredDistance

Minimiser = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]]
"""Takes values and weights. Returns the output of least total weighted loss (the smallest, if several) and that loss."""


@dataclass(frozen=True)
class ReferenceBins:
    """The intervals of an optimal map, their outputs, and its expected loss, as numbers of the input's kind."""

    outputs: tuple[Any, ...]
    starts: tuple[int, ...]
    """The index of each interval's first value."""
    expected_loss: Any


def algorithm_2(values: Sequence[Any], masses: Sequence[Any], e: Any, minimise: Minimiser) -> ReferenceBins:
    """The optimal intervals for increasing `values` with these masses, where `e` is e^ε."""
    k = len(values)
    best = {
        (r, i): minimise(values, [e * p if r <= j <= i else p for j, p in enumerate(masses)])
        for r in range(k)
        for i in range(r, k)
    }
    # total[i][j]: the least cost of splitting the first i values into j intervals, and where the last of them starts.
    total: list[list[tuple[Any, int] | None]] = [[None] * (k + 1) for _ in range(k + 1)]
    total[0][0] = (0, 0)
    for i in range(1, k + 1):
        for j in range(1, i + 1):
            total[i][j] = min(
                ((before[0] + best[r, i - 1][1], r) for r in range(i) if (before := total[r][j - 1]) is not None),
                key=lambda choice: choice[0],
            )
    ratios = [(entry[0] / (d - 1 + e), d) for d in range(1, k + 1) if (entry := total[k][d]) is not None]
    ratio, d = min(ratios, key=lambda choice: choice[0])
    starts: list[int] = []
    end = k
    for j in range(d, 0, -1):
        entry = total[end][j]
        assert entry is not None
        starts.insert(0, entry[1])
        end = entry[1]
    outputs = tuple(best[a, b - 1][0] for a, b in zip(starts, [*starts[1:], k], strict=True))
    return ReferenceBins(outputs, tuple(starts), ratio / sum(masses))


def minimiser(loss: Loss) -> Minimiser:
    """The minimiser for a loss. Squared, absolute and pinball loss stay exact in fractions; deviances give floats."""
    match loss.structure:
        case SquaredDistance(scale="identity"):
            return lambda values, weights: _at_mean(lambda output, y: (output - y) ** 2, values, weights)
        case PinballDistance(under=under, over=over):
            return lambda values, weights: _quantile(values, weights, under, over)
        case Deviance():
            return lambda values, weights: _at_mean(lambda output, y: float(loss(output, y)), values, weights)
        case _:
            raise InvalidInput(f"algorithm_2 has no minimiser for {loss.name} loss; write one and pass it")


def _at_mean(loss: Callable[[Any, Any], Any], values: Sequence[Any], weights: Sequence[Any]) -> tuple[Any, Any]:
    """The weighted mean and the loss there, for losses that it minimises."""
    mean = sum(w * y for w, y in zip(weights, values, strict=True)) / sum(weights)
    return mean, sum(w * loss(mean, y) for w, y in zip(weights, values, strict=True))


def _quantile(values: Sequence[Any], weights: Sequence[Any], under: Any, over: Any) -> tuple[Any, Any]:
    # The slopes become fractions if the weights are fractions.
    under, over = type(weights[0])(under), type(weights[0])(over)
    target, below = under * sum(weights) / (under + over), 0
    output = values[-1]
    for y, w in zip(values, weights, strict=True):
        below += w
        if below >= target:
            output = y
            break
    return output, sum(
        w * (under * (y - output) if y >= output else over * (output - y)) for y, w in zip(values, weights, strict=True)
    )
