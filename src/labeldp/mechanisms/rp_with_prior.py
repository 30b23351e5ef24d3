"""RPWithPrior (Liu and Huang 2026) on a grid: uniform noise in a window around the label, or anything in an interval.

**The mechanism**, in continuous labels. Labels are clipped into an interval [A₁, A₂]. The output lies in [A₁ − δ, A₂ + δ]. Its
density is e^ε times as high within δ of the clipped label as elsewhere:

    e^ε / (2δ·e^ε + A₂ − A₁)  within δ,      1 / (2δ·e^ε + A₂ − A₁)  elsewhere.

For a half-width δ that the user chooses, the paper selects the interval that most often contains the label with the
output within δ of it: the maximum of F(A₁, A₂) = P(A₁ ≤ y ≤ A₂) / (2δ + e^−ε·(A₂ − A₁)), with 2δ ≤ A₂ − A₁.

**The search.** On a grid of k cells, let labels be clipped into cells i … j and let the window reach h cells to either
side. With e = e^−ε, an expectation over the outputs is (upper_j − lower_i) / (e·(j − i) + 2h + 1) for sums that are
made once for each h: the outputs i − h … j + h have weight e each, and 1 − e more in the window. The probability that
the paper maximises has the same form. So the best i and j for one h optimise a ratio, which Dinkelbach's iteration
finds. A pass takes O(k), because the best i for each j is a running maximum, and a handful of passes are enough. All h
together take O(k²) time and memory, so grids with more than `DESIGN_CELLS` cells are designed on that number of cells.
The search uses floats, because privacy does not depend on it.

**Sources.** The abstract (arXiv 2601.22625, TMLR 2026) gives the idea: continuous responses and an optimal interval. We
did not have the full text, so density, clipping and F are from the notebooks that the authors published with it. If the
interval is shorter than the window, the notebooks shrink δ; here only longer intervals are considered. Also ours: the
grid and its integers; the search, O(k) for one δ where theirs tries O(k²) pairs; the choice of δ, which they set
manually; `optimal`; and the prior, which is estimated as for any mechanism here and not from labels with Laplace noise
on each.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described, is_number
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import DESIGN_CELLS, even_grid
from labeldp.mechanisms.mechanism import Thresholds
from labeldp.mechanisms.registry import Request, mechanism
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior
from labeldp.sampling import WindowTable

Integers = NDArray[np.int64]
LARGEST_LOSS = 1e300
"""The limit on losses: sums of smaller losses over the outputs are finite."""


class Window(NamedTuple):
    """A window: the interval is cells `first` to `last`, and the window reaches `reach` cells to either side of the label's cell."""

    first: int
    last: int
    reach: int


