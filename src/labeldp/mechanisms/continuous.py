"""Float mechanisms on the real line, for comparison only: what they share.

Floats leak (Mironov 2012): the low bits of a noisy float can tell which label it came from. These mechanisms exist to
compare with the literature and draw from NumPy's generator; whatever releases labels refuses them.
Expectations are integrals, done by Gauss-Legendre quadrature between the points where a density or a loss bends.
"""

import json
import math
from abc import abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, label_array, number_array
from labeldp.budget import Epsilon, decimal_text, exact_epsilon, parse_amount
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.losses.structure import HuberDistance
from labeldp.mechanisms.base import FORMAT, FORMAT_VERSION, Mechanism

NODES = 20


class ContinuousMechanism(Mechanism):
    """A mechanism with a density on an interval and, where it clips, masses at the interval's ends.

    `outputs` holds the two ends of the range of outputs, infinite where nothing is clipped.
    """

    exact: ClassVar[bool] = False
    domain: Domain
    clip: bool

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon, *, clip: bool, **more: float) -> None:
        frame = Domain.of(domain)
        ends = np.asarray([frame.lower, frame.upper] if clip else [-math.inf, math.inf])
        ends.flags.writeable = False
        fields = {"domain": frame, "epsilon_exact": exact_epsilon(epsilon), "clip": clip, "outputs": ends, **more}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a mechanism is immutable: cannot set {name!r}; build a new one")

    @property
    def sensitivity(self) -> float:
        """How far two labels can be apart."""
        return self.domain.upper - self.domain.lower

    def randomize(self, labels: Any, ids: Any = None, randomness: Any = None) -> Floats:
        """Draw noisy labels for experiments, never for a release.

        Parameters
        ----------
        labels : array-like
            The labels.
        ids : None
            Not for float mechanisms.
        randomness : numpy Generator, optional
            A fresh one by default.

        Returns
        -------
        array of float64
        """
        if ids is not None:
            raise InvalidInput(f"{self.kind} is for comparison only: keyed randomness over ids is for exact mechanisms")
        generator = np.random.default_rng() if randomness is None else randomness
        if not isinstance(generator, np.random.Generator):
            raise InvalidInput(
                f"{self.kind} is a float mechanism for comparison: it draws from a numpy Generator, not from "
                f"{type(randomness).__name__}. For a release choose an exact mechanism, such as RROnBins."
            )
        return self._sample(self.domain.check(labels), generator)

    def conditional_loss(self, values: Floats, loss: LossLike = "squared") -> Floats:
        measure = get_loss(loss)
        points = label_array(values, "values")
        measure.valid_labels.check(points, "labels")
        if not self.clip and not measure.valid_outputs.contains(-1e300):
            return np.full(points.shape, math.inf)
        measure.valid_outputs.check(self.outputs[np.isfinite(self.outputs)], "outputs")
        nodes, weights = self._quadrature(points, _kinks(measure))
        losses = np.where(weights > 0, measure(nodes, points[:, None]), 0.0)  # infinite at a chance of 0 is 0
        return np.asarray((weights * losses).sum(axis=1))

    def conditional_moments(self, values: Floats) -> tuple[Floats, Floats]:
        nodes, weights = self._quadrature(np.atleast_1d(number_array(values, "values")), np.empty(0))
        mean = (weights * nodes).sum(axis=1)
        return mean, (weights * (nodes - mean[:, None]) ** 2).sum(axis=1)

    @abstractmethod
    def _sample(self, labels: Floats, generator: np.random.Generator) -> Floats: ...

    @abstractmethod
    def _density(self, noise: Floats) -> Floats:
        """Of ŷ − y, before clipping."""

    @abstractmethod
    def _tail(self, distance: Floats) -> Floats:
        """P[noise ≥ distance] for distance ≥ 0."""

    @abstractmethod
    def _breaks(self, reach: float) -> Floats:
        """Where the density bends or jumps, from 0 to `reach`; between them it is smooth."""

    @abstractmethod
    def _reach(self) -> float:
        """Noise beyond this does not count in double precision."""

    def _quadrature(self, values: Floats, kinks: Floats) -> tuple[Floats, Floats]:
        """Output nodes and probability weights, a row for each label; rows of weights sum to one."""
        low = self.domain.lower - values if self.clip else np.full(values.shape, -self._reach())
        high = self.domain.upper - values if self.clip else np.full(values.shape, self._reach())
        reach = self.sensitivity if self.clip else self._reach()
        side = np.concatenate([self._breaks(reach), kinks])
        side = side[side < reach]  # no label has noise beyond
        breaks = np.unique(np.concatenate([-side, side]))
        edges = np.clip(breaks[None, :], low[:, None], high[:, None])
        edges = np.concatenate([low[:, None], edges, high[:, None]], axis=1)
        nodes, weights = _legendre()
        half = np.diff(edges, axis=1)[:, :, None] / 2
        middle = (edges[:, :-1] + edges[:, 1:])[:, :, None] / 2
        noise = (middle + half * nodes).reshape(values.size, -1)
        mass = (half * weights).reshape(values.size, -1) * self._density(noise)
        outputs = values[:, None] + noise
        if self.clip:
            ends = np.broadcast_to(self.outputs, (values.size, 2))
            tails = np.stack([self._tail(-low), self._tail(high)], axis=1)
            outputs = np.clip(outputs, *self.outputs)  # a label plus noise may round to something beyond them
            outputs, mass = np.concatenate([outputs, ends], axis=1), np.concatenate([mass, tails], axis=1)
        return outputs, mass / mass.sum(axis=1, keepdims=True)

    def _parameters(self) -> dict[str, Any]:
        return {"clip": self.clip}

    def to_json(self) -> str:
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "epsilon": decimal_text(self.epsilon_exact, places=400),
            "domain": self.domain.to_json(),
            "details": self._parameters(),
        }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        return cls(Domain(*record["domain"]), parse_amount(record["epsilon"]), **record["details"])

    def output_rows(self, values: Floats, edges: Floats) -> tuple[Floats, Floats]:
        return self._quadrature(values, edges[1:-1] - edges[0])

    def _facts(self) -> dict[str, str]:
        return super()._facts() | {
            "domain": repr(self.domain),
            **{
                name: f"{value:.4g}" if isinstance(value, float) else str(value)
                for name, value in self._parameters().items()
            },
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContinuousMechanism) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())


def _kinks(loss: Loss) -> Floats:
    """Distances from the label where the loss bends, besides the label itself."""
    return np.asarray([loss.structure.delta] if isinstance(loss.structure, HuberDistance) else [], np.float64)


@lru_cache(maxsize=1)
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights
