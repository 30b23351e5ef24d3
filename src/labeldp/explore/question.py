"""What the page asks: bounds, a distribution, ε, records, a loss and a mechanism, as one frozen value that caches are keyed by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.evaluate.shapes import shaped_prior
from labeldp.losses import get_loss
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import merged_prior
from labeldp.priors import Prior
from labeldp.release.randomizer import check_bounds

KEPT = 64
"""How many answers of each kind are kept. A user who moves a slider back sees the same figures at once."""
PAGE_CELLS = 100_001
"""The finest grid that the page takes."""
EXPECTATION_LABELS = 401
"""Expectations are taken over at most this number of labels; finer ones are merged at their mean."""
RECEIVED = "as received"
"""The choice of a mechanism that came in a file, instead of one that is designed."""
_shape = lru_cache(maxsize=KEPT)(shaped_prior)


@dataclass(frozen=True)
class Question:
    """Everything that the left side of the page says.

    Parameters
    ----------
    lower, upper : float
        The public bounds of the labels.
    cells : int or None
        The grid; None where `privatize` chooses it from the records and ε.
    whole : bool
        Whether all labels are whole numbers, with a cell for each.
    unit : str or None
        The unit of labels that are durations.
    distribution : str or Prior
        A shape in words, such as "log-normal:mean=80,sd=90", or a distribution that was read from a file.
    public : bool
        Whether a release takes this distribution as its public prior. Otherwise it buys a private one.
    epsilon : float
        What each label may cost.
    records : int
        How many labels are released and trained on.
    explained : float
        The share of the labels' variance that features explain.
    loss : str
        The loss that the mechanism is designed for.
    mechanism : str
        A name in the catalogue, or `RECEIVED`.
    received : FiniteMechanism or None
        The mechanism that came in a file.
    """

    lower: float = 0.0
    upper: float = 400.0
    cells: int | None = None
    whole: bool = False
    unit: str | None = None
    distribution: str | Prior = "log-normal:mean=80,sd=90"
    public: bool = False
    epsilon: float = 1.0
    records: int = 50_000
    explained: float = 0.5
    loss: str = "squared"
    mechanism: str = "auto"
    received: FiniteMechanism | None = None

    @property
    def domain(self) -> Domain:
        """The bounds, as for `privatize`."""
        if self.whole:
            return Domain.integers(int(self.lower), int(self.upper), self.unit)
        return Domain(self.lower, self.upper, self.cells, unit=self.unit)

    @property
    def grid(self) -> Domain:
        """The bounds with the grid that a release takes."""
        return self.domain.resolve(self.records, self.epsilon)

    @property
    def assumed(self) -> Prior:
        """The distribution that a mechanism is designed for: a private prior is on the grid of a release, a public one has its own values."""
        if self.public or isinstance(self.distribution, Prior):
            return self.labels
        return _shape(self.distribution, self.grid)

    @property
    def labels(self) -> Prior:
        """The distribution of the labels at its full resolution, which figures and pictures use."""
        if isinstance(self.distribution, Prior):
            return self.distribution
        return _shape(self.distribution, self.domain)

    @property
    def merged(self) -> Prior:
        """The distribution of the labels on at most 401 of them, for expectations."""
        return merged_prior(self.labels, EXPECTATION_LABELS)[0]

    @property
    def shown_mechanism(self) -> FiniteMechanism | None:
        """The received mechanism, if that is what the page shows."""
        return self.received if self.mechanism == RECEIVED else None

    def check(self) -> None:
        """Refuse bounds, distributions and losses that do not go together, before anything is computed."""
        check_bounds(get_loss(self.loss), self.domain)
        if self.grid.count > PAGE_CELLS:
            raise InvalidInput(
                f"{self.grid.count:,} cells are more than this page can show: choose bounds or a grid of at most {PAGE_CELLS:,}"
            )
        if isinstance(self.distribution, Prior):
            held = self.distribution.values[self.distribution.masses > 0]
            if held[0] < self.lower or held[-1] > self.upper:
                raise InvalidInput(
                    f"the distribution has labels from {held[0]:g} to {held[-1]:g}, and the bounds are {self.lower:g} to {self.upper:g}: "
                    "widen the bounds"
                )

    def without(self, **parts: object) -> Question:
        """Return the same question with some parts replaced, to share cached answers that do not depend on them."""
        return replace(self, **parts)  # type: ignore[arg-type]
