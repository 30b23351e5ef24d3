"""Bounds and a grid for the labels. The user gives them; they are never computed from the data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, check_unit, class_positions, label_array, number_array, offending_rows
from labeldp.errors import ClippingWarning, InvalidInput, described

MAX_CELLS = 2**32
MOST_DEFAULT_CELLS = 1001
FEWEST_DEFAULT_CELLS = 9
"""With fewer cells, rounding to the nearest cell shifts the mean of the labels by much of their standard deviation."""
MOST_CLIPPED = 0.05
"""A larger share of clipped labels gives a warning: the bounds, or their unit, may be wrong."""
REFUSED_CLIPPED = 0.2
"""A larger share of clipped labels is an error unless the user allows it: the bounds are almost certainly wrong."""
OutOfRange = Literal["clip", "clip-all", "error"]
LARGEST = 1e100
"""Bounds and their distance are zero, or from the inverse of this up to this: their squares and quotients are then finite floats."""
LONGEST_NAME = 100
"""The most characters in the name of a class."""
MOST_CLASSES = 20
"""The maximum number of classes: every additional class makes randomized response noisier."""
LARGEST_WHOLE = 2.0**53
"""Floats represent every whole number up to this one."""


@dataclass(frozen=True)
class Domain:
    """Public bounds on the labels, and the grid on which their distribution is estimated.

    A tuple `(lower, upper)` can be used in place of a domain.

    Parameters
    ----------
    lower, upper : float
        The bounds. Choose them from public knowledge: bounds computed from the labels would reveal labels.
    cells : int, optional
        The number of grid points, spread evenly from `lower` to `upper`, both included. By default it is chosen from
        the number of records and ε when a prior is estimated (see `resolve`), never from the labels.
    whole : bool, default False
        Whether it is public that all labels are whole numbers. Estimates then come with narrower intervals. Use
        `Domain.integers` to set it.
    unit : str, optional
        The unit of time of the bounds, the labels and all results, such as "hours" or "days". Durations are converted
        to it, and plain numbers are assumed to be in it. It is public and written into messages. The bounds may then be
        durations too.
    classes : tuple of str, optional
        The names of classes, which are public, in place of numbers: the label of a class is its index. Use
        `Domain.of_classes` to set it.

    Raises
    ------
    InvalidInput
        If the bounds are not finite, not in order, or too close for the number of cells, or if the unit is unknown.

    Examples
    --------
    >>> from labeldp import Domain
    >>> Domain(0, 400, cells=401).step
    1.0
    >>> Domain.integers(0, 52)
    Domain(0, 52, cells=53)

    Durations become numbers in the given unit:

    >>> import numpy as np
    >>> Domain(0, 48, unit="hours").check(np.array([90, 120], "timedelta64[m]"))
    array([1.5, 2. ])
    """

    lower: float
    upper: float
    cells: int | None = None
    whole: bool = field(default=False, compare=False)
    unit: str | None = None
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.unit is not None:
            check_unit(self.unit)
        for name in ("lower", "upper"):
            value = getattr(self, name)
            if isinstance(value, (timedelta, np.timedelta64)):
                value = label_array([value], "the bounds", self.unit)[0]
            if isinstance(value, (bool, str)) or not math.isfinite(_number(value, name)):
                raise InvalidInput(f"the domain's {name} bound must be a finite number, got {described(value)}")
            object.__setattr__(self, name, float(value))
        if not self.lower < self.upper:
            raise InvalidInput(
                f"the domain's lower bound must be below its upper bound, got lower = {self.lower:g}, upper = {self.upper:g}"
            )
        check_size([self.lower, self.upper], "the domain's bounds")
        if self.cells is not None:
            if not _is_whole(self.cells) or not 2 <= self.cells <= MAX_CELLS:
                raise InvalidInput(f"cells must be a whole number from 2 to 2^32, got {described(self.cells)}")
            object.__setattr__(self, "cells", int(self.cells))
            if not self.lower + self.step > self.lower or not self.upper - self.step < self.upper:
                raise InvalidInput(
                    f"{self.cells:,} cells between {self.lower!r} and {self.upper!r} are closer together than floats: give fewer cells"
                )
        if self.whole and not (self.lower.is_integer() and self.cells == self.upper - self.lower + 1):
            raise InvalidInput(
                f"whole labels need one cell per integer; use Domain.integers(lower, upper) instead of {self!r}"
            )
        if self.classes is not None:
            object.__setattr__(self, "classes", _names(self.classes))
            if not self.whole or self.unit is not None or (self.lower, self.upper) != (0, len(self.classes) - 1):
                raise InvalidInput("classes cannot have bounds or a unit: use Domain.of_classes(names)")

    @classmethod
    def integers(cls, lower: int, upper: int, unit: str | None = None) -> Domain:
        """Return the domain of the whole numbers from `lower` to `upper`, with one cell for each.

        Parameters
        ----------
        lower, upper : int
            The smallest and the largest label.
        unit : str, optional
            The unit of time of the labels.

        Returns
        -------
        Domain
            With `upper − lower + 1` cells, and `whole` set.
        """
        for name, value in (("lower", lower), ("upper", upper)):
            if abs(number := _number(value, name)) > LARGEST_WHOLE:
                raise InvalidInput(
                    f"the {name} bound of integer labels is too large: at most 2^53 in size, got {described(value)}"
                )
            if isinstance(value, bool) or number != value or not number.is_integer():
                raise InvalidInput(f"the {name} bound of integer labels must be a whole number, got {described(value)}")
        if not lower < upper:
            raise InvalidInput(f"integer labels need lower < upper, got {described(lower)}:{described(upper)}")
        return cls(lower, upper, int(upper) - int(lower) + 1, whole=True, unit=unit)

    @classmethod
    def of_classes(cls, names: Sequence[str]) -> Domain:
        """Return the domain of labels that are classes, such as "no" and "yes". The label of a class is its index.

        Parameters
        ----------
        names : sequence of str
            The names of 2 to 20 classes. They are public, and never computed from the labels.

        Returns
        -------
        Domain
            With one cell for each class.

        Examples
        --------
        >>> from labeldp import Domain
        >>> Domain.of_classes(["no", "yes"]).check(["yes", "no", "no"])
        array([1., 0., 0.])
        """
        classes = _names(names)
        return cls(0, len(classes) - 1, len(classes), whole=True, classes=classes)

    @classmethod
    def of(cls, domain: Domain | tuple[float, float]) -> Domain:
        """Return the domain itself, or the one with these bounds and no grid yet.

        Parameters
        ----------
        domain : Domain or tuple of (float, float)
            A domain, or its bounds.

        Returns
        -------
        Domain
            `domain` itself if it is one.

        Raises
        ------
        InvalidInput
            If it is neither. A default does not exist, because bounds must not come from the labels.
        """
        if isinstance(domain, Domain):
            return domain
        if domain is None:
            raise InvalidInput(
                "domain must be given, for example domain=(0, 400): bounds read off the labels would reveal them"
            )
        try:
            lower, upper = domain
        except (TypeError, ValueError):
            raise InvalidInput(f"domain must be a Domain or a (lower, upper) pair, got {described(domain)}") from None
        return cls(lower, upper)

    def to_json(self) -> list[Any]:
        """Return the fields as a list for JSON.

        Returns
        -------
        list
            `Domain(*fields)` makes the same domain.
        """
        if self.classes is not None:
            return [self.lower, self.upper, self.cells, True, None, list(self.classes)]
        named = [self.whole, self.unit] if self.unit is not None else [True] if self.whole else []
        return [self.lower, self.upper, self.cells, *named]

    @property
    def step(self) -> float:
        """The distance between neighbouring grid points."""
        return (self.upper - self.lower) / (self.count - 1)

    @property
    def grid(self) -> Floats:
        """The grid points, in increasing order."""
        return np.linspace(self.lower, self.upper, self.count)

    def resolve(self, records: int, epsilon: float) -> Domain:
        """Return this domain with a grid: its own, or n·ε²/100 cells, at least 9 and at most 1,001.

        With n·ε²/100 cells k, a prior costs at most a tenth of the budget: √(k/n) ≤ ε/10. With nine cells it costs up to
        half. Where nine would cost more (n·ε² < 36), the grid has n·ε²/4 cells, at least 2.

        Parameters
        ----------
        records : int
            The number of labels n, which is public.
        epsilon : float
            The budget for the prior and the labels together.

        Returns
        -------
        Domain
            With a number of cells.
        """
        if self.cells is not None:
            return self
        worth = records * epsilon**2
        fewest = max(2, min(FEWEST_DEFAULT_CELLS, worth / 4))
        return self.with_cells(int(min(MOST_DEFAULT_CELLS, max(fewest, worth / 100))))

    def with_cells(self, cells: int) -> Domain:
        """Return the same bounds and unit with another grid.

        Parameters
        ----------
        cells : int
            The number of grid points.

        Returns
        -------
        Domain
            With `whole` unset.
        """
        return replace(self, cells=cells, whole=False, classes=None)

    def check(self, labels: Any, out_of_range: OutOfRange = "clip") -> Floats:
        """Return the labels as finite floats within the bounds.

        Parameters
        ----------
        labels : array-like
            A list, or a NumPy, pandas, polars or Arrow array of numbers, or of durations if the domain has a unit.
            Plain numbers are assumed to be in that unit. Booleans become 0 and 1. For classes: their names. With two
            classes, booleans and the numbers 0 and 1 mean the first and the second class.
        out_of_range : {"clip", "clip-all", "error"}, default "clip"
            How to handle labels outside the bounds. "clip" moves them to the nearer bound, warns if they are more than
            5 %, and raises an error if they are more than 20 %. "clip-all" moves any number of them without a warning.
            "error" raises an error for a single one.

        Returns
        -------
        array of float64
            One number per label.

        Raises
        ------
        InvalidInput
            If a label is missing, not a number, or outside the bounds where that is an error. The message names the
            first such rows and never shows a label.

        Warns
        -----
        ClippingWarning
            If more than 5 % of the labels are moved.
        """
        check_out_of_range(out_of_range)
        if self.classes is not None:
            return class_positions(labels, self.classes)
        values = label_array(labels, unit=self.unit)
        self.require_whole(values)
        outside = (values < self.lower) | (values > self.upper)
        if not outside.any():
            return values
        if out_of_range == "error":
            raise InvalidInput(
                f"labels must lie from {self.lower:g} to {self.upper:g}: {offending_rows(outside)} outside. "
                'Widen the bounds, or use out_of_range="clip".'
            )
        self.judge_clipping(int(np.count_nonzero(outside)), values.size, out_of_range, stacklevel=3)
        return np.clip(values, self.lower, self.upper)

    def require_whole(self, labels: Floats, first_row: int = 0) -> None:
        """Raise `InvalidInput` if `whole` is set and a label is not a whole number.

        Estimates rely on it: with `whole` set, a label is known exactly once its cell is.

        Parameters
        ----------
        labels : array of float64
            The labels.
        first_row : int
            The index of the first of them in the whole input, for the message.

        Raises
        ------
        InvalidInput
            If `whole` is set and a label is not whole. The message names the first such row.
        """
        if self.whole and (broken := labels != np.rint(labels)).any():
            raise InvalidInput(
                f"labels must be whole numbers, as the bounds say: index {first_row + int(np.argmax(broken))} is not. Is the label "
                f"column the right one? For labels in between, a release is made with Domain({self.lower:g}, {self.upper:g}) "
                "(privatize --lower --upper)"
            )

    def require_every_class(self, counts: NDArray[np.int64]) -> None:
        """Raise `InvalidInput` if a named class does not occur in the labels: most likely it is misspelt.

        Parameters
        ----------
        counts : array of int
            The number of labels of each class.

        Raises
        ------
        InvalidInput
            If one of them is zero.
        """
        if self.classes is not None and not counts.all():
            absent = [name for name, count in zip(self.classes, counts, strict=True) if not count]
            only = "all labels are of one class, and a model needs two" if len(absent) + 1 == len(counts) else ""
            raise InvalidInput(
                f"{only or f'no label is of the class {absent[0]!r}'}. Nothing was released or charged. Check the label column and the names "
                f"of the classes ({', '.join(self.classes)}). This is about the true labels: keep it to yourself"
            )

    def judge_clipping(
        self, clipped: int, records: int, out_of_range: OutOfRange = "clip", *, stacklevel: int = 2
    ) -> None:
        """Warn if more than 5 % of the labels lie outside the bounds, and raise an error if more than 20 % do.

        A single label outside is never an error, so that a program can randomize records one by one.

        Parameters
        ----------
        clipped : int
            The number of labels outside the bounds.
        records : int
            The number of labels.
        out_of_range : {"clip", "clip-all", "error"}, default "clip"
            With "clip-all", any number of labels may be moved.
        stacklevel : int, default 2
            As in `warnings.warn`.

        Raises
        ------
        InvalidInput
            If more than 20 % of the labels lie outside, and at least two. The message does not show the share.

        Warns
        -----
        ClippingWarning
            If more than 5 % do.

        Privacy
        -------
        The share depends on the true labels and is not covered by ε. The warning states this, and the share is never
        part of a release.
        """
        if out_of_range == "clip-all" or clipped <= MOST_CLIPPED * records:
            return
        bounds = f"the bounds {self.lower:g} to {self.upper:g}{'' if self.unit is None else f' {self.unit}'}"
        if clipped > 1 and clipped > REFUSED_CLIPPED * records:
            raise InvalidInput(
                f"more than {REFUSED_CLIPPED:.0%} of the labels lie outside {bounds}. Nothing was released or charged. Check the "
                "label column, the bounds and their unit. To move all these labels to the bounds, use "
                'out_of_range="clip-all" (--out-of-range clip-all) or clip the labels yourself. This is about the true '
                "labels: keep it to yourself"
            )
        warnings.warn(
            f"{clipped / records:.1%} of the labels lie outside {bounds} and are moved to them. If that is not intended, choose "
            "wider bounds from what is publicly known. This share is about the true labels: keep it to yourself",
            ClippingWarning,
            stacklevel=stacklevel + 1,
        )

    def cell(self, labels: Any) -> NDArray[np.uint32]:
        """Return the index of the grid point nearest to each label.

        Parameters
        ----------
        labels : array-like of float
            The labels. Labels outside the bounds are assigned to the nearer end of the grid.

        Returns
        -------
        array of uint32
            Indices into `grid`.
        """
        values = number_array(labels, "labels")
        position = np.rint((np.clip(values, self.lower, self.upper) - self.lower) / self.step)
        return np.minimum(position, self.count - 1).astype(np.uint32)

    @property
    def count(self) -> int:
        """The number of cells. Raises `InvalidInput` if the grid is not set yet."""
        if self.cells is None:
            raise InvalidInput(
                f"{self!r} has no grid yet: give cells, as in Domain(0, 400, cells=401), or call resolve(records, epsilon)"
            )
        return self.cells

    def __repr__(self) -> str:
        grid = "" if self.cells is None else f", cells={self.cells}"
        unit = "" if self.unit is None else f", unit={self.unit!r}"
        if self.classes is not None:
            return f"Domain.of_classes({list(self.classes)!r})"
        return f"Domain({self.lower:g}, {self.upper:g}{grid}{unit})"


def _names(names: Any) -> tuple[str, ...]:
    """Return the names of classes as a tuple. Raise `InvalidInput` if they are not valid names."""
    given = list(names) if isinstance(names, (list, tuple, np.ndarray)) else []
    if not 2 <= len(given) <= MOST_CLASSES:
        raise InvalidInput(
            f'classes are a list of 2 to {MOST_CLASSES} names, such as ["no", "yes"]: got {len(given) or described(names)}'
        )
    for name in given:
        if (
            not isinstance(name, str)
            or not name.isprintable()
            or name != name.strip()
            or not 0 < len(name) <= LONGEST_NAME
        ):
            raise InvalidInput(
                f"the name of a class is 1 to {LONGEST_NAME} printable characters of text, without spaces around them"
            )
    if len(set(given)) < len(given):
        raise InvalidInput("two classes have the same name: name each class once")
    return tuple(map(str, given))


def named_classes(classes: NDArray[Any]) -> Domain:
    """Return the domain of classes of any type, whose names are their texts: 1.0 is the class 1."""
    return Domain.of_classes([str(int(each) if isinstance(each, float) else each) for each in classes.tolist()])


def check_size(values: Any, name: str) -> None:
    """Raise `InvalidInput` if numbers, or their range, are too large or too small to be squared or divided in floats.

    Parameters
    ----------
    values : array-like of float
        Finite numbers.
    name : str
        What they are, for the message.

    Raises
    ------
    InvalidInput
        If a number or the range is larger than 10^100, or smaller than 10^-100 and not zero.
    """
    numbers = np.asarray(values, np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    sizes = np.abs(np.append(numbers, high - low))
    if sizes.max() > LARGEST or sizes.min(where=sizes > 0, initial=1.0) < 1 / LARGEST:
        raise InvalidInput(
            f"{name} must be 0 or from {1 / LARGEST:g} to {LARGEST:g} in size, and so must their distance: give the "
            "labels in another unit"
        )


def _number(value: object, name: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"the domain's {name} bound must be a number, got {described(value)}") from None


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number of any numeric type."""
    try:
        return not isinstance(value, (bool, str)) and int(value) == value
    except (TypeError, ValueError, OverflowError):
        return False


def check_out_of_range(out_of_range: object) -> None:
    """Raise `InvalidInput` unless the value is "clip", "clip-all" or "error"."""
    if isinstance(out_of_range, str) and out_of_range in ("clip", "clip-all", "error"):
        return
    hint = (
        ". Labels are not dropped here: who is missing would show whose label lies outside, and ε does not cover that"
        if isinstance(out_of_range, str) and out_of_range in ("drop", "remove", "ignore", "skip", "exclude", "nan")
        else ""
    )
    raise InvalidInput(f'out_of_range must be "clip", "clip-all" or "error", got {described(out_of_range)}{hint}')
