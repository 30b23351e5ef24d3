"""RPWithPrior (Liu and Huang 2026) on a grid: uniform noise in a window around the label, or anything in an interval.

The mechanism, in continuous labels. Labels are clipped into an interval [A₁, A₂]. The output lies in [A₁ − δ, A₂ + δ]. Its
density is e^ε times as high within δ of the clipped label as elsewhere:

    e^ε / (2δ·e^ε + A₂ − A₁)  within δ,      1 / (2δ·e^ε + A₂ − A₁)  elsewhere.

For a half-width δ that the user chooses, the paper takes the interval that holds the label and has the output within δ of it
most often: the maximum of F(A₁, A₂) = P(A₁ ≤ y ≤ A₂) / (2δ + e^−ε·(A₂ − A₁)), with 2δ ≤ A₂ − A₁.

Where this comes from. The abstract (arXiv 2601.22625, TMLR 2026) names the idea: continuous responses and an optimal interval.
We had no full text, so density, clipping and F are read off the notebooks that the authors published with it. Where the
interval comes out shorter than the window, these shrink δ; here only longer intervals are looked at. Ours are also: the grid and
its integers; the search, O(k) for one δ where theirs looks at O(k²) pairs; the choice of δ, which they set by hand; `optimal`; and
the prior, which is bought as for any mechanism here and not estimated from labels with Laplace noise on each.
"""

from __future__ import annotations

import numpy as np

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.losses import LossLike, get_loss
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.cells import even_grid
from labeldp.mechanisms.encoders import Thresholds
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.window_design import Window, WindowDesign
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior
from labeldp.sampling import WindowTable


@mechanism(
    "rp-with-prior",
    title="RPWithPrior",
    help="near the label or anywhere in an interval of likely labels",
    make=lambda r: RPWithPrior(r.known_prior, r.epsilon, r.loss, domain=r.domain),
    needs_prior=True,
    training_values="debiased",
    colour="#7812fc",
)
class RPWithPrior(FiniteMechanism):
    """RPWithPrior on a grid: an output near the label with weight e^ε, any other output of an interval with weight 1.

    Labels are clipped into an interval of likely labels. The outputs are the cells of that interval and `half_width` beyond
    either end. A window of outputs, from `half_width` below the label to `half_width` above it, has weight e^ε each.

    By the paper's rule the interval maximises the chance that it holds the label and the output lies within `half_width` of
    it. `RPWithPrior.optimal` takes interval and half-width of least expected loss instead. Neither loses less than
    `RROnBins.optimal`, the best of all ε-DP mechanisms for the error of the labels.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilon : float, str, Decimal or Fraction
        What each label costs.
    loss : str, Loss or callable
        The loss for the default half-width.
    half_width : float, optional
        δ, how far the window reaches to either side, in the unit of the labels. The grid rounds it to whole cells and half of
        one. By default the one of least expected loss.
    interval : (float, float), optional
        Where labels are clipped to, rounded to cells. By default the paper's rule, for an interval at least as long as the
        window.
    domain : Domain or (lower, upper), optional
        The public bounds and the grid of cells. By default an even grid over the prior's values, at most 1,001 cells.

    Privacy
    -------
    ε-DP for each label, exact in integers: a code in the window has at most e^ε times the weight of one outside.

    Examples
    --------
    >>> from labeldp import Prior, RPWithPrior
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
        cells = frame.grid[found.first : found.last + 1]
        beyond = frame.step * np.arange(1, found.reach + 1)
        super().__init__(
            encoder=Thresholds(cells[:-1] + np.diff(cells) / 2),
            table=WindowTable(cells.size, 2 * found.reach + 1, budget),
            outputs=np.concatenate([cells[0] - beyond[::-1], cells, cells[-1] + beyond]),
            epsilon_exact=budget,
            domain=None if domain is None else frame,
            prior=prior,
            loss=measure.name,
            parameters=(
                ("lower", float(cells[0])),
                ("upper", float(cells[-1])),
                ("half_width", float(frame.step * (found.reach + 0.5))),
            ),
        )

    @classmethod
    def optimal(
        cls,
        prior: Prior,
        epsilon: Epsilon,
        loss: LossLike = "squared",
        *,
        domain: Domain | tuple[float, float] | None = None,
    ) -> RPWithPrior:
        """Find interval and half-width of least expected loss, among windows that are no longer than the interval.

        Parameters
        ----------
        prior : Prior
            The distribution of the labels.
        epsilon : float, str, Decimal or Fraction
            What each label costs.
        loss : str, Loss or callable
            What is minimised.
        domain : Domain or (lower, upper), optional
            The public bounds and the grid of cells.

        Returns
        -------
        RPWithPrior
        """
        expect_prior(prior)
        frame = even_grid(prior, domain)
        found = WindowDesign(prior, frame, float(exact_epsilon(epsilon)), get_loss(loss)).least()
        return cls(
            prior,
            epsilon,
            loss,
            half_width=frame.step * (found.reach + 0.5),
            interval=(frame.grid[found.first], frame.grid[found.last]),
            domain=domain,
        )


def _reach(half_width: float, frame: Domain) -> int:
    """How many cells the window reaches to either side."""
    if isinstance(half_width, bool) or not isinstance(half_width, (int, float, np.number)) or not half_width > 0:
        raise InvalidInput(f"half_width must be a number above 0, got {described(half_width)}")
    if half_width > (frame.upper - frame.lower) / 2 + frame.step / 2:
        raise InvalidInput(
            f"half_width must be at most half of the domain, {(frame.upper - frame.lower) / 2:g}, got {half_width:g}"
        )
    return min(max(round(half_width / frame.step - 0.5), 0), (frame.count - 1) // 2)


def _ends(interval: tuple[float, float], frame: Domain) -> tuple[int, int]:
    """The first and the last cell of an interval."""
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
