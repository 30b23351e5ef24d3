"""What every mechanism can do, and what only the exact ones can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import float_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from labeldp.domain import Domain
    from labeldp.losses import Loss
    from labeldp.prior import Prior
    from labeldp.sampling import Randomness

    LossLike = str | Loss | Callable[[Floats, Floats], Floats]


class Mechanism(ABC):
    """A randomizer of single labels: a value object that holds no label, no key and no randomness.

    `exact` mechanisms decide every output by integers and may be released; the others are float mechanisms for
    comparison, and whatever releases labels refuses them.
    """

    kind: ClassVar[str]
    exact: ClassVar[bool]
    epsilon_exact: Fraction
    domain: Domain | None
    outputs: Floats

    @property
    def epsilon(self) -> float:
        """The ε of one label, rounded up to a float."""
        return float_up(self.epsilon_exact)

    @abstractmethod
    def randomize(self, labels: Any, ids: Any = None, randomness: Randomness | None = None) -> Floats:
        """One private label for each label."""

    @abstractmethod
    def conditional_loss(self, values: Floats, loss: LossLike = "squared") -> Floats:
        """E[ℓ(ŷ, y) | y] for each y in `values`, computed from the probabilities and never sampled."""

    @abstractmethod
    def conditional_moments(self, values: Floats) -> tuple[Floats, Floats]:
        """E[ŷ | y] and Var[ŷ | y] for each y in `values`."""

    def expected_loss(self, prior: Prior, loss: LossLike = "squared") -> float:
        """E[ℓ(ŷ, y)] with y from `prior`. "squared" is (ŷ − y)², without a half."""
        held = prior.masses > 0
        return float(prior.masses[held] @ self.conditional_loss(prior.values[held], loss))

    def bias(self, values: Any) -> Floats:
        """E[ŷ | y] − y."""
        points = np.asarray(values, np.float64)
        return self.conditional_moments(points)[0] - points

    def variance(self, values: Any) -> Floats:
        """Var[ŷ | y]."""
        return self.conditional_moments(np.asarray(values, np.float64))[1]

    @abstractmethod
    def to_json(self) -> str:
        """The complete public description."""

    @staticmethod
    def from_json(text: str) -> Mechanism:
        """The mechanism that `to_json` described. What was edited or cannot be proven is refused."""
        from labeldp.mechanisms.serial import mechanism_from_json

        return mechanism_from_json(text)

    def plot(self, prior: Prior | None = None, *, view: str = "bins", ax: Axes | None = None) -> Axes:
        """Outputs over the prior (`view="bins"`), or the joint density of true and private labels (`view="joint"`)."""
        from labeldp import plots

        drawn: Axes = plots.mechanism(self, prior, view=view, ax=ax)
        return drawn

    def _facts(self) -> dict[str, str]:
        """What a person wants to know at a glance, for `repr` and notebooks."""
        return {"epsilon": f"{self.epsilon:g}"}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in self._facts().items())})"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr><th>{escape(n)}</th><td>{escape(t)}</td></tr>" for n, t in self._facts().items())
        note = "exact: may be released" if self.exact else "comparison only: never released"
        return f"<table><caption>{type(self).__name__} ({note})</caption>{rows}</table>"
