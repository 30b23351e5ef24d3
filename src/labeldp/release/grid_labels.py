"""Labels as whole numbers on a grid, and noisy sums of them.

`HeldLabels` and its exact sums are not private: these are the labels themselves. `draw_answer` adds the noise, and
`SumsBudget` pays for it once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import as_numpy, offending_rows
from labeldp.budget import Epsilon, abbreviated, exact_epsilon, float_up
from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.engines.passes import ExactSums, Integers, add_over_cells, centre_of, row_blocks, signed_sums, units_of
from labeldp.errors import InvalidInput, described, is_whole
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.release.account import Account, ChargeRequest
from labeldp.release.ledger import Ledger
from labeldp.release.noisy_sums import (
    LARGEST_SUM,
    MOST_SUMS,
    SCORES,
    Answer,
    Weighting,
    part_sizes,
    parts_of,
    sensitivity_of,
)
from labeldp.release.randomizer import numbered_persons
from labeldp.release_kind import SUMS, ReleaseKind
from labeldp.sampling.integer_noise import WIDEST, add_laplace, check_cube, cube_noise

FINE_CELLS = 2**20 + 1
"""The default number of cells. A fine grid costs nothing, because the noise of a sum does not depend on it."""

WIDEST_WEIGHTED = 1 << 39
"""The limit on grid points times the weight of a person, so that weighted sums against signs are exact."""

MOST_SIGNS = 1 << 16
"""The maximum number of columns of signs in one answer."""


class HeldLabels:
    """The labels of an experiment in grid units, clipped to a range that can only narrow.

    With persons, every sum and count is weighted, so that all rows of a person weigh at most `weight`.

    Privacy
    -------
    Every method returns exact sums, which are as sensitive as the labels.
    """

    def __init__(
        self, labels: Any, domain: Domain | tuple[float, float], out_of_range: OutOfRange, persons: Any = None
    ) -> None:
        check_out_of_range(out_of_range)
        bounds = Domain.of(domain)
        values = bounds.check(labels, out_of_range)
        require_several(values.size)
        self.domain = on_grid(bounds)
        self.records: int = values.size
        self.weighting: Weighting | None = None
        self.weights: Integers | None = None
        if persons is not None:
            self.weighting, self.weights = Weighting.of(numbered_persons(persons, self.records))
            if self.domain.count * self.weighting.each > WIDEST_WEIGHTED:
                raise InvalidInput("sums of persons need a domain with fewer cells: give it a million or fewer")
        require_room(self.total, self.domain)
        self.lower, self.upper = 0, self.domain.count - 1
        self.units: Integers = units_of(values, self.domain, self.lower, self.upper)
        self.residuals = self.scored = False
        self.place: int | None = None
        self._labels = self.units

    @property
    def weight(self) -> int:
        """The weight of a person, or 1 if the unit of privacy is a record."""
        return 1 if self.weighting is None else self.weighting.each

    @property
    def total(self) -> int:
        """The weight of all rows."""
        return self.records if self.weighting is None else self.weighting.total

    def clip(self, lower: int, upper: int) -> None:
        """Clip all units to a range within the present one."""
        for name, value in (("lower", lower), ("upper", upper)):
            if not is_whole(value):
                raise InvalidInput(f"the {name} end of a clip is a whole number of grid units, got {described(value)}")
        if not self.lower <= lower <= upper <= self.upper:
            raise InvalidInput(
                f"a clip can only narrow: its ends must lie in order from {self.lower:,} to {self.upper:,}, got {described(lower)} "
                f"and {described(upper)}"
            )
        # The order matters: after an interrupt in between, the noise is too wide. In the opposite order it would be too
        # narrow.
        np.clip(self.units, int(lower), int(upper), out=self.units)
        self.lower, self.upper = int(lower), int(upper)

    def of_class(self, place: int) -> Self:
        """Return these labels as 1 for the class at this index, and as 0 for all others."""
        classes = self.domain.classes or ()
        if len(classes) < 3:
            raise InvalidInput("labels are of one class or another only if they are of three classes or more")
        if not is_whole(place, 0, len(classes) - 1):
            raise InvalidInput(f"a class is given by its index, from 0 to {len(classes) - 1}, got {described(place)}")
        if self.place is None and (self.residuals or (self.lower, self.upper) != (0, len(classes) - 1)):
            raise InvalidInput(
                "labels are of one class or another only before they are clipped or residuals are summed"
            )
        # A copy, so that an interrupt cannot leave the labels of one class with the name of another, or a range that is too narrow.
        made = copy(self)
        made.place, made.lower, made.upper = int(place), 0, 1
        made.units = (self._labels == place).astype(np.int64)
        return made

    def subtract(self, expected: Integers, reach: int) -> Self:
        """Return a copy that has the difference of each label from a public number of units in its place, clipped at ±`reach`.

        Differences are always taken from the labels before the first call, even if this is called again.
        """
        if self.place is not None:
            raise InvalidInput("residuals are of labels, and whether labels are of one class is summed now")
        if not is_whole(reach, 1, (self.upper - self.lower) / 2):
            raise InvalidInput(
                f"residuals are clipped to a narrower range than the labels, of 2 to {self.upper - self.lower:,} units: "
                f"reach is half of it, got {described(reach)}"
            )
        if (
            expected.shape != self._labels.shape
            or expected.dtype != np.int64
            or ((expected <= -self.domain.count) | (expected >= self.domain.count)).any()
        ):
            raise InvalidInput(f"give a whole number of units within the grid for each of the {self.records:,} labels")
        found = copy(self)
        found.residuals, found.lower, found.upper = True, -int(reach), int(reach)
        found.units = np.clip(self._labels - expected, -int(reach), int(reach))
        return found

    def as_scores(self, scores: NormalScores) -> Self:
        """Return a copy that has the score of each label in its place, rounded to the grid of `SCORES`."""
        if self.residuals or self.scored or self.place is not None:
            raise InvalidInput("labels become scores once, and before numbers are subtracted from them")
        if not np.isfinite(scores.scores).all():
            raise InvalidInput("normal scores must be finite numbers")
        found = copy(self)
        values = scores.at(np.asarray(self.domain.lower + self.domain.step * self.units))
        lower, upper = (int(end) for end in SCORES.cell(np.clip(scores.scores[[0, -1]], SCORES.lower, SCORES.upper)))
        found.domain, found.scored, found.lower, found.upper = SCORES, True, lower, upper
        found.units = found._labels = units_of(values, SCORES, lower, upper)  # noqa: SLF001
        return found

    def histogram(self, parts: int) -> Integers:
        """Return the number, or the weight, of labels in each of `parts` equal parts of the grid."""
        return self._counted(parts_of(self.units, parts, self.domain.count), parts)

    def _counted(self, codes: NDArray[np.integer], size: int) -> Integers:
        """Return the number of records in each cell, or their weight."""
        return np.bincount(codes, self.weights, minlength=size).astype(np.int64)

    def over_cells(self, codes: list[NDArray[np.integer]], sizes: tuple[int, ...]) -> tuple[Integers, Integers]:
        """Return the sum of (unit − lower end of the clip) and the number of records of each cell, one partition after the other."""
        sums = [np.zeros(size, np.int64) for size in sizes]
        above = self.units - self.lower if self.weights is None else (self.units - self.lower) * self.weights
        for one, partition in zip(sums, codes, strict=True):
            add_over_cells(one, partition, above, 0)
        counts = [self._counted(one, size) for one, size in zip(codes, sizes, strict=True)]
        return np.concatenate(sums), np.concatenate(counts)

    def against_signs(self, signs: NDArray[np.integer]) -> tuple[Integers, Integers]:
        """Return the sum of sign·(unit − centre) and the sum of the signs of each column. Raise `InvalidInput` for signs other than ±1."""
        for rows in row_blocks(*signs.shape):
            if (abs(signs[rows]) != 1).any():
                bad = np.any((signs != 1) & (signs != -1), axis=1)
                raise InvalidInput(f"signs must be +1 or −1: {offending_rows(bad)} not")
        sums, counts = signed_sums(self.units, signs, centre_of(self.lower, self.upper), self.weights)
        return sums, counts


def on_grid(domain: Domain) -> Domain:
    """Return the domain with its grid, or with a fine default grid."""
    return domain if domain.cells is not None else domain.with_cells(FINE_CELLS)


def require_several(records: int) -> None:
    """Raise `InvalidInput` for fewer than two labels."""
    if records < 2:
        few = "there are no labels to sum" if records == 0 else "there is one label only"
        raise InvalidInput(f"{few}: sums are for at least two records. LabelRandomizer randomizes single labels")


def require_room(records: int, domain: Domain, grain: int = 1) -> None:
    """Raise `InvalidInput` if sums might overflow int64."""
    if records * domain.count * grain >= LARGEST_SUM:
        raise InvalidInput(
            f"sums of {records:,} labels on a grid of {domain.count:,} cells may not fit into 64-bit integers: give the domain "
            "fewer cells"
        )


def require_few(sums: int) -> None:
    """Raise `InvalidInput` for more sums than an answer may have."""
    if sums > MOST_SUMS:
        raise InvalidInput(f"one answer has at most {MOST_SUMS:,} sums, and {sums:,} were requested")


def checked_partitions(codes: Any, cells: Any, records: int) -> tuple[list[NDArray[np.integer]], tuple[int, ...]]:
    """Return partitions as a list of arrays of cell numbers, and the number of cells of each."""
    given = [_cell_numbers(one, records) for one in (codes if are_several(codes) else [codes])]
    if not given:
        raise InvalidInput("no partitions were given to sum over")
    alike = np.ndim(cells) == 0 if isinstance(cells, np.ndarray) else not isinstance(cells, (list, tuple))
    sizes = [cells] * len(given) if alike else list(cells)
    if len(sizes) != len(given):
        raise InvalidInput(f"cells must be one number for each of the {len(given)} partitions, got {len(sizes)}")
    for number, (one, size) in enumerate(zip(given, sizes, strict=True)):
        if not is_whole(size, 1):
            got = described(cells) if alike else f"{type(size).__name__} for partition {number}"
            raise InvalidInput(f"cells must be a whole number of at least 1, got {got}")
        outside = (one < 0) | (one >= size)
        if outside.any():
            raise InvalidInput(f"codes must be cell numbers from 0 to cells − 1: {offending_rows(outside)} outside")
    require_few(sum(map(int, sizes)))
    return given, tuple(map(int, sizes))


def are_several(codes: Any) -> bool:
    """Return whether these are several partitions: a list of arrays, or an array with one row for each."""
    if isinstance(codes, np.ndarray):
        return codes.ndim == 2
    first = codes[0] if isinstance(codes, (list, tuple)) and codes else None
    return hasattr(first, "__len__") and not isinstance(first, (str, bytes))


def _cell_numbers(codes: Any, records: int) -> NDArray[np.integer]:
    numbers = as_numpy(codes, "codes")
    if numbers.ndim != 1:
        raise InvalidInput(f"codes must be one cell number for each record, got an array of shape {numbers.shape}")
    if numbers.dtype.kind not in "iu":
        raise InvalidInput(f"codes must be whole numbers of an integer type, got {numbers.dtype}: convert them first")
    if numbers.size != records:
        raise InvalidInput(
            f"codes must have one cell number for each of the {records:,} labels, got {numbers.size:,}. Several partitions are a "
            "list of such arrays, or an array with one row for each"
        )
    return numbers


def checked_signs(signs: Any, records: int) -> NDArray[np.integer]:
    """Return signs as an array with a row for each record. Whether they are ±1 is checked when they are summed."""
    try:
        table: NDArray[Any] = np.asarray(signs)
    except (TypeError, ValueError):
        raise InvalidInput("signs must be an array with a row for each record and a column for each sum") from None
    if table.ndim != 2 or table.shape[0] != records or not 1 <= table.shape[1] <= MOST_SIGNS:
        raise InvalidInput(
            f"signs must be an array with {records:,} rows, one for each label, and 1 to {MOST_SIGNS:,} columns, got shape {table.shape}"
        )
    if table.dtype.kind != "i":
        raise InvalidInput(f"signs must be signed integers, +1 or −1, got {table.dtype}: use np.int8")
    return table


_SCALE_PER_SIGN = 4
"""Units are divided until the scale of cube noise is this multiple of the number of columns, so that most attempts succeed."""

ExactPass = Callable[[], tuple[Integers, Integers]]
"""A function that returns exact sums, and the public counts that belong to them. It is called after all checks and before the charge."""


class SumsBudget:
    """The budget of a release of sums for each record or person, and its remainder. The first draw charges all of it to the ledger.

    `reserved` is charged at the same time, for a release of the same labels that follows. Raises an error immediately if the ledger
    has less left. What remains for answers about single classes is half of what remains otherwise, for each class: a
    replaced label changes the answers about two of them.
    """

    def __init__(
        self,
        epsilon: Epsilon,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        unit: str = "record",
        reserved: Fraction = Fraction(0),
    ) -> None:
        self.epsilon = self.remaining = exact_epsilon(epsilon)
        self._of_classes: dict[int, Fraction] = {}
        self._account, self._charged = Account(self.epsilon + reserved, ledger, dataset, unit=unit), False
        self._account.require()

    def charge(self, domain: Domain, records: int) -> None:
        """Charge the whole ε to the ledger, once and permanently."""
        if not self._charged and self._account.ledger is not None:
            self._account.charge(sums_request(domain, records))
        self._charged = True

    def left(self, place: int | None = None) -> Fraction:
        """Return the budget that is left for answers about all labels, or about one class."""
        if place is None:
            return self.remaining - 2 * max(self._of_classes.values(), default=Fraction(0))
        return self.remaining / 2 - self._of_classes.get(place, Fraction(0))

    def spend(self, cost: Fraction, place: int | None = None) -> None:
        """Subtract the cost of an answer that is about to be drawn."""
        if place is None:
            self.remaining -= cost
        else:
            self._of_classes[place] = self._of_classes.get(place, Fraction(0)) + cost

    def share(self, epsilon: Epsilon, place: int | None = None) -> Fraction:
        """Return the ε of one answer. The remainder, a fraction of many digits, is also valid."""
        left = self.left(place)
        if isinstance(epsilon, Fraction) and 0 < epsilon <= left:
            return epsilon
        asked = exact_epsilon(epsilon)
        if asked > left:
            raise InvalidInput(
                f"this answer asks for ε = {abbreviated(epsilon)}, and {float(left):.6g} of "
                f"{float(self.epsilon):.6g} remains. Nothing was drawn. Ask for less, or for all that remains (queries.remaining)"
            )
        return asked


def sums_request(domain: Domain, records: int, kind: ReleaseKind = SUMS) -> ChargeRequest:
    """Return the ledger's record of a release of sums. It cannot be resumed: its noise is not a function of a key."""
    return ChargeRequest(kind, json.dumps({"domain": domain.to_json(), "records": records}))


