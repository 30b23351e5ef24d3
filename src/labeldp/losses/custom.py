"""Any callable as a loss, once it has passed a check of Assumption 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InvalidInput
from labeldp.losses.base import FloatArray, Loss, as_float

_GRID = 129
_TOLERANCE = 1e-9
_ROUNDING = 1e-14  # of the largest loss: what a formula with cancellation leaves where the loss should vanish
_BISECTIONS = 1100


@dataclass(frozen=True)
class Custom(Loss):
    """A loss given as `function(output, label)`, over arrays that broadcast or over plain numbers.

    It must be finite, never negative, and must not fall as output and label move apart (Assumption 1 of the paper);
    convexity is not asked for.
    """

    function: Callable[[Any, Any], Any]
    label: str = field(default="")

    @property
    def name(self) -> str:
        return self.label or getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        outputs, labels = np.broadcast_arrays(as_float(output), as_float(label))
        # Both branches of a `where` are computed everywhere, so warnings say nothing; what matters is checked later.
        with np.errstate(all="ignore"):
            try:
                value = as_float(self.function(outputs, labels))
            except (TypeError, ValueError):  # written for plain numbers
                value = np.vectorize(self.function, otypes=[np.float64])(outputs, labels)
        return np.broadcast_to(value, outputs.shape) if value.shape != outputs.shape else value

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        """By bisection: under Assumption 1 the lower output's disadvantage grows with the label between the two."""
        low, high = np.broadcast_arrays(as_float(low_output), as_float(high_output))
        left, right = low.copy(), high.copy()
        for _ in range(_BISECTIONS):
            middle = left + (right - left) / 2
            if np.all((middle <= left) | (middle >= right)):
                break
            low_wins = self(low, middle) <= self(high, middle)
            left, right = np.where(low_wins, middle, left), np.where(low_wins, right, middle)
        return as_float(left)

    def check_assumption(self, values: npt.ArrayLike) -> None:
        """Refuse the loss if it breaks Assumption 1 on a grid over the range of `values` (relative tolerance 1e-9)."""
        support = as_float(values)
        sample = support[np.linspace(0, support.size - 1, min(_GRID, support.size)).astype(np.int64)]
        grid = np.unique(np.concatenate([np.linspace(support[0], support[-1], _GRID), sample]))
        table = self(grid[:, None], grid[None, :])
        self._refuse_first(~(np.isfinite(table) & (table >= 0)), grid, table)
        # Row: output, column: label. Moving either away from the other must not lower the loss.
        slack = _TOLERANCE * table + _ROUNDING * table.max()
        toward_labels = np.maximum.accumulate(np.triu(table), axis=1) - table > slack
        below = np.tril(table)
        toward_low_labels = np.maximum.accumulate(below[:, ::-1], axis=1)[:, ::-1] - table > slack
        toward_high_outputs = np.maximum.accumulate(below, axis=0) - table > slack
        toward_low_outputs = np.maximum.accumulate(np.triu(table)[::-1], axis=0)[::-1] - table > slack
        upper, lower = np.triu(np.ones_like(table, dtype=bool)), np.tril(np.ones_like(table, dtype=bool))
        self._refuse_pair(toward_labels & upper, grid, table, axis=1, step=-1)
        self._refuse_pair(toward_low_labels & lower, grid, table, axis=1, step=1)
        self._refuse_pair(toward_high_outputs & lower, grid, table, axis=0, step=-1)
        self._refuse_pair(toward_low_outputs & upper, grid, table, axis=0, step=1)

    def _refuse_first(self, wrong: npt.NDArray[np.bool_], grid: FloatArray, table: FloatArray) -> None:
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise InvalidInput(
                f"loss {self.name!r} is {table[i, j]} at output {grid[i]:g} and label {grid[j]:g}; "
                "a loss must be a finite number, 0 or more"
            )

    def _refuse_pair(
        self, wrong: npt.NDArray[np.bool_], grid: FloatArray, table: FloatArray, *, axis: int, step: int
    ) -> None:
        """Show the violating entry with the worst nearer one, in the direction `step` back towards the diagonal."""
        if not wrong.any():
            return
        i, j = (int(x) for x in np.argwhere(wrong)[0])
        near = np.arange(i, j, step) if axis == 0 else np.arange(j, i, step)
        near = np.append(near, j if axis == 0 else i)
        losses = table[near, j] if axis == 0 else table[i, near]
        worst = int(near[int(np.argmax(losses))])
        other = (worst, j) if axis == 0 else (i, worst)
        raise InvalidInput(
            f"loss {self.name!r} falls as output and label move apart: it is {table[other]:.9g} at output "
            f"{grid[other[0]]:.9g} and label {grid[other[1]]:.9g}, but {table[i, j]:.9g} at output {grid[i]:.9g} and label "
            f"{grid[j]:.9g}. Randomized response on bins is only optimal for losses that never do (Assumption 1)"
        )
