"""The draw of noisy sums: a budget that is charged once, and the noise on exact sums of labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from labeldp.budget import Epsilon, abbreviated, exact_epsilon, float_up
from labeldp.domain import Domain
from labeldp.engines.passes import ExactSums, Integers
from labeldp.errors import InvalidInput
from labeldp.release.account import Account, ChargeRequest
from labeldp.release.grid_labels import HeldLabels, require_room
from labeldp.release.ledger import Ledger
from labeldp.release.noisy_sums import LARGEST_SUM, Answer, part_sizes, sensitivity_of
from labeldp.release_kind import SUMS, ReleaseKind
from labeldp.sampling.integer_noise import WIDEST, add_laplace, check_cube, cube_noise

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
