"""The interface of all losses: values, valid labels and outputs, and thresholds between two outputs. Also losses by name or function."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.catalogue import Catalogue
from labeldp.errors import InvalidInput, described
from labeldp.formatting import plain_number

_SHOWN = 3
C = TypeVar("C", bound=type)
_MOST_BISECTIONS = 1100  # enough for any two doubles
_TRIED = 25
_REFINEMENTS = 16  # to less than a thousandth of the distance between two tried answers
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class SquaredDistance:
    """ℓ = (g(ŷ) − g(y))² with g increasing: the minimiser is the weighted mean on the scale of g."""

    scale: Literal["identity", "log1p"] = "identity"


@dataclass(frozen=True)
class Deviance:
    """A Tweedie unit deviance of power 1 (Poisson) or 2 (gamma): the minimiser is the weighted mean."""

    power: Literal[1, 2]


@dataclass(frozen=True)
class PinballDistance:
    """ℓ = under·(y − ŷ) for labels above the output, over·(ŷ − y) below it: the minimiser is a weighted quantile."""

    under: float
    over: float


@dataclass(frozen=True)
class HuberDistance:
    """ℓ = half the squared distance up to `delta`, linear beyond: its derivative is increasing and piecewise linear."""

    delta: float


Structure = SquaredDistance | Deviance | PinballDistance | HuberDistance


@dataclass(frozen=True)
class Interval:
    """An interval of real numbers; infinite ends never belong to it.

    Parameters
    ----------
    lower, upper : float, optional
        The ends; infinite by default.
    lower_open, upper_open : bool, default False
        Whether the end itself lies outside.

    Examples
    --------
    >>> from labeldp.losses import Interval
    >>> positive = Interval(lower=0, lower_open=True)
    >>> print(positive)
    (0, inf)
    >>> positive.contains([0, 1]).tolist()
    [False, True]
    """

    lower: float = -math.inf
    upper: float = math.inf
    lower_open: bool = False
    upper_open: bool = False

    def contains(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return whether each of `values` is finite and inside.

        Parameters
        ----------
        values : array-like of float
            The numbers to look at.

        Returns
        -------
        array of bool
            One answer per number.
        """
        array = np.asarray(values, dtype=np.float64)
        above = array > self.lower if self.lower_open else array >= self.lower
        below = array < self.upper if self.upper_open else array <= self.upper
        return np.asarray(np.isfinite(array) & above & below)

    def check(self, values: npt.ArrayLike, what: str) -> None:
        """Raise `InvalidInput` if some of `values` lie outside; the message contains their indices, but never a value.

        Parameters
        ----------
        values : array-like of float
            The numbers to look at.
        what : str
            What the numbers are, for the message: "labels".
        """
        array: npt.NDArray[Any] = np.atleast_1d(np.asarray(values, dtype=np.float64))
        wrong = np.flatnonzero(~self.contains(array))
        if wrong.size:
            shown = ", ".join(str(i) for i in wrong[:_SHOWN])
            more = f" and {wrong.size - _SHOWN} more" if wrong.size > _SHOWN else ""
            raise InvalidInput(f"{what} must lie in {self}, which fails at index {shown}{more}")

    def __str__(self) -> str:
        left = "(" if self.lower_open or math.isinf(self.lower) else "["
        right = ")" if self.upper_open or math.isinf(self.upper) else "]"
        return f"{left}{self.lower:g}, {self.upper:g}{right}"


REALS = Interval()


@dataclass(frozen=True)
class LossEntry:
    """An entry of the catalogue of losses.

    Parameters
    ----------
    name : str
        The name as users write it, without a number: "pinball".
    help : str
        One line for `--help`.
    make : callable
        Makes the loss; takes the number if there is one.
    example : str
        The name as users write it, with a number if it takes one: "pinball(0.3)".
    seeks_mean : bool
        Whether the mean of the labels minimises the loss.
    rank : int
        The position in lists.
    """

    name: str
    help: str
    make: Callable[..., Any]
    example: str
    seeks_mean: bool = False
    rank: int = 50

    @property
    def takes_number(self) -> bool:
        """Whether the name is followed by a number in parentheses."""
        return "(" in self.example


LOSSES: Catalogue[LossEntry] = Catalogue("loss", "labeldp.losses")
"""Every named loss, by name."""