class WindowDesign:
    """A search for windows on the grid of `frame`, with at most `DESIGN_CELLS` cells, for labels from a prior."""

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
        """Return the paper's interval for each reach, and the reach of least expected loss, unless it is given in cells of `frame`."""
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
        """Return the interval, and the reach unless it is given, of least expected loss."""
        sums = self._sums(self._reaches(reach))
        return self._on_frame(*_best(*sums.least_ratios(), sums.reach), reach)

    def on_interval(self, first: int, last: int) -> Window:
        """Return the reach of least expected loss for one interval, in cells of `frame`."""
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
        """Convert a window from the design's grid to the frame's grid."""
        if self._grid is self._frame:
            return Window(first, last, found)
        low, high = self._frame.cell(self._grid.grid[[first, last]]).tolist()
        scaled = round(self._grid.step * (found + 0.5) / self._frame.step - 0.5)
        return Window(low, high, scaled if reach is None else reach)

    def _sums(self, reaches: Integers) -> _Sums:
        """Return the sums of the expected loss for every reach, from one table of sums over labels below and outputs below."""
        cells, farthest, step = self._masses.size, int(reaches.max()), self._grid.step
        beyond = step * np.arange(1, farthest + 1)
        grid = self._grid.grid
        outputs = np.concatenate([grid[0] - beyond[::-1], grid, grid[-1] + beyond])
        valid = self._loss.valid_outputs.contains(outputs)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            table = self._loss(outputs[None, valid], self._labels[:, None])
        finite = (abs(table) <= LARGEST_LOSS).all(axis=0)  # a loss whose sums may overflow also rules out an output
        valid[valid] = finite
        lost = np.zeros((cells, outputs.size))
        lost[np.ix_(self._held, valid)] = self._masses[self._held, None] * table[:, finite]
        below = np.zeros((cells + 1, outputs.size + 1))
        np.cumsum(lost, axis=0, out=lost)
        np.cumsum(lost, axis=1, out=below[1:, 1:])

        cell = np.arange(cells)
        start = cell + farthest - reaches[:, None]  # the first output of the window, and the one after its last
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
    """Expectations (upper[h, j] − lower[h, i]) / (e·(j − i) + 2h + 1); an index that is not allowed has an infinite sum."""

    upper: Floats
    lower: Floats
    reach: Integers
    shrink: float

    def ratio(self, first: Integers, last: Integers) -> Floats:
        """Return the expectation for one interval per reach."""
        row = np.arange(self.reach.size)
        size = self.shrink * (last - first) + 2 * self.reach + 1
        return np.asarray((self.upper[row, last] - self.lower[row, first]) / size)

    def least_ratios(self) -> tuple[Floats, Integers, Integers]:
        """Return, for each reach, the least ratio over all i and j with j − i ≥ 2h, and its location. It is infinite if none is allowed."""
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
        raise InvalidInput(
            "no window fits where the loss is defined: use another loss, other bounds or a smaller half_width"
        )
    return Window(int(first[at]), int(last[at]), int(reach[at]))


def _check_loss(request: Request) -> None:
    """Raise `InvalidInput` unless some cell, as the only output, has a finite loss for every label. Then some window fits."""
    prior = request.prior or Prior.uniform(request.domain)
    WindowDesign(prior, request.domain, float(exact_epsilon(request.epsilon)), get_loss(request.loss)).likeliest(0)


@mechanism(
    "rp-with-prior",
    title="RPWithPrior",
    help="near the label or anywhere in an interval of likely labels",
    make=lambda r: RPWithPrior(r.known_prior, r.epsilon, r.loss, domain=r.domain),
    check=_check_loss,
    needs_prior=True,
    training_values="debiased",
    colour="#7812fc",
)
class RPWithPrior(FiniteMechanism):
    """RPWithPrior on a grid: an output near the label with weight e^ε, any other output of an interval with weight 1.

    Labels are clipped into an interval of likely labels. The outputs are the cells of that interval and `half_width` beyond
    either end. A window of outputs, from `half_width` below the label to `half_width` above it, has weight e^ε each.

    By the paper's rule the interval maximises the probability that it contains the label and the output lies within
    `half_width` of it. `RPWithPrior.optimal` uses the interval and half-width of least expected loss instead. Neither
    has a smaller loss than `RROnBins.optimal`, the best of all ε-DP mechanisms for the error of the labels.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.
    loss : str, Loss or callable
        The loss for the default half-width.
    half_width : float, optional
        δ, how far the window reaches to either side, in the unit of the labels. The grid rounds it to whole cells and
        half of one. By default the half-width of least expected loss.
    interval : (float, float), optional
        The interval that labels are clipped to, rounded to cells. By default the paper's rule, for an interval at least
        as long as the window.
    domain : Domain or (lower, upper), optional
        The public bounds and the grid of cells. By default an even grid over the prior's values, at most 1,001 cells.

    Privacy
    -------
    ε-DP for each label, exact in integers: a code in the window has at most e^ε times the weight of one outside.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import RPWithPrior
    >>> prior = Prior([0, 10, 20, 30, 40], [1, 4, 6, 4, 1])
    >>> mechanism = RPWithPrior(prior, epsilon=1, half_width=15)
    >>> mechanism.parameter("lower"), mechanism.parameter("upper")
    (10.0, 30.0)
    >>> mechanism.matrix([20]).round(3)
    array([[0.098, 0.268, 0.268, 0.268, 0.098]])
    """

    def __init__(
        self,
        prior: Prior,
        epsilon: Epsilon,
        loss: LossLike = "squared",
        *,
        half_width: float | None = None,
        interval: tuple[float, float] | None = None,
        domain: Domain | tuple[float, float] | None = None,
    ) -> None:
        expect_prior(prior)
        frame, measure = even_grid(prior, domain), get_loss(loss)
        budget = exact_epsilon(epsilon)
        reach = None if half_width is None else _reach(half_width, frame)
        ends = None if interval is None else _ends(interval, frame)
        if reach is not None and ends is not None:
            found = Window(*ends, reach)
        else:
            design = WindowDesign(prior, frame, float(budget), measure)
            found = design.likeliest(reach) if ends is None else design.on_interval(*ends)
        super().__init__(**_parts(prior, frame, budget, measure, found), domain=None if domain is None else frame)

    @classmethod
    def optimal(
        cls,
        prior: Prior,
        epsilon: Epsilon,
        loss: LossLike = "squared",
        *,
        domain: Domain | tuple[float, float] | None = None,
    ) -> RPWithPrior:
        """Find interval and half-width of least expected loss, among windows that are not longer than the interval.

        Parameters
        ----------
        prior : Prior
            The distribution of the labels.
        epsilon : float, str, Decimal or Fraction
            The privacy budget of each label.
        loss : str, Loss or callable
            The loss to minimise.
        domain : Domain or (lower, upper), optional
            The public bounds and the grid of cells.

        Returns
        -------
        RPWithPrior
        """
        expect_prior(prior)
        frame = even_grid(prior, domain)
        budget, measure = exact_epsilon(epsilon), get_loss(loss)
        found = WindowDesign(prior, frame, float(budget), measure).least()
        parts = _parts(prior, frame, budget, measure, found)
        return cls.from_parts(**parts, domain=None if domain is None else frame)