def draw_answer(
    budget: SumsBudget,
    held: HeldLabels | ExactSums,
    kind: str,
    sizes: tuple[int, ...],
    exact: ExactPass,
    epsilon: Epsilon,
) -> Answer:
    """Draw one answer: integer Laplace noise on each number, or cube noise on all numbers together if they are against signs.

    Parameters
    ----------
    budget : SumsBudget
        The budget to charge. If a check fails, nothing is charged or drawn; after the charge nothing is refunded.
    held : HeldLabels or ExactSums
        The grid, the number of records and the clip.
    kind, sizes
        As in `Answer`.
    exact : callable
        The exact sums.
    epsilon : float, str, Decimal or Fraction
        The budget of the answer.
    """
    domain, clip, grain = held.domain, (held.lower, held.upper), 1
    place = held.place if isinstance(held, HeldLabels) else None
    asked = budget.share(epsilon, place)
    if kind == "signs":
        width = held.upper - held.lower
        while width and grain * held.weight * width < _SCALE_PER_SIGN * sizes[0] * asked:
            grain *= 2
        require_room(held.total, domain, grain)
    sensitivity = sensitivity_of(kind, clip, sizes, domain, grain * held.weight)
    scale = noise_scale(sensitivity, asked)
    if kind == "signs" and scale:
        check_cube(sizes[0], scale)
    sums, counts = exact()
    sums = sums * grain
    budget.charge(domain, held.records)
    if scale:
        budget.spend(sensitivity / Fraction(scale), place)
        noisy = sums + cube_noise(sizes[0], scale) if kind == "signs" else add_laplace(sums, scale)
        # Noise is clipped at 2^62 and sums are below 2^61, so clipping here is post-processing of the exact noisy sum.
        sums = np.clip(noisy, -LARGEST_SUM, LARGEST_SUM)
    what = (held.residuals, place, held.scored) if isinstance(held, HeldLabels) else (False, place, False)
    return Answer(kind, sums, scale, clip, counts, sizes, domain, grain, held.weight, *what)


def histogram_counts(held: HeldLabels, parts: int) -> ExactPass:
    """Return the exact pass of a histogram: the labels in equal parts of the grid, and the grid points of each part."""
    return lambda: (held.histogram(parts), part_sizes(parts, held.domain.count))


def noise_scale(sensitivity: int, epsilon: Fraction) -> float:
    """Return the smallest float whose exact cost, sensitivity/scale, is at most ε; 0.0 if one label changes nothing."""
    if sensitivity == 0:
        return 0.0
    if sensitivity / epsilon > WIDEST:
        raise InvalidInput(
            f"noise for ε = {abbreviated(epsilon)} on this grid may not fit into 64-bit integers: give the domain fewer cells, or "
            "a larger epsilon"
        )
    return float_up(sensitivity / epsilon)
