"""What the private prior of a release may look like: labels drawn from the assumed distribution, counted, with real noise added.

Nothing here is a release: the labels are invented.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from labeldp.errors import InvalidInput
from labeldp.explore.designed import loss_of, merged, split_of
from labeldp.explore.question import KEPT, Question
from labeldp.mechanisms import design, releasable
from labeldp.mechanisms.cells import Cells
from labeldp.mechanisms.registry import Request
from labeldp.priors import Prior


@dataclass(frozen=True, eq=False)
class SimulatedPrior:
    """A private prior for invented labels.

    Attributes
    ----------
    assumed : Prior
        The distribution that labels were drawn from, on the grid.
    drawn : Prior
        The private prior that came out.
    epsilon_prior : float
        What it would cost.
    scale : float
        The scale of the noise on each count.
    expected_loss : float
        Of a private label, by the mechanism designed for the drawn prior, under the assumed distribution.
    """

    assumed: Prior
    drawn: Prior
    epsilon_prior: float
    scale: float
    expected_loss: float

    @property
    def distance(self) -> float:
        """Half the sum of the differences of masses: the share of mass that is in the wrong cells."""
        both = np.union1d(self.assumed.values, self.drawn.values)

        def spread(prior: Prior) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            masses = np.zeros(both.size)
            masses[np.searchsorted(both, prior.values)] = prior.masses
            return masses

        return float(np.abs(spread(self.assumed) - spread(self.drawn)).sum() / 2)


def why_none(question: Question) -> str | None:
    """Why a release draws no private prior, or None if it does."""
    if question.shown_mechanism is not None:
        return "A received mechanism is shown as it is, so no prior is drawn."
    if not releasable(question.mechanism).needs_prior:
        return f"{question.mechanism} is not designed for a distribution, so no prior is drawn and all of ε goes to the labels."
    if question.public:
        return "The distribution is taken as public, so no private prior is drawn and all of ε goes to the labels."
    return None


def simulated_prior(question: Question, draw: int) -> SimulatedPrior:
    """One private prior for invented labels. Another number of the draw gives another one."""
    return _simulated(question.without(explained=0.5, received=None), draw)


@lru_cache(maxsize=KEPT)
def _simulated(question: Question, draw: int) -> SimulatedPrior:
    question.check()
    split = split_of(question)
    if split is None:
        raise InvalidInput(why_none(question) or "no prior is drawn")
    grid, entry = question.grid, releasable(question.mechanism)
    cells = Cells.of(question.assumed, grid)
    counts = np.random.default_rng(draw).multinomial(question.records, cells.masses / cells.masses.sum())
    request = Request(grid, question.epsilon, question.loss, None, question.records)
    drawn = entry.fit_prior(counts.astype(np.int64), split.scale, request)
    mechanism = design(question.mechanism, Request(grid, split.epsilon_labels, question.loss, drawn, question.records))
    coarse = Cells.of(question.assumed, grid if len(drawn) == grid.count else grid.with_cells(len(drawn)))
    return SimulatedPrior(
        assumed=Prior(coarse.labels, coarse.masses),
        drawn=drawn,
        epsilon_prior=float(split.epsilon_prior),
        scale=split.scale,
        expected_loss=loss_of(mechanism, merged(question.labels), question.loss),
    )