def loss(name: str, *, example: str | None = None, **facts: Any) -> Callable[[C], C]:
    """Return a class decorator that adds a loss to the catalogue; `facts` are the other fields of `LossEntry`."""

    def enter(cls: C) -> C:
        LOSSES.add(LossEntry(name, make=cls, example=example or name, **facts))
        return cls

    return enter


class Loss(ABC):
    """A loss ℓ(output, label) ≥ 0 that does not fall as output and label move apart (the paper's Assumption 1).

    Subclasses are frozen dataclasses, so equal losses compare and hash equal. A new loss needs a `name` and `__call__`. A
    `structure` makes optimal bins exact and fast, and a closed form of `threshold` saves its bisection.

    Attributes
    ----------
    name : str
        The text from which `get_loss` makes this loss again (except for callables).
    structure : object or None
        How to minimise the loss over an interval of outputs exactly. None means that it is minimised over a finite set of
        candidate outputs.
    valid_labels, valid_outputs : Interval
        The labels and outputs for which the loss is defined.

    Examples
    --------
    >>> from labeldp.losses import get_loss
    >>> loss = get_loss("squared")
    >>> loss([1, 2], 4).tolist()
    [9.0, 4.0]
    >>> float(loss.threshold(0, 10))
    5.0
    """

    valid_labels: ClassVar[Interval] = REALS
    valid_outputs: ClassVar[Interval] = REALS

    @property
    @abstractmethod
    def name(self) -> str:
        """The text from which `get_loss` makes this loss again (except for callables)."""

    @property
    def structure(self) -> Structure | None:
        """How to minimise the loss over an interval of outputs exactly, or None."""
        return None

    @property
    def kinks(self) -> tuple[float, ...]:
        """The distances from the label at which the loss has a kink, apart from the label itself."""
        return ()

    @abstractmethod
    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        """Return the loss of `output` when the true value is `label`, broadcast, in float64."""

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> Floats:
        """Return the label between two outputs at which both lose the same.

        It is found by bisection: under Assumption 1, the loss of the lower output relative to the higher one increases
        with the label.

        Parameters
        ----------
        low_output, high_output : array-like of float
            Outputs with `low_output <= high_output`, broadcast against each other.

        Returns
        -------
        array of float64
            Labels at or below it lose least at `low_output`, labels above it at `high_output`.
        """
        low, high = np.broadcast_arrays(as_float(low_output), as_float(high_output))
        left, right = low.copy(), high.copy()
        for _ in range(_MOST_BISECTIONS):
            middle = left + (right - left) / 2
            if np.all((middle <= left) | (middle >= right)):
                break
            low_wins = self(low, middle) <= self(high, middle)
            left, right = np.where(low_wins, middle, left), np.where(low_wins, right, middle)
        return as_float(left)

    def stretched(self, labels: Floats, mean: float) -> Floats | None:  # noqa: ARG002
        """Return the labels on a scale where equal errors have equal loss. `auto` designs mechanisms on this scale.

        Parameters
        ----------
        labels : array of float64
            Labels in increasing order.
        mean : float
            The mean of the labels' distribution.

        Returns
        -------
        array of float64 or None
            An increasing function of the labels. None, the default, means their normal scores.
        """
        return None

    def best_answers(self, outcomes: Floats) -> Floats:
        """Return the answer of least expected loss for each row of equally likely outcomes.

        Outcomes are tried as answers and the best one is refined, because the expected loss need not be convex.

        Parameters
        ----------
        outcomes : array of float64
            One row per question, each in increasing order.

        Returns
        -------
        array of float64
            One answer per row.
        """
        tried = outcomes[:, np.linspace(0, outcomes.shape[1] - 1, min(_TRIED, outcomes.shape[1])).round().astype(int)]
        risks = np.stack([self(tried[:, [j]], outcomes).mean(axis=1) for j in range(tried.shape[1])], axis=1)
        best = np.argmin(risks, axis=1)[:, None]
        low, high = (np.take_along_axis(tried, np.clip(best + step, 0, tried.shape[1] - 1), axis=1) for step in (-1, 1))
        for _ in range(_REFINEMENTS):  # golden section
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            lower_wins = self(left, outcomes).mean(axis=1) <= self(right, outcomes).mean(axis=1)
            low, high = np.where(lower_wins[:, None], low, left), np.where(lower_wins[:, None], right, high)
        return as_float((low + high)[:, 0] / 2)

    def check_assumption(self, values: npt.ArrayLike) -> None:  # noqa: B027 - proven for the named losses
        """Raise `InvalidInput` if the loss breaks Assumption 1 on the range of `values`.

        Parameters
        ----------
        values : array-like of float
            Labels in increasing order.
        """

    def __str__(self) -> str:
        return self.name


