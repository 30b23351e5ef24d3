"""The interface of all mechanisms, and the encoding of labels as symbols."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, frozen, number_array
from labeldp.budget import Priced
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.formatting import ReprMixin
from labeldp.json_text import expect_format, parse_json
from labeldp.losses import LossLike
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior
from labeldp.sampling import Randomness, count_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from typing import TYPE_CHECKING

from labeldp import plots
from labeldp.errors import described

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Symbols = NDArray[np.uint32]
LARGEST_OUTPUT = 1e150
"""The limit on outputs and thresholds, so that their squares are finite."""

FORMAT = "labeldp-mechanism"
FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class Thresholds:
    """An encoder by intervals: interval j contains the labels above exactly j thresholds. A label on a threshold is below it.

    The symbol is the index of the interval, or its entry in `symbol_of`.
    """

    thresholds: Floats
    symbol_of: Symbols | None = None

    def __post_init__(self) -> None:
        for name in ("thresholds", "symbol_of"):
            if (array := getattr(self, name)) is not None and array.ndim == 1:
                object.__setattr__(self, name, frozen(array))
        if self.thresholds.ndim != 1 or not (np.abs(self.thresholds) <= LARGEST_OUTPUT).all():
            raise InvalidInput(f"thresholds must be a flat list of numbers, none of them beyond {LARGEST_OUTPUT:g}")
        if (np.diff(self.thresholds) < 0).any():
            raise InvalidInput("thresholds must not decrease")
        if self.symbol_of is not None and self.symbol_of.size != self.thresholds.size + 1:
            raise InvalidInput("an encoder needs one symbol for each interval between its thresholds")

    @property
    def symbols(self) -> int:
        return self.thresholds.size + 1 if self.symbol_of is None else int(self.symbol_of.max()) + 1

    def encode(self, labels: Floats) -> Symbols:
        intervals = count_below(labels, self.thresholds)
        return intervals if self.symbol_of is None else self.symbol_of[intervals]

    def representatives(self) -> Floats:
        """Return one label for each interval: its upper threshold, and a label above the last threshold."""
        last = self.thresholds[-1] if self.thresholds.size else 0.0
        return np.append(self.thresholds, last + max(1.0, abs(last)))

    def canonical(self) -> bytes:
        chosen = b"" if self.symbol_of is None else self.symbol_of.astype("<u4").tobytes()
        return b"thresholds" + self.thresholds.astype("<f8").tobytes() + chosen


@dataclass(frozen=True, eq=False)
class Grid:
    """An encoder by the index of the nearest cell of a public grid."""

    domain: Domain

    @property
    def symbols(self) -> int:
        return self.domain.count

    def encode(self, labels: Floats) -> Symbols:
        return self.domain.cell(labels)

    def representatives(self) -> Floats:
        """Return one label for each cell."""
        return self.domain.grid

    def canonical(self) -> bytes:
        frame = np.asarray([self.domain.lower, self.domain.upper], "<f8").tobytes()
        return b"grid" + frame + self.domain.count.to_bytes(8, "little")


Encoder = Thresholds | Grid


class Mechanism(Priced, ReprMixin, ABC):
    """A randomizer of single labels: an immutable object without labels, keys or randomness.

    `exact` mechanisms draw every output by integers and may be released. The others are float mechanisms for comparison
    and cannot be released.

    Attributes
    ----------
    kind : str
        Its name on the command line and in JSON.
    exact : bool
        Whether it may be released.
    epsilon_exact : Fraction
        The ε of one label.
    domain : Domain or None
        The public bounds of the labels, if known.
    outputs : array
        The private labels, in the order of their codes.

    Examples
    --------
    >>> from labeldp.mechanisms import Mechanism, RROnBins
    >>> mechanism = RROnBins([10, 100], epsilon=1)
    >>> Mechanism.from_json(mechanism.to_json()) == mechanism
    True
    """

    kind: ClassVar[str]
    exact: ClassVar[bool]
    domain: Domain | None
    outputs: Floats

    @abstractmethod
    def randomize(self, labels: Any, ids: Any = None, randomness: Randomness | None = None) -> Floats:
        """Draw one private label for each label.

        Parameters
        ----------
        labels : array-like
            The true labels.
        ids : array-like, optional
            One id per record, for `KeyedRandomness`.
        randomness : OsEntropy or KeyedRandomness, optional
            Where the random bits come from; the operating system by default.

        Returns
        -------
        array of float64
            The private labels.

        Privacy
        -------
        ε-DP for each label, for exact mechanisms. Every call with the operating system's bits is a new release.
        """

    @abstractmethod
    def conditional_loss(self, values: Floats, loss: LossLike = "squared") -> Floats:
        """Return E[ℓ(ŷ, y) | y] for each label, computed from the probabilities, not sampled.

        Parameters
        ----------
        values : array-like
            Labels.
        loss : str, Loss or callable
            The loss.

        Returns
        -------
        array of float64
        """

    @abstractmethod
    def conditional_moments(self, values: Floats) -> tuple[Floats, Floats]:
        """Return E[ŷ | y] and Var[ŷ | y] for each label.

        Parameters
        ----------
        values : array-like
            Labels.

        Returns
        -------
        means, variances : arrays of float64
        """

    @abstractmethod
    def output_rows(self, values: Floats, edges: Floats) -> tuple[Floats, Floats]:
        """Return the outputs that each label can get and their probabilities, for plots.

        Parameters
        ----------
        values : array
            Labels.
        edges : array
            The borders of the plot's cells.

        Returns
        -------
        outputs, probabilities : arrays of float64
            One row per label.
        """

    def expected_loss(self, prior: Prior, loss: LossLike = "squared") -> float:
        """Return E[ℓ(ŷ, y)] with y from a prior, computed and not sampled.

        Parameters
        ----------
        prior : Prior
            The distribution of the labels.
        loss : str, Loss or callable
            The loss; "squared" is (ŷ − y)², without a half.

        Returns
        -------
        float
        """
        expect_prior(prior)
        held = prior.masses > 0
        return float(prior.masses[held] @ self.conditional_loss(prior.values[held], loss))

    def bias(self, values: Any) -> Floats:
        """Return E[ŷ | y] − y for each label.

        Parameters
        ----------
        values : array-like
            Labels.

        Returns
        -------
        array of float64
        """
        points = number_array(values, "values")
        return self.conditional_moments(points)[0] - points

    def variance(self, values: Any) -> Floats:
        """Return Var[ŷ | y] for each label.

        Parameters
        ----------
        values : array-like
            Labels.

        Returns
        -------
        array of float64
        """
        return self.conditional_moments(number_array(values, "values"))[1]

    def to_record(self) -> dict[str, Any]:
        """Return the complete public description as plain data.

        Returns
        -------
        dict
            Ready for JSON.
        """
        return {"format": FORMAT, "format_version": FORMAT_VERSION, "kind": self.kind} | self._description()

    @abstractmethod
    def _description(self) -> dict[str, Any]:
        """Return everything about the mechanism but its kind as plain data."""

    def to_json(self) -> str:
        """Return the complete public description.

        Returns
        -------
        str
            JSON.
        """
        return json.dumps(self.to_record(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    @abstractmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Return the mechanism from its parsed description, proven and checked again.

        Parameters
        ----------
        record : dict
            The JSON object that `to_json` wrote.

        Returns
        -------
        Mechanism
        """

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the mechanism that `to_json` described.

        `Mechanism.from_json` reads every kind, and each class only its own: `FiniteMechanism.from_json` rejects
        mechanisms that are for comparison only.

        Parameters
        ----------
        text : str
            The description.

        Returns
        -------
        Mechanism

        Raises
        ------
        InvalidInput
            If the description was edited or damaged, comes from another version, or is of another kind of mechanism.
        PrivacyRefused
            If its ε cannot be proven.
        """
        return cls.from_description(parse_json(text, "the mechanism"))

    @classmethod
    def from_description(cls, record: Any) -> Self:
        """Return the mechanism from its parsed description. Most callers need `from_json`.

        Parameters
        ----------
        record : dict
            The description as plain data. Other fields are ignored.

        Returns
        -------
        Mechanism
        """
        advice = ": give the mechanism.json of a message"
        expect_format(record, FORMAT, FORMAT_VERSION, "a labeldp mechanism", advice)
        entry = MECHANISMS.get(record.get("kind"))
        if entry is None or entry.cls is None:
            known = ", ".join(entry.name for entry in MECHANISMS if entry.cls is not None)
            raise InvalidInput(f"unknown mechanism {record.get('kind')!r}; known: {known}")
        try:
            made: Mechanism = entry.cls.from_record(record)  # type: ignore[attr-defined]
        except InvalidInput:
            raise
        except (AttributeError, KeyError, TypeError, IndexError, ArithmeticError, ValueError) as error:
            raise InvalidInput(
                f"the mechanism's description is damaged: {type(error).__name__} {error}. Copy the file again, or ask for it again"
            ) from error
        if not isinstance(made, cls):
            reason = "" if made.exact else ": it is for comparison only and cannot release labels"
            raise InvalidInput(f"the mechanism {made.kind} is not a {cls.__name__}{reason}")
        return made

    def plot(self, prior: Prior | None = None, *, view: str = "bins", ax: Axes | None = None) -> Axes:
        """Draw the mechanism with matplotlib.

        Parameters
        ----------
        prior : Prior, optional
            The distribution of the labels; the mechanism's own by default.
        view : {"bins", "joint"}
            The outputs over the prior, or the joint density of true and private labels.
        ax : matplotlib axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib axes
        """
        from labeldp.mechanisms.mechanism import plot_mechanism

        return plot_mechanism(self, prior, view, ax)

    def _facts(self) -> dict[str, str]:
        return {"epsilon": f"{self.epsilon:g}"}

    def _caption(self) -> str:
        return (
            f"{type(self).__name__} ({'exact: may be released' if self.exact else 'comparison only: never released'})"
        )


JOINT_CELLS = 80


def plot_mechanism(mechanism: Any, prior: Prior | None, view: str, ax: Axes | None) -> Axes:
    """Draw a mechanism, as `Mechanism.plot` documents."""
    known = prior if prior is not None else getattr(mechanism, "prior", None)
    name = f"{type(mechanism).__name__}, ε = {mechanism.epsilon:.4g}"
    if view == "bins":
        if not mechanism.exact:
            raise InvalidInput(f"{mechanism.kind} does not have bins: use view='joint'")
        entry = MECHANISMS.get(mechanism.kind)
        return plots.bins(
            mechanism.outputs,
            getattr(mechanism.encoder, "thresholds", np.empty(0)),
            None if known is None else (known.values, known.masses),
            chances=None if known is None else mechanism.output_chances(known),
            colour=plots.CURVES[0] if entry is None else entry.colour,
            title=f"{name}: {mechanism.outputs.size} outputs",
            ax=ax,
        )
    if view != "joint":
        raise InvalidInput(f'view must be "bins" or "joint", got {described(view)}')
    if known is None:
        raise InvalidInput("the joint density needs a prior: plot(prior, view='joint')")
    frame = mechanism.domain or Domain(float(known.values[0]), float(known.values[-1]))
    edges = np.linspace(frame.lower, frame.upper, JOINT_CELLS + 1)
    held = known.masses > 0
    labels = known.values[held], known.masses[held]
    title = f"{name}\nMSE {mechanism.expected_loss(known):,.1f}"
    outputs, chances = mechanism.output_rows(labels[0], edges)
    return plots.joint(labels, outputs, chances, edges, title=title, ax=ax)
