"""The registry of mechanisms. Each mechanism declares its entry next to its class.

The command line's choices and help, `compare`, the experiments, plots and decoders all use it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.catalogue import Catalogue
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import LossLike, get_loss
from labeldp.priors import BudgetSplit, Prior, prior_from_counts, split_budget

LEAST_WORTH = 100
"""Below this n·ε², or n·ε for ε above 1, the noise of the private labels hides the signal of the features (benchmarks/few_records.py)."""

C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Request:
    """A request for a mechanism: labels on `domain` (with a grid) at ε each, and public knowledge about them.

    `records` is the number of labels, for mechanisms that are designed for training on that number.
    """

    domain: Domain
    epsilon: Epsilon
    loss: LossLike = "squared"
    prior: Prior | None = None
    records: int | None = None

    @property
    def known_prior(self) -> Prior:
        """The prior. Raises `InvalidInput` without one."""
        if self.prior is None:
            raise InvalidInput("this mechanism is designed for a prior: give one")
        return self.prior

    @property
    def known_records(self) -> int:
        """The number of records. Raises `InvalidInput` if it is unknown."""
        if self.records is None:
            raise InvalidInput(
                "auto and bias-variance are designed for training on a number of records: give records (--records N)"
            )
        return self.records


def paper_split(request: Request) -> BudgetSplit:
    """Return the split with ε₁ = √(cells/records) for the prior, as in the paper."""
    split = split_budget(request.epsilon, request.domain.count, request.known_records)
    return replace(split, advice=few_records_advice(request) or split.advice)


def few_records_advice(request: Request) -> str | None:
    """Return a warning if the records are too few for any mechanism without a public prior, else None."""
    if request.records is None or request.prior is not None:
        return None
    total = exact_epsilon(request.epsilon)
    worth = request.records * min(total, total**2)
    if worth >= LEAST_WORTH:
        return None
    product = "records × epsilon" if total > 1 else "records × epsilon²"
    return (
        f"{request.records:,} records are too few to learn from at epsilon = {float(total):g}: {product} is {float(worth):.3g}. "
        f"Below {LEAST_WORTH} a model trained on the private labels is rarely better than answering the mean, with any mechanism. "
        "Use more records, a larger epsilon or a public prior."
    )


def check_loss(request: Request) -> None:
    """Raise `InvalidInput` for a loss without optimal bins."""
    get_loss(request.loss).check_assumption(request.domain.grid)


def clipped_prior(counts: NDArray[np.int64], scale: float, request: Request) -> Prior:
    """Return the noisy histogram, clipped at zero, as in the paper."""
    return prior_from_counts(counts, request.domain, scale)


SHARED_COLOUR = "#848460"
"""The colour of all mechanisms without their own."""


@dataclass(frozen=True)
class Entry:
    """A mechanism's entry: its names, its colour, and how it is made.

    Parameters
    ----------
    name : str
        Its name on the command line and in JSON: "rr-on-bins".
    title : str
        Its name in tables and plots: "RR-on-Bins".
    help : str
        One line for `--help`.
    make : callable
        Makes the mechanism for a `Request`.
    cls : type, optional
        The mechanism's class; None if `make` chooses among others.
    exact : bool
        Whether it may be released: every output is drawn by integers.
    needs_prior : bool
        Whether it is designed for a prior, which costs a part of ε unless a public one is given.
    needs_records : bool
        Whether it is designed for the number of records.
    for_training : bool
        Whether it is designed for models, not for the error of the labels.
    training_values : {"bins", "debiased"}
        The values of its codes for `values("auto")`, if a mean minimises the loss.
    colour : str
        Its colour in every plot. No further colours can be distinguished by everybody, so new mechanisms share one, and
        differ by their markers.
    split : callable
        Splits ε between a private prior and the labels.
    fit_prior : callable
        Makes the prior from exact counts and a noise scale: (counts, scale, request).
    check : callable
        Raises `InvalidInput` for a request that no design can meet for any labels. It does not run a solver.
    rank : int
        Its position in lists.
    """

    name: str
    title: str
    help: str
    make: Callable[[Request], Any]
    cls: type | None = None
    exact: bool = True
    needs_prior: bool = False
    needs_records: bool = False
    for_training: bool = False
    training_values: Literal["bins", "debiased"] = "bins"
    colour: str = SHARED_COLOUR
    split: Callable[[Request], BudgetSplit] = paper_split
    fit_prior: Callable[[NDArray[np.int64], float, Request], Prior] = clipped_prior
    check: Callable[[Request], None] = lambda request: None  # noqa: ARG005
    rank: int = 50

    def split_for(self, request: Request) -> BudgetSplit | None:
        """Return the split of ε, or None if nothing is spent on a prior."""
        return self.split(request) if self.needs_prior and request.prior is None else None


MECHANISMS: Catalogue[Entry] = Catalogue("mechanism", "labeldp.mechanisms")
"""Every mechanism by name."""


def mechanism(name: str, **facts: Any) -> Callable[[C], C]:
    """Return a class decorator that adds a mechanism to the catalogue; `facts` are the other fields of `Entry`."""

    def enter(cls: C) -> C:
        cls.kind = name  # type: ignore[attr-defined]
        MECHANISMS.add(Entry(name, cls=cls, exact=cls.exact, **facts))  # type: ignore[attr-defined]
        return cls

    return enter