class DistanceLoss(Loss):
    """A loss of the distance |output − label| alone: the threshold is the midpoint."""

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> Floats:
        """Return the midpoint of two outputs.

        Parameters
        ----------
        low_output, high_output : array-like of float
            Outputs with `low_output <= high_output`, broadcast against each other.

        Returns
        -------
        array of float64
            Labels at or below it lose least at `low_output`, labels above it at `high_output`.
        """
        low = as_float(low_output)
        return as_float(low + (as_float(high_output) - low) / 2)


def as_float(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


LossLike = str | Loss | Callable[[Floats, Floats], Floats]
"""A loss as an argument: its name, a `Loss`, or a callable (output, label)."""

_GRID = 129
_TOLERANCE = 1e-9
_ROUNDING = 1e-14  # relative to the largest loss: rounding error where cancellation should give zero

# Rows are outputs and columns are labels. To the right of the diagonal, each view moves one of the two away from the
# other: the label upwards, the label downwards, the output upwards, the output downwards.
_VIEWS: tuple[Callable[[npt.NDArray[Any]], npt.NDArray[Any]], ...] = (
    lambda table: table,
    lambda table: table[::-1, ::-1],
    lambda table: table.T,
    lambda table: table.T[::-1, ::-1],
)


@dataclass(frozen=True)
class Custom(Loss):
    """A loss computed by a function.

    It must be finite, never negative, and must not fall as output and label move apart (Assumption 1 of the paper). It need
    not be convex.

    Parameters
    ----------
    function : callable
        Called as `function(output, label)` with arrays of one shape, or with plain numbers if it cannot take arrays.
    label : str, optional
        The name to show; the function's own name by default.

    Examples
    --------
    >>> from labeldp.losses import Custom
    >>> cubed = Custom(lambda output, label: abs(output - label) ** 3, "cubed")
    >>> float(cubed(1, 3))
    8.0
    """

    function: Callable[[Any, Any], Any]
    label: str = field(default="")

    @property
    def name(self) -> str:
        # Never the name of another loss, which a reader of a message would confuse with it.
        return f"function {self.label or getattr(self.function, '__name__', type(self.function).__name__)}"

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        outputs, labels = np.broadcast_arrays(as_float(output), as_float(label))
        # A function with np.where computes both branches everywhere, so its warnings are meaningless. The values are
        # checked later.
        with np.errstate(all="ignore"):
            try:
                value = as_float(self.function(outputs, labels))
            except (TypeError, ValueError):  # written for plain numbers
                value = np.vectorize(self.function, otypes=[np.float64])(outputs, labels)
        return np.broadcast_to(value, outputs.shape) if value.shape != outputs.shape else value

    def check_assumption(self, values: npt.ArrayLike) -> None:
        """Raise `InvalidInput` if the loss breaks Assumption 1 on a grid over the range of `values`.

        The relative tolerance is 1e-9. The message shows two points at which the loss falls.

        Parameters
        ----------
        values : array-like of float
            Labels in increasing order.
        """
        support = as_float(values)
        sample = support[np.linspace(0, support.size - 1, min(_GRID, support.size)).astype(np.int64)]
        grid = np.unique(np.concatenate([np.linspace(support[0], support[-1], _GRID), sample]))
        table = self(grid[:, None], grid[None, :])
        wrong = ~(np.isfinite(table) & (table >= 0))
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise InvalidInput(
                f"loss {self.name!r} is {table[i, j]} at output {grid[i]:g} and label {grid[j]:g}; "
                "a loss must be a finite number, 0 or more"
            )
        slack = _TOLERANCE * table + _ROUNDING * table.max()
        places = np.arange(table.size).reshape(table.shape)
        for turned in _VIEWS:
            losses = np.triu(turned(table))
            falls = np.argwhere(np.maximum.accumulate(losses, axis=1) - losses > turned(slack))
            if falls.size:
                fixed, far = falls[0]
                near = int(losses[fixed, : far + 1].argmax())
                self._refuse(grid, table, *turned(places)[fixed, [near, far]].tolist())

    def _refuse(self, grid: Floats, table: Floats, near: int, far: int) -> None:
        (a, b), (c, d) = divmod(near, grid.size), divmod(far, grid.size)
        raise InvalidInput(
            f"loss {self.name!r} falls as output and label move apart: it is {table[a, b]:.9g} at output {grid[a]:.9g} and "
            f"label {grid[b]:.9g}, but {table[c, d]:.9g} at output {grid[c]:.9g} and label {grid[d]:.9g}. Randomized response "
            "on bins is only optimal for losses that never do this (Assumption 1)"
        )


_FORM = re.compile(r"\s*([A-Za-z][A-Za-z_ -]*?)\s*(?:\(\s*([^()]*?)\s*\))?\s*")

_ELSEWHERE = {
    "squared": "mse rmse l2 ls mean-squared-error root-mean-squared-error squared-error least-squares square gaussian",
    "absolute": "mae l1 lad mean-absolute-error absolute-error median abs laplace",
    "pinball(0.5)": "quantile quantile-loss check",
    "squared-log": "msle rmsle mean-squared-log-error squared-log-error log",
    "poisson": "poisson-deviance mean-poisson-deviance count",
    "gamma": "gamma-deviance mean-gamma-deviance",
    "huber(1.5)": "smooth-l1 huber-loss",
}
"""The names of our losses in other libraries."""


def loss_examples() -> list[str]:
    """Return the names of all losses as users write them, with an example of the number where a loss takes one.

    Returns
    -------
    list of str
        Each is understood by `get_loss`.

    Examples
    --------
    >>> from labeldp.losses import loss_examples
    >>> loss_examples()[:3]
    ['squared', 'absolute', 'poisson']
    """
    return [entry.example for entry in LOSSES]


def get_loss(loss: LossLike) -> Loss:
    """Return the loss with that name, or the loss that a function computes.

    Parameters
    ----------
    loss : str, Loss or callable
        A name such as "squared" or "pinball(0.3)", a `Loss`, or a callable (output, label).

    Returns
    -------
    Loss
        `loss` itself if it is one already.

    Raises
    ------
    InvalidInput
        If the name is unknown. The message suggests the nearest one.

    Examples
    --------
    >>> from labeldp.losses import get_loss
    >>> float(get_loss("pinball(0.9)")(output=2, label=3))
    0.9
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        return _named(loss)
    if callable(loss):
        return Custom(loss)
    raise InvalidInput(
        f"loss must be a name, a Loss or a callable (output, label), got {described(loss)}. Names: {', '.join(loss_examples())}"
    )


def seeks_mean(loss: LossLike) -> bool:
    """Return whether the mean of the labels is the best answer.

    Parameters
    ----------
    loss : str, Loss or callable
        The loss.

    Returns
    -------
    bool

    Examples
    --------
    >>> from labeldp.losses import seeks_mean
    >>> seeks_mean("poisson"), seeks_mean("pinball(0.9)")
    (True, False)
    """
    entry = LOSSES.get(get_loss(loss).name)
    return entry is not None and entry.seeks_mean


def _named(text: str) -> Loss:
    form = _FORM.fullmatch(text)
    name, number = (form[1].lower().replace("_", "-"), form[2]) if form else (text, None)
    if LOSSES.get(name) is None:
        ours = next((ours for ours, others in _ELSEWHERE.items() if name.lower() in others.split()), None)
        if ours is not None:
            meant = re.sub(r"\(.*\)", f"({number})", ours) if number else ours
            raise InvalidInput(f"unknown loss {text!r}. Did you mean {meant!r}? Known: {', '.join(loss_examples())}.")
    entry = LOSSES[name]
    if not entry.takes_number:
        if number is not None:
            raise InvalidInput(f"loss {name!r} does not take a number, got {text!r}")
        arguments = []
    else:
        try:
            arguments = [plain_number(number, "its number")]
        except InvalidInput:
            raise InvalidInput(f"loss {name!r} needs a finite number, as in {entry.example!r}, got {text!r}") from None
    made: Loss = entry.make(*arguments)
    return made
