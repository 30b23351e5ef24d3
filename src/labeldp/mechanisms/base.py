"""What every mechanism can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from labeldp.arrays import Floats, number_array
from labeldp.budget import float_up
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.json_text import parse_json
from labeldp.losses import LossLike
from labeldp.mechanisms.catalogue import MECHANISMS
from labeldp.plots import joint
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior
from labeldp.sampling import Randomness
from labeldp.shown import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = "labeldp-mechanism"
FORMAT_VERSION = 1
JOINT_CELLS = 80


class Mechanism(Shown, ABC):
    """A randomizer of single labels: a frozen value that holds no label, no key and no randomness.

    `exact` mechanisms decide every output by integers and may be released. The others are float mechanisms for
    comparison, and whatever releases labels refuses them.

    Attributes
    ----------
    kind : str
        Its name on the command line and in JSON.
    exact : bool
        Whether it may be released.
    epsilon_exact : Fraction
        The ε of one label.
    domain : Domain or None
        The public bounds of the labels, where it knows them.
    outputs : array
        The private labels that it gives, in the order of their codes.

    Examples
    --------
    >>> from labeldp import Mechanism, RROnBins
    >>> mechanism = RROnBins([10, 100], epsilon=1)
    >>> Mechanism.from_json(mechanism.to_json()) == mechanism
    True
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
        """Draw one private label for each label.

        Parameters
        ----------
        labels : array-like
            The true labels.
        ids : array-like, optional
            One id a record, for `KeyedRandomness`.
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
        """E[ℓ(ŷ, y) | y] for each label, computed from the probabilities and never sampled.

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
        """E[ŷ | y] and Var[ŷ | y] for each label.

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
        """The outputs that each label can get and their probabilities, for plots.

        Parameters
        ----------
        values : array
            Labels.
        edges : array
            The borders of the plot's cells.

        Returns
        -------
        outputs, probabilities : arrays of float64
            One row a label.
        """

    def expected_loss(self, prior: Prior, loss: LossLike = "squared") -> float:
        """E[ℓ(ŷ, y)] with y from a prior, computed and not sampled.

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
        """E[ŷ | y] − y for each label.

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
        """Var[ŷ | y] for each label.

        Parameters
        ----------
        values : array-like
            Labels.

        Returns
        -------
        array of float64
        """
        return self.conditional_moments(number_array(values, "values"))[1]

    @abstractmethod
    def to_json(self) -> str:
        """The complete public description.

        Returns
        -------
        str
            JSON.
        """

    @classmethod
    @abstractmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """The mechanism from its parsed description, proven and checked again.

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
        """The mechanism that `to_json` described.

        `Mechanism.from_json` reads every kind, and each class only its own: `FiniteMechanism.from_json` refuses mechanisms for
        comparison only.

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
        """The mechanism from what `parse_json` made of its description; as `from_json`, which most callers need.

        Parameters
        ----------
        record : dict
            The description as plain data. Whatever else it holds is ignored.

        Returns
        -------
        Mechanism
        """
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InvalidInput(
                f"this JSON does not describe a labeldp mechanism (its format is not {FORMAT!r}): give the mechanism.json of a message"
            )
        if record.get("format_version") != FORMAT_VERSION:
            raise InvalidInput(
                f"the mechanism has format version {record.get('format_version')!r}, this labeldp reads "
                f"{FORMAT_VERSION}: install the version that wrote it, or a newer one"
            )
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
        shown = prior if prior is not None else getattr(self, "prior", None)
        if view == "bins":
            return self._plot_bins(shown, ax)
        if view != "joint":
            raise InvalidInput(f'view must be "bins" or "joint", got {described(view)}')
        if shown is None:
            raise InvalidInput("the joint density needs a prior: plot(prior, view='joint')")
        frame = self.domain or Domain(float(shown.values[0]), float(shown.values[-1]))
        edges = np.linspace(frame.lower, frame.upper, JOINT_CELLS + 1)
        held = shown.masses > 0
        labels = shown.values[held], shown.masses[held]
        title = f"{type(self).__name__}, ε = {self.epsilon:.4g}\nMSE {self.expected_loss(shown):,.1f}"
        return joint(labels, *self.output_rows(labels[0], edges), edges, title=title, ax=ax)

    def _plot_bins(self, prior: Prior | None, ax: Axes | None) -> Axes:  # noqa: ARG002
        raise InvalidInput(f"{self.kind} has no bins: use view='joint'")

    def _facts(self) -> dict[str, str]:
        return {"epsilon": f"{self.epsilon:g}"}

    def _caption(self) -> str:
        return (
            f"{type(self).__name__} ({'exact: may be released' if self.exact else 'comparison only: never released'})"
        )
