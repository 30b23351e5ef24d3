"""The interval and the window of `RPWithPrior`: the paper's rule, and the ones of least expected loss. Floats; they only design.

On a grid of k cells, let labels be clipped into cells i … j and let the window reach h cells to either side. With
e = e^−ε, an expectation over the outputs is (upper_j − lower_i) / (e·(j − i) + 2h + 1) for sums that are made once for each h:
the outputs i − h … j + h have weight e each, and 1 − e more in the window. The chance that the paper maximises has the same
form. So the best i and j for one h are those of a ratio, found by Dinkelbach's iteration. A pass takes O(k), because the best i
for each j is a running maximum, and a handful of passes are enough. All h together take O(k²) time and memory, so that finer
grids than `DESIGN_CELLS` are designed on so many cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import Loss
from labeldp.mechanisms.cells import DESIGN_CELLS
from labeldp.priors import Prior

Integers = NDArray[np.int64]


class Window(NamedTuple):
    """Cells `first` to `last` are the interval, and the window reaches `reach` cells to either side of the label's."""

    first: int
    last: int
    reach: int


class WindowDesign:
    """Searches for windows on the grid of `frame`, at most `DESIGN_CELLS` cells of it, for labels from a prior."""

    def __init__(self, prior: Prior, frame: Domain, epsilon: float, loss: Loss) -> None:
        self._frame = frame
        self._grid = frame if frame.count <= DESIGN_CELLS else frame.with_cells(DESIGN_CELLS)
        self._shrink = float(np.exp(-epsilon))
        cell = self._grid.cell(prior.values)
        self._masses = np.bincount(cell, prior.masses, self._grid.count)
        held = self._masses > 0
        moments = np.bincount(cell, prior.masses * (prior.values - self._grid.grid[cell]), self._grid.count)
        labels = self._grid.grid[held] + moments[held] / self._masses[held]
        loss.valid_labels.check(labels, f"labels under {loss.name} loss")
        self._held, self._labels, self._loss = held, labels, loss

    def likeliest(self, reach: int | None = None) -> Window:
        """The paper's interval for each reach, and the reach of least expected loss, unless it is given in cells of `frame`."""
        sums = self._sums(self._reaches(reach))
        inside = np.concatenate([[0.0], np.cumsum(self._masses)])
        rows = np.zeros((sums.reach.size, 1))
        chance = _Sums(
            np.where(np.isfinite(sums.upper), rows - inside[1:], np.inf),
            np.where(np.isfinite(sums.lower), rows - inside[:-1], -np.inf),
            sums.reach,
            sums.shrink,
        )
        _, first, last = chance.least_ratios()
        return self._on_frame(*_best(sums.ratio(first, last), first, last, sums.reach), reach)

    def least(self, reach: int | None = None) -> Window:
        """The interval, and the reach unless it is given, of least expected loss."""
        sums = self._sums(self._reaches(reach))
        return self._on_frame(*_best(*sums.least_ratios(), sums.reach), reach)

    def on_interval(self, first: int, last: int) -> Window:
        """The reach of least expected loss for one interval, in cells of `frame`."""
        low, high = self._grid.cell(self._frame.grid[[first, last]]).astype(np.int64)
        sums = self._sums(np.arange((high - low) // 2 + 1))
        size = sums.reach.size
        lows, highs = np.full(size, low), np.full(size, high)
        found = _best(sums.ratio(lows, highs), lows, highs, sums.reach)
        return Window(first, last, self._on_frame(*found, None).reach)

    def _reaches(self, reach: int | None) -> Integers:
        most = (self._grid.count - 1) // 2
        if reach is None:
            return np.arange(most + 1)
        scaled = round(self._frame.step * (reach + 0.5) / self._grid.step - 0.5)
        return np.array([min(max(scaled, 0), most)])

    def _on_frame(self, first: int, last: int, found: int, reach: int | None) -> Window:
        """What was found on the design's grid, on the frame's."""
        if self._grid is self._frame:
            return Window(first, last, found)
        low, high = self._frame.cell(self._grid.grid[[first, last]]).tolist()
        scaled = round(self._grid.step * (found + 0.5) / self._frame.step - 0.5)
        return Window(low, high, scaled if reach is None else reach)

    def _sums(self, reaches: Integers) -> _Sums:
        """The sums of the expected loss for every reach, from one table of sums over labels below and outputs below."""
        cells, farthest, step = self._masses.size, int(reaches.max()), self._grid.step
        beyond = step * np.arange(1, farthest + 1)
        grid = self._grid.grid
        outputs = np.concatenate([grid[0] - beyond[::-1], grid, grid[-1] + beyond])
        valid = self._loss.valid_outputs.contains(outputs)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            table = self._masses[self._held, None] * self._loss(outputs[None, valid], self._labels[:, None])
        finite = np.isfinite(table).all(axis=0)  # a loss beyond floats rules an output out, too
        valid[valid] = finite
        lost = np.zeros((cells, outputs.size))
        lost[np.ix_(self._held, valid)] = table[:, finite]
        below = np.zeros((cells + 1, outputs.size + 1))
        np.cumsum(lost, axis=0, out=lost)
        np.cumsum(lost, axis=1, out=below[1:, 1:])

        cell = np.arange(cells)
        start = cell + farthest - reaches[:, None]  # the window's first output, and the one after its last
        end = start + 2 * reaches[:, None] + 1
        smaller = below[cell, end] - below[cell, start]
        not_larger = below[cell + 1, end] - below[cell + 1, start]
        all_labels = below[-1][end] - below[-1][start]
        own = np.cumsum(not_larger - smaller, axis=1)
        more = 1 - self._shrink
        upper = self._shrink * below[-1][end] + more * (own + all_labels - not_larger)
        lower = self._shrink * below[-1][start] + more * (own - not_larger)
        wrong = np.concatenate([[0], np.cumsum(~valid)])
        allowed = wrong[end] == wrong[start]
        return _Sums(np.where(allowed, upper, np.inf), np.where(allowed, lower, -np.inf), reaches, self._shrink)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Expectations (upper[h, j] − lower[h, i]) / (e·(j − i) + 2h + 1); a place that is not allowed has an infinite sum."""

    upper: Floats
    lower: Floats
    reach: Integers
    shrink: float

    def ratio(self, first: Integers, last: Integers) -> Floats:
        """The expectation for one interval a reach."""
        row = np.arange(self.reach.size)
        size = self.shrink * (last - first) + 2 * self.reach + 1
        return np.asarray((self.upper[row, last] - self.lower[row, first]) / size)

    def least_ratios(self) -> tuple[Floats, Integers, Integers]:
        """For each reach the least ratio over all i and j with j − i ≥ 2h, and where it is. Infinite where none is allowed."""
        rows, cells = self.upper.shape
        row, cell = np.arange(rows), np.arange(cells)
        gap = 2 * self.reach
        shifted = cell + gap[:, None]  # j = i + 2h is column i
        upper = np.where(shifted < cells, self.upper[row[:, None], np.minimum(shifted, cells - 1)], np.inf)
        lower = self.lower
        shortest = (upper - lower) / (self.shrink * gap + gap + 1)[:, None]
        first = shortest.argmin(axis=1)
        last, least = first.copy(), shortest[row, first]
        open_rows = np.flatnonzero(np.isfinite(least))
        while open_rows.size:
            price = (self.shrink * least[open_rows])[:, None] * cell
            score = lower[open_rows] - price
            cost = upper[open_rows] - price - np.maximum.accumulate(score, axis=1)
            high = cost.argmin(axis=1)
            low = np.where(cell <= high[:, None], score, -np.inf).argmax(axis=1)
            size = self.shrink * (high - low + gap[open_rows]) + gap[open_rows] + 1
            found = (upper[open_rows, high] - lower[open_rows, low]) / size
            better = found < least[open_rows]
            open_rows = open_rows[better]
            least[open_rows], first[open_rows], last[open_rows] = found[better], low[better], high[better]
        return least, first, np.minimum(last + gap, cells - 1)


def _best(costs: Floats, first: Integers, last: Integers, reach: Integers) -> Window:
    at = int(np.argmin(costs))
    if not np.isfinite(costs[at]):
        raise InvalidInput("no window fits where the loss is defined: use a smaller half_width or wider bounds")
    return Window(int(first[at]), int(last[at]), int(reach[at]))