def _parts(prior: Prior, frame: Domain, budget: Fraction, loss: Loss, found: Window) -> dict[str, Any]:
    """Return the parts of the mechanism with this window."""
    cells = frame.grid[found.first : found.last + 1]
    beyond = frame.step * np.arange(1, found.reach + 1)
    return {
        "encoder": Thresholds(cells[:-1] + np.diff(cells) / 2),
        "table": WindowTable(cells.size, 2 * found.reach + 1, budget),
        "outputs": np.concatenate([cells[0] - beyond[::-1], cells, cells[-1] + beyond]),
        "epsilon_exact": budget,
        "prior": prior,
        "loss": loss.name,
        "parameters": (
            ("lower", float(cells[0])),
            ("upper", float(cells[-1])),
            ("half_width", float(frame.step * (found.reach + 0.5))),
        ),
    }


def _reach(half_width: float, frame: Domain) -> int:
    """Return the number of cells that the window reaches to either side."""
    if not is_number(half_width, 0) or not half_width:
        raise InvalidInput(f"half_width must be a number above 0, got {described(half_width)}")
    if half_width > (frame.upper - frame.lower) / 2 + frame.step / 2:
        raise InvalidInput(
            f"half_width must be at most half of the domain, {(frame.upper - frame.lower) / 2:g}, got {half_width:g}"
        )
    return min(max(round(half_width / frame.step - 0.5), 0), (frame.count - 1) // 2)


def _ends(interval: tuple[float, float], frame: Domain) -> tuple[int, int]:
    """Return the first and the last cell of an interval."""
    try:
        low, high = (float(end) for end in interval)
    except (TypeError, ValueError):
        raise InvalidInput(f"interval must be two numbers, got {described(interval)}") from None
    if not frame.lower <= low <= high <= frame.upper:
        raise InvalidInput(
            f"the interval must lie within the domain from {frame.lower:g} to {frame.upper:g}, its lower end first, got "
            f"({low:g}, {high:g})"
        )
    first, last = frame.cell([low, high]).tolist()
    return first, last
